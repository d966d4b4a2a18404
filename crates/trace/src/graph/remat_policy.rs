//! Rematerialization policies: what a checkpoint saves for the backward pass, and how configuration files write it.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// What a [`checkpoint`](crate::checkpoint) saves for the backward pass; the rest is rematerialized (recomputed).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum RematPolicy {
    /// No rematerialization: everything is saved, as without a checkpoint.
    #[default]
    #[serde(alias = "save_everything")]
    None,
    /// Full rematerialization: nothing is saved but the inputs.
    #[serde(alias = "save_nothing")]
    Full,
    /// Saves the results of matmuls and convolutions, which cost the most to recompute.
    Dots,
    /// Saves the results of matmuls without batch dimensions: those with weights, but not those of attention.
    DotsWithNoBatchDims,
    /// Saves the values marked by [`Tensor::named`](crate::Tensor::named) with one of these names.
    SaveOnlyTheseNames(Vec<String>),
    /// As [`RematPolicy::SaveOnlyTheseNames`], with some values offloaded to host memory until the backward pass needs them.
    Offload {
        /// Names of the values that are offloaded to the host.
        host: Vec<String>,
        /// Names of the values that stay on the device.
        #[serde(default)]
        device: Vec<String>,
    },
    /// Full rematerialization of groups of so many stacked layers: only the input of each group is saved. The number divides
    /// the number of layers. For a single checkpoint it is [`RematPolicy::Full`].
    EveryLayers(usize),
}

impl fmt::Display for RematPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RematPolicy::None => f.write_str("none"),
            RematPolicy::Full => f.write_str("full"),
            RematPolicy::Dots => f.write_str("dots"),
            RematPolicy::DotsWithNoBatchDims => f.write_str("dots_with_no_batch_dims"),
            RematPolicy::SaveOnlyTheseNames(names) => write!(f, "save {}", names.join("+")),
            RematPolicy::Offload { host, device } if device.is_empty() => write!(f, "offload {}", host.join("+")),
            RematPolicy::Offload { host, device } => write!(f, "offload {}, save {}", host.join("+"), device.join("+")),
            RematPolicy::EveryLayers(count) => write!(f, "full, by {count} layers"),
        }
    }
}

impl Serialize for RematPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RematPolicy::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for RematPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RematPolicy, D::Error> {
        deserializer.deserialize_any(RematPolicyVisitor)
    }
}

/// Reads a policy, and refuses words that can be read both ways: "nothing" may mean that nothing is saved, or that nothing is
/// recomputed.
struct RematPolicyVisitor;

impl<'de> Visitor<'de> for RematPolicyVisitor {
    type Value = RematPolicy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rematerialization policy, such as \"full\", \"none\" or \"dots\"")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<RematPolicy, E> {
        let meant = match word {
            "nothing" => "\"full\" (saves nothing, recomputes everything)",
            "everything" => "\"none\" (saves everything, recomputes nothing)",
            _ => return RematPolicy::deserialize(StrDeserializer::new(word)),
        };
        Err(E::custom(format!("remat policy {word:?} is ambiguous: use {meant}")))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<RematPolicy, M::Error> {
        RematPolicy::deserialize(MapAccessDeserializer::new(map)).map_err(M::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: &str, expected: &RematPolicy) {
        let read: RematPolicy = serde_json::from_str(written).unwrap();
        assert_eq!(&read, expected, "{written}");
        assert_eq!(serde_json::to_string(&read).unwrap(), written);
    }

    fn refused(written: &str) -> String {
        serde_json::from_str::<RematPolicy>(written).unwrap_err().to_string()
    }

    #[test]
    fn policies_are_written_as_they_are_read() {
        check("\"none\"", &RematPolicy::None);
        check("\"full\"", &RematPolicy::Full);
        check("\"dots\"", &RematPolicy::Dots);
        check("\"dots_with_no_batch_dims\"", &RematPolicy::DotsWithNoBatchDims);
        check("{\"every_layers\":2}", &RematPolicy::EveryLayers(2));
        check("{\"save_only_these_names\":[\"query\"]}", &RematPolicy::SaveOnlyTheseNames(vec!["query".into()]));
        let offload = RematPolicy::Offload { host: vec!["query".into()], device: vec!["key".into()] };
        check("{\"offload\":{\"host\":[\"query\"],\"device\":[\"key\"]}}", &offload);
        let read: RematPolicy = serde_json::from_str("\"save_nothing\"").unwrap();
        assert_eq!(read, RematPolicy::Full);
    }

    #[test]
    fn ambiguous_words_are_refused_with_the_word_to_use() {
        assert!(refused("\"nothing\"").contains("use \"full\""), "{}", refused("\"nothing\""));
        assert!(refused("\"everything\"").contains("use \"none\""), "{}", refused("\"everything\""));
        assert!(refused("\"some\"").contains("unknown variant `some`"), "{}", refused("\"some\""));
        assert!(refused("{\"save\":[]}").contains("unknown variant `save`"), "{}", refused("{\"save\":[]}"));
        assert!(refused("7").contains("a rematerialization policy"), "{}", refused("7"));
    }
}
