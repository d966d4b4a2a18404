//! Which modules a list of names, patterns (`re:…`) and classes means, as compressed-tensors matches them.

use regex::Regex;

use crate::quant::refusal::Refusal;

/// Longest pattern that is compiled.
const MAX_PATTERN_BYTES: usize = 10_000;

/// Memory a compiled pattern may take.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// How exactly a module is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    /// By its class.
    Class,
    /// By a pattern.
    Pattern,
    /// By its name.
    Name,
}

#[derive(Clone, Debug)]
enum Target {
    /// A name of a module, or of a class of modules.
    Name(String),
    Pattern(Regex),
}

/// Names, patterns and classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets(Vec<Target>);

impl Targets {
    pub(crate) fn parse(targets: &[&str]) -> Result<Targets, Refusal> {
        let one = |target: &&str| match target.strip_prefix("re:") {
            None => Ok(Target::Name(target.to_string())),
            Some(pattern) => {
                let refused = |why: String| {
                    Refusal::new(
                        format!("the pattern `{}` is not read: {why}", pattern.chars().take(80).collect::<String>()),
                        "write it without look-around and back references, or name the modules",
                    )
                };
                if pattern.len() > MAX_PATTERN_BYTES {
                    return Err(refused(format!("it has {} bytes", pattern.len())));
                }
                // Python's `re.match`: at the beginning, and not to the end.
                let regex = regex::RegexBuilder::new(&format!("^(?:{pattern})")).size_limit(MAX_COMPILED_BYTES).build();
                regex.map(Target::Pattern).map_err(|error| {
                    let text = error.to_string();
                    refused(text.lines().last().unwrap_or("malformed").trim().to_string())
                })
            }
        };
        targets.iter().map(one).collect::<Result<_, _>>().map(Targets)
    }

    /// How exactly a module is among them.
    pub(crate) fn matches(&self, module: &str) -> Option<Match> {
        let one = |target: &Target| match target {
            Target::Name(name) if name == module => Some(Match::Name),
            Target::Name(class) => (class == class_of(module)).then_some(Match::Class),
            Target::Pattern(pattern) => pattern.is_match(module).then_some(Match::Pattern),
        };
        self.0.iter().filter_map(one).max()
    }
}

/// The class of a module that has a quantized weight.
fn class_of(module: &str) -> &'static str {
    let last = module.rsplit('.').next().unwrap_or(module);
    if last.contains("embed") || last == "wte" { "Embedding" } else { "Linear" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_matched_as_by_their_tool() {
        let check = |targets: &[&str], module: &str, expected: Option<Match>| {
            assert_eq!(Targets::parse(targets).unwrap().matches(module), expected, "{targets:?} {module}");
        };
        check(&["Linear"], "model.layers.0.mlp.up_proj", Some(Match::Class));
        check(&["Linear"], "model.embed_tokens", None);
        check(&["Embedding"], "model.embed_tokens", Some(Match::Class));
        check(&["Linear", "re:.*up_proj"], "model.layers.0.mlp.up_proj", Some(Match::Pattern));
        check(&["re:layers"], "model.layers.0", None);
        check(&["re:model"], "model.layers.0", Some(Match::Pattern));
        check(&["lm_head", "re:.*"], "lm_head", Some(Match::Name));
        check(&[], "lm_head", None);
        for pattern in ["re:(?!x)y", "re:(", "re:(a{1000}){1000}", &format!("re:{}", "a".repeat(20_000))] {
            assert!(Targets::parse(&[pattern]).is_err());
        }
    }
}
