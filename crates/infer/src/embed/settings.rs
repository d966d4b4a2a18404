//! What a folder says of embeddings: the files of sentence-transformers.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::settings::read_json;

/// How hidden states become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// That of the first token.
    Cls,
    /// Their mean.
    Mean,
    /// The largest of each feature.
    Max,
    /// That of the last token.
    Last,
}

impl std::str::FromStr for Pooling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Pooling, Error> {
        match text {
            "cls" => Ok(Pooling::Cls),
            "mean" => Ok(Pooling::Mean),
            "max" => Ok(Pooling::Max),
            "last" | "lasttoken" => Ok(Pooling::Last),
            other => Err(Error::setting(format!("pooling `{other}` is not known"), "give cls, mean, max or last")),
        }
    }
}

/// Whether vectors have length 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorLength {
    /// They have.
    Normalized,
    /// They have whatever length they come with.
    AsComputed,
}

/// What a folder says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SentenceSettings {
    pub(crate) pooling: Option<Pooling>,
    pub(crate) length: Option<VectorLength>,
    /// Tokens of the longest text.
    pub(crate) max_length: Option<usize>,
    /// Whether texts are written small before they are tokenized.
    pub(crate) is_lower_case: bool,
    /// What is put before texts, by name.
    pub(crate) prompts: BTreeMap<String, String>,
    pub(crate) default_prompt: Option<String>,
}

/// A part of a model of sentence-transformers.
#[derive(Deserialize)]
struct SentenceModule {
    #[serde(default)]
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

impl SentenceSettings {
    /// Of a folder; nothing where it is no folder of sentence-transformers.
    pub(crate) fn read(folder: &Path) -> Result<SentenceSettings, Error> {
        let mut settings = SentenceSettings::default();
        if let Some(written) = read_json(&folder.join("sentence_bert_config.json"))? {
            settings.max_length = written.get("max_seq_length").and_then(Value::as_u64).map(|length| length as usize);
            settings.is_lower_case = written.get("do_lower_case") == Some(&Value::Bool(true));
        }
        if let Some(written) = read_json(&folder.join("config_sentence_transformers.json"))? {
            if let Some(prompts) = written.get("prompts").and_then(Value::as_object) {
                let texts = prompts.iter().filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_string())));
                settings.prompts = texts.collect();
            }
            settings.default_prompt = written.get("default_prompt_name").and_then(Value::as_str).map(String::from);
        }
        let Some(modules) = read_json(&folder.join("modules.json"))? else { return Ok(settings) };
        let refused = |why: String| Error::setting(format!("{}: {why}", folder.display()), "give another model");
        let modules: Vec<SentenceModule> =
            serde_json::from_value(modules).map_err(|error| refused(format!("modules.json: {error}")))?;
        settings.length = Some(VectorLength::AsComputed);
        for module in modules {
            match module.kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" => {}
                "Normalize" => settings.length = Some(VectorLength::Normalized),
                "Pooling" => {
                    // A path of a file that somebody wrote: below the folder or nowhere.
                    let path = Path::new(&module.path);
                    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
                        return Err(refused(format!("modules.json: the path `{}` leads elsewhere", module.path)));
                    }
                    let written = read_json(&folder.join(path).join("config.json"))?;
                    settings.pooling = Some(pooling_of(&written.unwrap_or_default()).map_err(refused)?);
                }
                other => return Err(refused(format!("modules.json: modules of type `{other}` are not supported"))),
            }
        }
        Ok(settings)
    }
}

/// The pooling of a `1_Pooling/config.json`.
fn pooling_of(written: &Value) -> Result<Pooling, String> {
    if let Some(mode) = written.get("pooling_mode") {
        let mode = mode.as_str().ok_or("several pooling modes together are not supported (pooling_mode)")?;
        return mode.parse().map_err(|error: Error| format!("1_Pooling: {error}"));
    }
    let modes = [
        ("pooling_mode_cls_token", Some(Pooling::Cls)),
        ("pooling_mode_mean_tokens", Some(Pooling::Mean)),
        ("pooling_mode_max_tokens", Some(Pooling::Max)),
        ("pooling_mode_lasttoken", Some(Pooling::Last)),
        ("pooling_mode_mean_sqrt_len_tokens", None),
        ("pooling_mode_weightedmean_tokens", None),
    ];
    let asked: Vec<_> = modes.iter().filter(|(name, _)| written.get(name) == Some(&Value::Bool(true))).collect();
    match asked.as_slice() {
        [] => Ok(Pooling::Mean),
        [(_, Some(pooling))] => Ok(*pooling),
        [(name, None)] => Err(format!("1_Pooling: {name} is not supported")),
        _ => Err("1_Pooling: several pooling modes together are not supported".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: Result<(Option<Pooling>, Option<VectorLength>), &str>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("1_Pooling")).unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        match (SentenceSettings::read(folder.path()), expected) {
            (Ok(settings), Ok(expected)) => assert_eq!((settings.pooling, settings.length), expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (got, expected) => panic!("{got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn folders_say_how_hidden_states_become_vectors() {
        let modules = |kind: &str, path: &str| {
            format!(
                r#"[{{"path":"","type":"sentence_transformers.models.Transformer"}},
                    {{"path":"{path}","type":"sentence_transformers.models.{kind}"}}]"#
            )
        };
        let (pooling, usual) = ("1_Pooling/config.json", modules("Pooling", "1_Pooling"));
        let computed = Some(VectorLength::AsComputed);
        check(&[], Ok((None, None)));
        let of = |text: &'static str| vec![("modules.json", usual.as_str()), (pooling, text)];
        check(
            &of(r#"{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false}"#),
            Ok((Some(Pooling::Cls), computed)),
        );
        check(&of(r#"{"pooling_mode":"lasttoken"}"#), Ok((Some(Pooling::Last), computed)));
        check(&of(r#"{"pooling_mode_weightedmean_tokens":true}"#), Err("pooling_mode_weightedmean_tokens"));
        check(&of(r#"{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true}"#), Err("several"));
        check(&of(r#"{"pooling_mode":"odd"}"#), Err("`odd`"));
        check(&[("modules.json", &modules("Normalize", "2"))], Ok((None, Some(VectorLength::Normalized))));
        check(&[("modules.json", &modules("Dense", "2_Dense"))], Err("`Dense`"));
        check(&[("modules.json", &modules("Pooling", "../elsewhere"))], Err("leads elsewhere"));
        check(&[("modules.json", "{}")], Err("modules.json"));
    }
}
