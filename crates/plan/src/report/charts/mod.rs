//! Charts as inline SVG: plain shapes, colours by class so that they follow the page, details in titles.

mod live;
mod roofline;
mod stacked;
mod timeline;

pub(super) use live::live;
pub(super) use roofline::roofline;
pub(super) use stacked::{Segment, stacked};
pub(super) use timeline::{legend, timeline};

use super::text::text;
use crate::op_time::Bound;

/// Width of every chart in its own units; the page scales it.
const WIDTH: f64 = 1040.0;
/// Width of a character of the charts' text, at most.
const CHARACTER: f64 = 6.7;

/// A coordinate: finite, within reason, one digit after the point.
fn px(value: f64) -> String {
    let value = if value.is_finite() { value.clamp(-1e5, 1e5) } else { 0.0 };
    format!("{value:.1}")
}

/// The opening of a chart that says in words what it shows.
fn open(height: f64, label: &str) -> String {
    format!(
        "<div class=\"chart\"><svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n",
        px(height),
        text(label)
    )
}

const CLOSE: &str = "</svg></div>\n";

/// Class that gives a bound its colour.
pub(super) fn bound_class(bound: Bound) -> &'static str {
    match bound {
        Bound::Matrix => "c1",
        Bound::Vector => "c2",
        Bound::Hbm => "c3",
        Bound::Ici => "c5",
        Bound::Dcn => "c7",
        Bound::Host => "c8",
        Bound::Launch => "c0",
    }
}

/// Class that gives a class of memory its colour: the same in every report, whichever classes it has.
pub(super) fn memory_class(name: &str) -> &'static str {
    const KNOWN: [(&str, &str); 10] = [
        ("parameters", "c1"),
        ("arguments", "c1"),
        ("optimizer", "c2"),
        ("carried", "c4"),
        ("inputs", "c7"),
        ("outputs", "c8"),
        ("activations", "c3"),
        ("collective", "c5"),
        ("temporaries", "c6"),
        ("constants", "c9"),
    ];
    KNOWN.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or("c0", |(_, class)| class)
}

/// Round values from zero up to `most`, about `count` of them, in multiples of 1, 2 or 5 of a power of ten.
fn ticks(most: f64, count: f64) -> Vec<f64> {
    let rough = most / count;
    if !rough.is_finite() || rough <= 0.0 {
        return vec![0.0];
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    (0..64).map(|n| f64::from(n) * step).take_while(|value| *value <= most * 1.0001).collect()
}

/// Powers of ten that a range touches, the one below it and the one above it included.
fn decades(least: f64, most: f64) -> (i32, i32) {
    let low = least.max(1e-30).log10().floor() as i32;
    let high = (most.max(1e-30).log10().ceil() as i32).max(low + 1);
    (low, high.min(low + 24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(1.0, 4.0), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(16.0, 4.0), [0.0, 5.0, 10.0, 15.0]);
        assert_eq!(ticks(0.0, 4.0), [0.0]);
        assert_eq!(ticks(f64::NAN, 4.0), [0.0]);
        assert_eq!(decades(0.3, 2000.0), (-1, 4));
    }

    #[test]
    fn coordinates_are_finite() {
        assert_eq!([px(f64::NAN), px(f64::INFINITY), px(1.25)], ["0.0", "0.0", "1.2"]);
    }
}
