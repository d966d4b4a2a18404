//! Compiler flags: the names libtpu 0.0.51 accepts for one compilation, to suggest what was meant.
//!
//! The plugin decides what it accepts; this list only helps when it refuses.

/// One name a line, sorted.
const KNOWN: &str = include_str!("../data/libtpu-0.0.51-flags.txt");

/// The compiler's HBM budget.
pub const HBM_LIMIT_MIB: &str = "xla_tpu_max_hbm_size_mib";

/// Known flags.
pub fn known() -> impl Iterator<Item = &'static str> {
    KNOWN.lines()
}

/// Whether libtpu takes a flag of this name for one compilation.
pub fn is_known(name: &str) -> bool {
    known().any(|flag| flag == name)
}

/// Up to three known flags that look like `name`, nearest first.
pub fn similar(name: &str) -> Vec<String> {
    let name: String = name.chars().take(200).collect();
    let near = name.len() / 4 + 1;
    let mut found: Vec<(usize, &str)> =
        known().map(|flag| (distance(&name, flag), flag)).filter(|(d, _)| *d <= near).collect();
    found.sort();
    if found.is_empty() {
        // A half-remembered name: flags that contain its longest word, and most of the others.
        let words: Vec<&str> = name.split('_').filter(|w| !w.is_empty() && !["xla", "tpu"].contains(w)).collect();
        let longest = words.iter().max_by_key(|w| w.len()).copied().unwrap_or("");
        if longest.len() >= 4 {
            let missing = |flag: &str| words.iter().filter(|word| !flag.contains(**word)).count();
            found = known().filter(|flag| flag.contains(longest)).map(|flag| (missing(flag), flag)).collect();
            found.sort_by_key(|(missing, flag)| (*missing, flag.len()));
        }
    }
    found.into_iter().take(3).map(|(_, flag)| flag.to_string()).collect()
}

/// Whether one name may be meant by the other.
pub fn is_near(name: &str, meant: &str) -> bool {
    let name: String = name.chars().take(200).collect();
    distance(&name, meant) <= name.len() / 4 + 1
}

/// Edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_what_was_meant() {
        assert_eq!(similar("xla_tpu_scoped_vmem_limit_kb")[0], "xla_tpu_scoped_vmem_limit_kib");
        assert!(similar("async_collective_fusion").iter().any(|f| f.contains("collective")));
        assert_eq!(similar("xla_tpu_scoped_vmem")[0], "xla_tpu_scoped_vmem_limit_kib");
        assert!(similar("zzzz").is_empty());
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
