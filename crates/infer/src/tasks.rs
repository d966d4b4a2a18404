//! Tasks of lm-evaluation-harness: contexts with choices, of which one is right.
//!
//! A line is one document in JSON, in one of two forms. `{"context": …, "choices": […], "gold": 1}` is what a task's
//! `doc_to_text`, `doc_to_choice` and `doc_to_target` give; the harness's own `--log_samples` writes `arguments` and `target`.

use std::io::BufRead;

use data::Tokenizer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::score::{TokenPair, TokenScore};

/// Longest line.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// Most choices of a document.
const MAX_CHOICES: usize = 1024;

/// Documents with choices.
#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceTask {
    pub(crate) documents: Vec<Document>,
}

/// One document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    /// Contexts and what follows them, one for each choice.
    pub(crate) pairs: Vec<(String, String)>,
    /// Letters of each choice, without what joins it to the context.
    pub(crate) letters: Vec<usize>,
    /// The right choice; `None` where there is one text only, which is right where the model would have written it.
    pub(crate) gold: Option<usize>,
}

/// What a model reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TaskResult {
    /// Documents.
    pub documents: usize,
    /// Share of documents whose right choice is the likeliest.
    pub acc: f64,
    /// Its standard error.
    pub acc_stderr: f64,
    /// The same where log likelihoods are divided by letters; absent where texts have no choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acc_norm: Option<f64>,
    /// Its standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acc_norm_stderr: Option<f64>,
    /// `exp` of the mean negative log likelihood of what is right.
    pub perplexity: f64,
}

#[derive(Deserialize)]
struct Line {
    #[serde(alias = "query", alias = "ctx")]
    context: Option<String>,
    choices: Option<Vec<String>>,
    #[serde(alias = "label", alias = "answer")]
    gold: Option<Value>,
    target: Option<Value>,
    target_delimiter: Option<String>,
    arguments: Option<Value>,
}

impl ChoiceTask {
    /// Reads documents, one a line, at most so many.
    pub fn read(lines: &mut dyn BufRead, most: usize) -> Result<ChoiceTask, Error> {
        let mut documents = Vec::new();
        for number in 1.. {
            let failed = |why: String| {
                Error::setting(
                    format!("line {number}: {why}"),
                    r#"a line is {"context": "...", "choices": ["...", "..."], "gold": 0}, or one that lm_eval --log_samples wrote"#,
                )
            };
            let mut line = String::new();
            let read = std::io::Read::take(&mut *lines, MAX_LINE_BYTES).read_line(&mut line);
            let read = read.map_err(|error| failed(error.to_string()))?;
            if read == 0 || documents.len() == most {
                break;
            }
            if read as u64 >= MAX_LINE_BYTES {
                return Err(failed(format!("it is longer than {MAX_LINE_BYTES} bytes")));
            }
            if !line.trim().is_empty() {
                let line: Line = serde_json::from_str(&line).map_err(|error| failed(error.to_string()))?;
                documents.push(Document::of(line).map_err(failed)?);
            }
        }
        match documents.is_empty() {
            true => Err(Error::setting("the task has no documents", "write one JSON a line")),
            false => Ok(ChoiceTask { documents }),
        }
    }

    /// Documents.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Every pair of context and choice as tokens, in order. A context that has none becomes `begin`.
    pub fn pairs(&self, tokenizer: &Tokenizer, begin: Option<u32>) -> Result<Vec<TokenPair>, Error> {
        let mut pairs = Vec::new();
        for (number, document) in self.documents.iter().enumerate() {
            for (context, continuation) in &document.pairs {
                // Spaces at the end of a context belong to the first word after it, as tokenizers have it.
                let kept = context.trim_end();
                let moved = format!("{}{continuation}", &context[kept.len()..]);
                let whole = tokenizer.encode(&format!("{kept}{moved}"))?;
                let mut before = tokenizer.encode(kept)?;
                before.truncate(whole.len());
                let continuation = whole[before.len()..].to_vec();
                if before.is_empty() {
                    before.extend(begin);
                }
                if before.is_empty() || continuation.is_empty() {
                    return Err(Error::setting(
                        format!("document {}: a context or a choice has no tokens", number + 1),
                        "give texts that are not empty",
                    ));
                }
                pairs.push(TokenPair { context: before, continuation });
            }
        }
        Ok(pairs)
    }

