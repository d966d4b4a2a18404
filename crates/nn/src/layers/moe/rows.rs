//! Dispatch and combine of experts: which rows tokens take, and the way back. Vectors are only ever gathered, in both directions.

use tensor::DType;
use trace::{Tensor, Tree, custom_vjp};

/// Rows of experts, one after the other, and whose they are. Choices lie first choices first: `[chosen, positions]`.
#[derive(Clone, Debug, Tree)]
pub(super) struct Rows {
    /// The row of each choice, `i32 [chosen, positions]`; any row where the choice has none.
    row: Tensor,
    /// Which choices have a row, `[chosen, positions]`; all if absent.
    placed: Option<Tensor>,
    /// The choice of each row, `i32 [rows]`; any where the row is nobody's.
    choice: Tensor,
    /// Which rows are somebody's, `[rows]`.
    taken: Tensor,
}

/// Where a choice's row lies before it is known whether there is one.
struct RowPositions {
    /// Of each choice, `i32 [choices]`.
    row: Tensor,
    /// Whether there is one, `[choices]`.
    fits: Tensor,
}

/// Which choices there are of each expert.
struct Counted {
    /// 1 where a choice is of an expert, `i32 [experts, choices]`.
    is_of: Tensor,
    /// The place of a choice among those of its expert, `i32 [experts, choices]`; any where it is of another.
    place: Tensor,
}

impl Counted {
    /// Of choices `i32 [choices]` between so many experts.
    fn of(flat: &Tensor, experts: usize) -> Counted {
        let dims = [experts, flat.dim(0)];
        // Experts before choices: rows of a few numbers would be padded in memory to a hundred.
        let is_of = flat.expand(0).broadcast_to(&dims).equals(&Tensor::iota(DType::I32, &dims, 0)).cast(DType::I32);
        let place = is_of.cumulative_sum(1) - Tensor::ones(DType::I32, &[]);
        Counted { is_of, place }
    }
}

impl Rows {
    /// Each of `experts` has room for `capacity` choices, of `i32 [chosen, positions]`; later ones are left out.
    pub(super) fn with_capacity(choices: &Tensor, experts: usize, capacity: usize) -> Rows {
        let counted = Counted::of(&flat(choices), experts);
        let place = (&counted.place * &counted.is_of).sum(&[0]);
        let fits = place.less(&Tensor::scalar(DType::I32, capacity as f64));
        let row = &(&flat(choices) * capacity as f64) + &place;
        Rows::at(choices, &RowPositions { row, fits }, experts * capacity)
    }

    /// All choices of `experts` from a first one on, sorted by expert, of `i32 [chosen, positions]`; and how many each has, `i32
    /// [experts]`. A position has no expert twice.
    pub(super) fn sorted(choices: &Tensor, experts: usize, first: Option<&Tensor>, rows: usize) -> (Rows, Tensor) {
        let own = match first {
            Some(first) => &flat(choices) - first,
            None => flat(choices),
        };
        let counted = Counted::of(&own, experts);
        let sizes = counted.is_of.sum(&[1]);
        let begins = sizes.cumulative_sum(0) - &sizes;
        let row = (&(&counted.place + &begins.expand(-1)) * &counted.is_of).sum(&[0]);
        let fits = counted.is_of.max(&[0]).equals(&Tensor::ones(DType::I32, &[]));
        let sorted = Rows::at(choices, &RowPositions { row, fits }, rows);
        // Without other experts every choice has a row.
        (Rows { placed: sorted.placed.filter(|_| first.is_some()), ..sorted }, sizes)
    }

    fn at(choices: &Tensor, positions: &RowPositions, rows: usize) -> Rows {
        let count = choices.num_elements();
        // Places outside are left out of what is written.
        let outside = Tensor::scalar(DType::I32, rows as f64);
        let to = positions.fits.select(&positions.row, &outside);
        let nobody = Tensor::full(DType::I32, &[rows], count as f64);
        let choice = put(&nobody, &to, &Tensor::iota(DType::I32, &[count], 0));
        let limit = Tensor::scalar(DType::I32, count as f64);
        let taken = choice.less(&limit);
        let choice = taken.select(&choice, &Tensor::zeros(DType::I32, &[]));
        let by_choice = |tensor: &Tensor| tensor.reshape(choices.dims());
        let row = positions.fits.select(&positions.row, &Tensor::zeros(DType::I32, &[]));
        Rows { row: by_choice(&row), placed: Some(by_choice(&positions.fits)), choice, taken }
    }

    /// The position of each row.
    fn position(&self) -> Tensor {
        let positions = Tensor::scalar(DType::I32, self.row.dim(1) as f64);
        self.choice.remainder(&positions)
    }

    /// Rows `[rows, width]` of positions `[positions, width]`; those of nobody are some position's.
    pub(super) fn of_positions(&self, x: &Tensor) -> Tensor {
        custom_vjp(
            &(x.clone(), self.clone()),
            |(x, rows)| x.take(0, &rows.position()),
            |(_, rows): &(Tensor, Rows), _, ct| (rows.summed(ct), rows.map_leaves(Tensor::zeros_like)),
        )
    }

    /// Numbers of rows `[rows]` of those of choices `[chosen, positions]`; 0 for those of nobody.
    pub(super) fn of_choices(&self, numbers: &Tensor) -> Tensor {
        custom_vjp(
            &(numbers.clone(), self.clone()),
            |(numbers, rows)| {
                let found = flat(numbers).take(0, &rows.choice);
                rows.taken.select(&found, &found.zeros_like())
            },
            |(_, rows): &(Tensor, Rows), _, ct| {
                let found = ct.take(0, &rows.row);
                (rows.kept(&found), rows.map_leaves(Tensor::zeros_like))
            },
        )
    }

    /// For each position of `[positions, width]` the sum of its rows of `[rows, width]`.
    pub(super) fn to_positions(&self, y: &Tensor) -> Tensor {
        custom_vjp(
            &(y.clone(), self.clone()),
            |(y, rows)| rows.summed(y),
            // Rows of nobody get what some position gets: nothing goes on from there, as their weight is 0.
            |(_, rows): &(Tensor, Rows), _, ct| (ct.take(0, &rows.position()), rows.map_leaves(Tensor::zeros_like)),
        )
    }

    fn summed(&self, rows: &Tensor) -> Tensor {
        self.kept(&rows.take(0, &self.row)).sum(&[0])
    }

    /// With zeros for choices that have no row: `[chosen, positions, ...]`.
    fn kept(&self, of_choices: &Tensor) -> Tensor {
        let Some(placed) = &self.placed else { return of_choices.clone() };
        let placed = if of_choices.rank() > placed.rank() { placed.expand(-1) } else { placed.clone() };
        placed.broadcast_to(of_choices.dims()).select(of_choices, &of_choices.zeros_like())
    }
}

fn flat(by_choice: &Tensor) -> Tensor {
    by_choice.reshape(&[by_choice.num_elements()])
}

/// `to` with `values[i]` at `at[i]`.
fn put(to: &Tensor, at: &Tensor, values: &Tensor) -> Tensor {
    let dims = hlo::dims::ScatterDims {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..hlo::dims::ScatterDims::default()
    };
    to.scatter(at, values, dims, trace::Update::Set)
}
