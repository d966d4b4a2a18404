//! Where TPUs can be had: the zones of each generation and the regions there are, read from a public catalogue.

use crate::generation::Generation;

/// Zones in which the catalogue (the same file as prices, 2026-08-22) offers a generation, by name; none where it lists none.
///
/// A zone that is not here may be new. Rows without a price of their own are left out.
pub fn zones(generation: Generation) -> &'static [&'static str] {
    match generation {
        Generation::V2 => {
            &["asia-east1-c", "europe-west4-a", "us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f"]
        }
        Generation::V3 => &["europe-west4-a", "us-central1-a", "us-central1-b", "us-central1-f", "us-east1-d"],
        Generation::V4 => &["us-central2-b"],
        Generation::V5e => &[
            "asia-east1-a",
            "asia-east1-b",
            "asia-east1-c",
            "asia-northeast1-b",
            "asia-southeast1-b",
            "europe-north1-a",
            "europe-north1-c",
            "europe-west1-b",
            "europe-west1-c",
            "europe-west3-c",
            "europe-west4-a",
            "europe-west4-b",
            "northamerica-northeast1-b",
            "southamerica-west1-b",
            "southamerica-west1-c",
            "us-central1-a",
            "us-east1-b",
            "us-east1-c",
            "us-east4-b",
            "us-east5-a",
            "us-east5-b",
            "us-east5-c",
            "us-south1-a",
            "us-south1-b",
            "us-west1-c",
            "us-west4-a",
            "us-west4-b",
        ],
        Generation::V5p => &[
            "europe-west1-b",
            "europe-west1-d",
            "europe-west4-b",
            "us-central1-a",
            "us-east1-d",
            "us-east5-a",
            "us-east5-b",
            "us-east5-c",
            "us-south1-a",
            "us-south1-b",
            "us-south1-c",
        ],
        Generation::V6e => &[
            "asia-northeast1-b",
            "asia-south1-b",
            "asia-south1-c",
            "asia-southeast1-b",
            "europe-west4-a",
            "southamerica-west1-a",
            "us-central1-a",
            "us-central1-b",
            "us-central1-c",
            "us-east1-d",
            "us-east4-a",
            "us-east5-a",
            "us-east5-b",
            "us-east5-c",
            "us-south1-a",
            "us-south1-c",
            "us-west1-c",
        ],
        Generation::Tpu7x => &[],
    }
}

/// Regions of Google Cloud in the same catalogue.
pub fn regions() -> &'static [&'static str] {
    &[
        "africa-south1",
        "asia-east1",
        "asia-east2",
        "asia-northeast1",
        "asia-northeast2",
        "asia-northeast3",
        "asia-south1",
        "asia-south2",
        "asia-southeast1",
        "asia-southeast2",
        "asia-southeast3",
        "australia-southeast1",
        "australia-southeast2",
        "europe-central2",
        "europe-north1",
        "europe-north2",
        "europe-southwest1",
        "europe-west1",
        "europe-west10",
        "europe-west12",
        "europe-west2",
        "europe-west3",
        "europe-west4",
        "europe-west6",
        "europe-west8",
        "europe-west9",
        "me-central1",
        "me-central2",
        "me-west1",
        "northamerica-northeast1",
        "northamerica-northeast2",
        "northamerica-south1",
        "southamerica-east1",
        "southamerica-west1",
        "us-central1",
        "us-central2",
        "us-east1",
        "us-east4",
        "us-east5",
        "us-south1",
        "us-west1",
        "us-west2",
        "us-west3",
        "us-west4",
    ]
}

/// Longest text compared, in bytes.
const MAX_BYTES: usize = 64;

/// Of known words the one that takes the fewest changed letters; none where every one differs in more than half.
pub fn nearest_word<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_BYTES {
        return None;
    }
    let best = known.into_iter().map(|other| (distance(word, other), other)).min_by_key(|(distance, _)| *distance);
    best.filter(|(distance, other)| *distance * 2 <= word.len().max(other.len())).map(|(_, other)| other)
}

/// Letters to insert, delete or change, upper and lower case alike.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase().into_bytes(), b.to_ascii_lowercase().into_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found() {
        let check = |word: &str, expected: Option<&str>| {
            assert_eq!(nearest_word(word, zones(Generation::V5p).iter().copied()), expected, "{word}");
        };
        check("us-east5a", Some("us-east5-a"));
        check("US-EAST5-C", Some("us-east5-c"));
        check("us-central1-b", Some("us-central1-a"));
        check("moon", None);
        check("", None);
        check(&"a".repeat(1000), None);
    }

    #[test]
    fn zones_are_of_regions_and_in_order() {
        assert!(regions().is_sorted());
        for generation in Generation::ALL {
            assert!(zones(generation).is_sorted(), "{generation}");
            for zone in zones(generation) {
                let (region, letter) = zone.rsplit_once('-').unwrap();
                assert!(regions().contains(&region) && letter.len() == 1, "{zone}");
            }
        }
    }
}