    /// What scores of all pairs, in their order, amount to.
    pub fn result(&self, scores: &[TokenScore]) -> Result<TaskResult, Error> {
        let expected: usize = self.documents.iter().map(|document| document.pairs.len()).sum();
        if scores.len() != expected {
            return Err(Error::setting(format!("{} scores for {expected} texts", scores.len()), "report this"));
        }
        let (mut right, mut right_norm, mut loss, mut at) = (0usize, 0usize, 0.0, 0);
        for document in &self.documents {
            let of = &scores[at..at + document.pairs.len()];
            at += of.len();
            let best = |value: &dyn Fn(usize) -> f64| {
                let mut best = 0;
                (1..of.len()).for_each(|n| best = if value(n) > value(best) { n } else { best });
                best
            };
            match document.gold {
                None => right += usize::from(of[0].is_greedy),
                Some(gold) => {
                    right += usize::from(best(&|n| of[n].log_likelihood) == gold);
                    let norm = |n: usize| of[n].log_likelihood / document.letters[n].max(1) as f64;
                    right_norm += usize::from(best(&norm) == gold);
                }
            }
            loss -= of[document.gold.unwrap_or(0)].log_likelihood;
        }
        let count = self.documents.len() as f64;
        let (acc, acc_norm) = (right as f64 / count, right_norm as f64 / count);
        // Of the mean of a sample.
        let error = |share: f64| if count > 1.0 { (share * (1.0 - share) / (count - 1.0)).sqrt() } else { 0.0 };
        let has_choices = self.documents.iter().all(|document| document.gold.is_some());
        Ok(TaskResult {
            documents: self.documents.len(),
            acc,
            acc_stderr: error(acc),
            acc_norm: has_choices.then_some(acc_norm),
            acc_norm_stderr: has_choices.then(|| error(acc_norm)),
            perplexity: (loss / count).exp(),
        })
    }
}

impl Document {
    fn of(line: Line) -> Result<Document, String> {
        let target = line.gold.or(line.target);
        if let Some(arguments) = &line.arguments {
            let pairs = pairs_of(arguments).ok_or("its arguments are no contexts with continuations")?;
            let letters =
                pairs.iter().map(|(_, text)| text.strip_prefix(' ').unwrap_or(text).chars().count()).collect();
            let choices: Vec<String> = pairs.iter().map(|(_, text)| text.trim().to_string()).collect();
            let gold = match pairs.len() {
                1 => None,
                _ => Some(gold_of(target.as_ref(), &choices)?),
            };
            return Document { pairs, letters, gold }.checked();
        }
        let (Some(context), Some(choices)) = (line.context, line.choices) else {
            return Err("it has neither context and choices nor arguments".into());
        };
        let gold = gold_of(target.as_ref(), &choices)?;
        let delimiter = line.target_delimiter.unwrap_or_else(|| " ".into());
        let letters = choices.iter().map(|choice| choice.chars().count()).collect();
        let pairs = choices.into_iter().map(|choice| (context.clone(), format!("{delimiter}{choice}"))).collect();
        Document { pairs, letters, gold: Some(gold) }.checked()
    }

    pub(crate) fn checked(self) -> Result<Document, String> {
        match (self.pairs.len(), self.gold) {
            (0, _) => Err("it has no choices".into()),
            (count, _) if count > MAX_CHOICES => Err(format!("it has {count} choices; at most {MAX_CHOICES} are read")),
            (count, Some(gold)) if gold >= count => Err(format!("choice {gold} is right, and there are {count}")),
            _ => Ok(self),
        }
    }
}

/// The right choice: by its number, also as a text, by its letter, or itself.
pub(crate) fn gold_of(target: Option<&Value>, choices: &[String]) -> Result<usize, String> {
    let unknown = || format!("which choice is right? {}", target.unwrap_or(&Value::Null));
    match target {
        Some(Value::Number(number)) => number.as_u64().map(|number| number as usize).ok_or_else(unknown),
        Some(Value::String(text)) => {
            let by_letter = || match text.as_bytes() {
                [letter @ b'A'..=b'Z'] => Some(usize::from(letter - b'A')),
                _ => None,
            };
            let same = || choices.iter().position(|choice| choice.trim() == text.trim());
            same().or_else(|| text.trim().parse().ok()).or_else(by_letter).ok_or_else(unknown)
        }
        _ => Err(unknown()),
    }
}

