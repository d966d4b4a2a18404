//! Round to nearest: each value by itself, with the scale of its group found by search.

use weights::quant::PackedMatrix;

use crate::error::Error;
use crate::methods::grid::ScaleSearch;
use crate::methods::matrix::Matrix;
use crate::methods::packing::{code, pack};
use crate::methods::rounding::Rounding;
use crate::methods::statistics::InputStatistics;
use crate::methods::threads;

/// Rows that a thread rounds at a time.
const ROWS: usize = 16;

/// Rounds a weight to nearest. With statistics, the error that the clip is searched by is weighted by the inputs' mean
/// squares.
pub fn quantize(
    weight: &Matrix,
    rounding: &Rounding,
    statistics: Option<&InputStatistics>,
) -> Result<PackedMatrix, Error> {
    let grid = rounding.grid()?;
    if let Some(statistics) = statistics {
        statistics.check_for(weight.name(), weight.in_features())?;
    }
    // Weights of no importance at all would make every clip equal.
    let importance = statistics.map(InputStatistics::mean_square).filter(|squares| squares.iter().any(|s| *s > 0.0));
    let search = ScaleSearch { ratios: rounding.clip.ratios(), scale_type: rounding.scale_type };
    let group_size = rounding.group(weight.in_features());
    let done = threads::map_chunks(weight.out_features(), ROWS, |rows| {
        let mut codes = Vec::with_capacity(rows.len() * weight.in_features());
        let mut groups = Vec::new();
        let mut multiples = vec![0.0; group_size];
        for row in rows {
            for (n, values) in weight.row(row).chunks(group_size).enumerate() {
                let importance = importance.as_ref().map(|all| &all[n * group_size..][..values.len()]);
                let group = grid.fit(values, importance, &search);
                let multiples = &mut multiples[..values.len()];
                grid.nearest_all(values, group, multiples);
                codes.extend(multiples.iter().map(|multiple| code(&grid, rounding, *multiple, group)));
                groups.push(group);
            }
        }
        (codes, groups)
    });
    let (codes, groups): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    pack(weight, rounding, codes.concat(), &groups.concat(), None)
}
