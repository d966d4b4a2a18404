//! Errors of many predictions in two figures.

/// How far predictions are off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Half of the absolute errors are below.
    pub median: f64,
    /// Nine of ten absolute errors are below.
    pub p90: f64,
    /// Predictions.
    pub rows: usize,
}

impl Summary {
    /// Sums errors up; `None` where there are none.
    pub fn of(errors: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut sizes: Vec<f64> = errors.into_iter().map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let last = sizes.len().checked_sub(1)?;
        // Between the two nearest ranks.
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (sizes[place.floor() as usize], sizes[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Summary { median: at(0.5), p90: at(0.9), rows: sizes.len() })
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "median {:.1} %, p90 {:.1} %, rows {}", self.median * 100.0, self.p90 * 100.0, self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_ranks() {
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([-0.2]).unwrap().to_string(), "median 20.0 %, p90 20.0 %, rows 1");
        let ten = Summary::of((0..=10).map(|n| f64::from(n) / -100.0)).unwrap();
        assert!((ten.median - 0.05).abs() < 1e-12 && (ten.p90 - 0.09).abs() < 1e-12, "{ten:?}");
    }
}