/// `[[context, continuation], …]`, or `{"gen_args_0": {"arg_0": context, "arg_1": continuation}, …}`.
fn pairs_of(arguments: &Value) -> Option<Vec<(String, String)>> {
    let text = |value: &Value| value.as_str().map(str::to_string);
    let pair = |value: &Value| match value {
        Value::Array(both) if both.len() == 2 => Some((text(&both[0])?, text(&both[1])?)),
        Value::Object(both) => Some((text(both.get("arg_0")?)?, text(both.get("arg_1")?)?)),
        _ => None,
    };
    match arguments {
        Value::Array(all) => all.iter().map(pair).collect(),
        Value::Object(all) => (0..all.len()).map(|n| pair(all.get(&format!("gen_args_{n}"))?)).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ChoiceTask, Error> {
        ChoiceTask::read(&mut text.as_bytes(), usize::MAX)
    }

    fn score(log_likelihood: f64) -> TokenScore {
        TokenScore { log_likelihood, is_greedy: log_likelihood > -1.0 }
    }

    #[test]
    fn both_forms_are_read_alike() {
        let own = read(r#"{"context": "Q: 1+1?\nA:", "choices": ["two", "three"], "gold": 0}"#).unwrap();
        let samples = [
            r#"{"doc_id": 0, "target": "0", "arguments": [["Q: 1+1?\nA:", " two"], ["Q: 1+1?\nA:", " three"]]}"#,
            r#"{"target": 0, "arguments": {"gen_args_0": {"arg_0": "Q: 1+1?\nA:", "arg_1": " two"},
                "gen_args_1": {"arg_0": "Q: 1+1?\nA:", "arg_1": " three"}}}"#,
        ];
        for sample in samples {
            assert_eq!(read(&sample.replace('\n', " ")).unwrap(), own);
        }
        assert_eq!(read(r#"{"query": "x", "choices": ["a", "b"], "label": "B"}"#).unwrap().documents[0].gold, Some(1));
        assert_eq!(
            read(r#"{"ctx": "x", "choices": ["yes", "no"], "answer": "no"}"#).unwrap().documents[0].gold,
            Some(1)
        );
        for (line, why) in [
            ("{", "line 1"),
            (r#"{"context": "x", "choices": ["a"], "gold": 1}"#, "there are 1"),
            (r#"{"context": "x", "choices": [], "gold": 0}"#, "no choices"),
            (r#"{"context": "x", "choices": ["a", "b"], "gold": "?"}"#, "which choice"),
            (r#"{"context": "x"}"#, "neither"),
            (r#"{"arguments": [["x"]], "target": 0}"#, "arguments"),
            ("\n\n", "no documents"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn tokens_are_split_where_the_context_ends() {
        let task = read(r#"{"context": "ab ", "choices": ["cd"], "gold": 0, "target_delimiter": ""}"#).unwrap();
        let pair = &task.pairs(&Tokenizer::bytes(), None).unwrap()[0];
        assert_eq!(
            (&pair.context[..], &pair.continuation[..]),
            (&b"ab".map(u32::from)[..], &b" cd".map(u32::from)[..])
        );
        let empty = read(r#"{"context": "", "choices": ["cd"], "gold": 0}"#).unwrap();
        assert_eq!(empty.pairs(&Tokenizer::bytes(), Some(7)).unwrap()[0].context, [7]);
        assert!(empty.pairs(&Tokenizer::bytes(), None).is_err());
    }

    #[test]
    fn letters_change_which_choice_is_best() {
        let line = r#"{"context": "x", "choices": ["ab", "abcdefgh"], "gold": 1}"#;
        let task = read(&format!("{line}\n{line}\n")).unwrap();
        let result = task.result(&[-2.0, -4.0, -3.0, -2.5].map(score)).unwrap();
        assert_eq!((result.acc, result.acc_norm), (0.5, Some(1.0)));
        assert!((result.acc_stderr - 0.5).abs() < 1e-12);
        assert!((result.perplexity - 3.25f64.exp()).abs() < 1e-9);
        // One text alone is right where the model would have written it.
        let task = read(r#"{"arguments": [["x", " y"]], "target": " y"}"#).unwrap();
        let result = task.result(&[score(-0.5)]).unwrap();
        assert_eq!((result.acc, result.acc_norm), (1.0, None));
        assert!(task.result(&[]).is_err());
    }
}
