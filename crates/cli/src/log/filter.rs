//! Which events are logged: a level for all, and levels for targets.

use tracing::Metadata;
use tracing::level_filters::LevelFilter;

/// Levels by target, as `warn,runtime=debug` says them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filter {
    /// For targets that no rule names.
    others: LevelFilter,
    /// Targets with what is below them; the last that names a target counts.
    targets: Vec<(String, LevelFilter)>,
}

impl Filter {
    /// Reads levels and `target=level`, separated by commas; the error is the part that is neither.
    pub(super) fn parse(text: &str) -> Result<Filter, String> {
        let mut filter = Filter { others: LevelFilter::OFF, targets: Vec::new() };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (target, level) = part.split_once('=').unwrap_or(("", part));
            // The library reads no text at all as `error`.
            let level = Some(level.trim()).filter(|level| !level.is_empty()).and_then(|level| level.parse().ok());
            let level = level.ok_or_else(|| part.to_string())?;
            match target.trim() {
                "" if part.contains('=') => return Err(part.to_string()),
                "" => filter.others = level,
                target => {
                    filter.targets.retain(|(known, _)| known != target);
                    filter.targets.push((target.to_string(), level));
                }
            }
        }
        // The most exact first.
        filter.targets.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        Ok(filter)
    }

    /// Whether events and spans of this kind are logged.
    pub(super) fn enables(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level(metadata.target())
    }

    /// The most that any target logs.
    pub(super) fn most(&self) -> LevelFilter {
        self.targets.iter().map(|(_, level)| *level).fold(self.others, LevelFilter::max)
    }

    fn level(&self, target: &str) -> LevelFilter {
        let found = self.targets.iter().find(|(named, _)| target.starts_with(named.as_str()));
        found.map_or(self.others, |(_, level)| *level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_target_counts() {
        let filter = Filter::parse("a=trace, warn,a::b=error,,c=off").unwrap();
        for (target, level) in [
            ("a", LevelFilter::TRACE),
            ("a::x", LevelFilter::TRACE),
            ("a::b::c", LevelFilter::ERROR),
            ("c", LevelFilter::OFF),
            ("other", LevelFilter::WARN),
        ] {
            assert_eq!(filter.level(target), level, "{target}");
        }
        assert_eq!(filter.most(), LevelFilter::TRACE);
        assert_eq!(Filter::parse("a=info,a=debug").unwrap().level("a"), LevelFilter::DEBUG);
        assert_eq!(Filter::parse("a=info").unwrap().level("b"), LevelFilter::OFF);
        for wrong in ["==", "=warn", "loud", "a=loud", "warn,a="] {
            assert!(Filter::parse(wrong).is_err(), "{wrong}");
        }
    }
}
