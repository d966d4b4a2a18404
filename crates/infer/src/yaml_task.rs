//! Tasks as lm-evaluation-harness describes them: a YAML file with templates, and documents in a local file.
//!
//! Of the harness's keys those are followed that say what is asked: `doc_to_text`, `doc_to_target`, `doc_to_choice`, `description`,
//! `target_delimiter`, `output_type` (`multiple_choice` or `loglikelihood`), `test_split` and `dataset_kwargs.data_files`. Python functions,
//! examples before the question and generated answers are refused by name; what concerns reports is passed over.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use minijinja::value::{Value as TemplateValue, ValueKind};
use minijinja::{Environment, ErrorKind, State, UndefinedBehavior};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::tasks::{ChoiceTask, Document, gold_of};

/// Longest file of a task.
const MAX_TASK_BYTES: u64 = 1 << 20;
/// Longest line of documents.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// Longest file of documents that is one JSON array.
const MAX_ARRAY_BYTES: u64 = 256 << 20;
/// Most documents of a task.
const MAX_DOCUMENTS: usize = 1 << 20;
/// Files that may include each other.
const MAX_INCLUDES: usize = 8;
/// Instructions that a template may execute.
const FUEL: u64 = 200_000;
/// Longest text that a template may write.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// The keys that are followed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawTask {
    output_type: Option<String>,
    doc_to_text: Value,
    doc_to_target: Value,
    doc_to_choice: Value,
    description: Option<String>,
    target_delimiter: Option<String>,
    num_fewshot: Option<u64>,
    test_split: Option<String>,
    validation_split: Option<String>,
    training_split: Option<String>,
    dataset_path: Option<String>,
    dataset_kwargs: Option<Value>,
    process_docs: Value,
    process_results: Value,
}

impl ChoiceTask {
    /// Reads at most so many documents of a file: one document a line, or of a YAML file as lm-evaluation-harness writes tasks. The
    /// documents that such a task is about are in the file that it names, or in `data`.
    pub fn open(path: &Path, data: Option<&Path>, most: usize) -> Result<ChoiceTask, Error> {
        if path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
            return read(path, data, most);
        }
        if data.is_some() {
            return Err(refused(path, "it has its documents itself", "leave out --data, or give a task in YAML"));
        }
        let file = File::open(path).map_err(|error| refused(path, error, "give a file that can be read"))?;
        ChoiceTask::read(&mut BufReader::new(file), most)
            .map_err(|error| refused(path, &error, &error.remedy().unwrap_or_default()))
    }
}

fn refused(path: &Path, why: impl std::fmt::Display, remedy: &str) -> Error {
    Error::setting(format!("{}: {why}", path.display()), remedy)
}

/// Reads at most so many documents of a task; `data` instead of the file that the task names.
fn read(path: &Path, data: Option<&Path>, most: usize) -> Result<ChoiceTask, Error> {
    let task: RawTask = serde_json::from_value(Value::Object(keys(path, MAX_INCLUDES)?))
        .map_err(|error| refused(path, error, "write it as lm-evaluation-harness does"))?;
    let simple = "only templates are followed: write the documents out with lm_eval --log_samples, and give that file";
    let output = task.output_type.as_deref().unwrap_or("generate_until");
    if !["multiple_choice", "loglikelihood"].contains(&output) {
        let why = format!("output_type {output} is not supported; multiple_choice and loglikelihood are");
        return Err(refused(path, why, simple));
    }
    for (name, value) in [("process_docs", &task.process_docs), ("process_results", &task.process_results)] {
        if !value.is_null() {
            return Err(refused(path, format!("{name} is Python, which is not run"), simple));
        }
    }
    if task.num_fewshot.unwrap_or(0) > 0 {
        let why = format!(
            "num_fewshot {} asks for examples before the question, which are not supported",
            task.num_fewshot.unwrap_or(0)
        );
        return Err(refused(path, why, simple));
    }
    let templates = Templates::new(path, &task, output == "multiple_choice")?;
    let file = match data {
        Some(data) => data.to_path_buf(),
        None => data_file(path, &task)?,
    };
    let mut all = Vec::new();
    for (number, document) in documents(&file, most.min(MAX_DOCUMENTS))?.into_iter().enumerate() {
        let made = templates.document(&document);
        let made = made.map_err(|why| {
            refused(&file, format!("document {}: {why}", number + 1), "correct the task or the document")
        })?;
        all.push(made);
    }
    if all.is_empty() {
        return Err(refused(&file, "it has no documents", "give one JSON object a line"));
    }
    Ok(ChoiceTask { documents: all })
}

/// The keys of a file, over those of the file that it includes.
fn keys(path: &Path, includes: usize) -> Result<serde_json::Map<String, Value>, Error> {
    let failed = |why: String| refused(path, why, "write it as lm-evaluation-harness does");
    let mut text = String::new();
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(MAX_TASK_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > MAX_TASK_BYTES {
        return Err(failed(format!("it is longer than {MAX_TASK_BYTES} bytes")));
    }
    if let Some(line) =
        text.lines().find(|line| line.split_once(':').is_some_and(|(_, value)| value.trim().starts_with("!function")))
    {
        let simple = "write the documents out with lm_eval --log_samples, and give that file";
        return Err(refused(path, format!("`{}` is Python, which is not run", line.trim()), simple));
    }
    // The reader bounds depth, aliases and what they expand to.
    let value: Value = serde_saphyr::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let Value::Object(mut own) = value else { return Err(failed("it is no mapping of keys".into())) };
    let Some(included) = own.remove("include") else { return Ok(own) };
    let Some(name) = included.as_str().filter(|_| includes > 0) else {
        return Err(failed("include names no file, or too many files include each other".into()));
    };
    let mut all = keys(&beside(path, name), includes - 1)?;
    all.extend(own);
    Ok(all)
}

/// A file that is named from another.
fn beside(path: &Path, name: &str) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(name)
}

/// The file of documents that a task names.
fn data_file(path: &Path, task: &RawTask) -> Result<PathBuf, Error> {
    let files = task.dataset_kwargs.as_ref().and_then(|kwargs| kwargs.get("data_files"));
    let splits = [&task.test_split, &task.validation_split, &task.training_split];
    let named = match files {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Object(by_split)) => {
            let split = splits.into_iter().flatten().next().map_or("test", String::as_str);
            let one = by_split.get(split);
            one.and_then(|one| one.as_str().or_else(|| one.as_array()?.first()?.as_str()))
        }
        Some(Value::Array(all)) => all.first().and_then(Value::as_str),
        _ => None,
    };
    named.map(|name| beside(path, name)).ok_or_else(|| {
        let dataset = task.dataset_path.as_deref().unwrap_or("its dataset");
        refused(
            path,
            format!("{dataset} is not a local file"),
            "give the documents as a file of JSON lines: --data FILE.jsonl, or dataset_kwargs.data_files",
        )
    })
}

/// Documents of a file of JSON: one a line, or an array of them.
fn documents(path: &Path, most: usize) -> Result<Vec<Value>, Error> {
    let failed = |why: String| refused(path, why, "give one JSON object a line, or an array of objects");
    let mut reader = BufReader::new(File::open(path).map_err(|error| failed(error.to_string()))?);
    let first =
        reader.fill_buf().map_err(|error| failed(error.to_string()))?.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'[') {
        let mut text = String::new();
        reader.take(MAX_ARRAY_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
        if text.len() as u64 > MAX_ARRAY_BYTES {
            return Err(failed(format!("an array of more than {MAX_ARRAY_BYTES} bytes")));
        }
        let mut all: Vec<Value> = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        all.truncate(most);
        return Ok(all);
    }
    let mut all = Vec::new();
    for number in 1.. {
        let mut line = String::new();
        let read =
            (&mut reader).take(MAX_LINE_BYTES).read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        if read == 0 || all.len() == most {
            break;
        }
        if read as u64 >= MAX_LINE_BYTES {
            return Err(failed(format!("line {number} is longer than {MAX_LINE_BYTES} bytes")));
        }
        if !line.trim().is_empty() {
            all.push(serde_json::from_str(&line).map_err(|error| failed(format!("line {number}: {error}")))?);
        }
    }
    Ok(all)
}

/// The templates of a task.
struct Templates {
    environment: Environment<'static>,
    text: String,
    target: Value,
    /// `None`: what is right is the only text.
    choices: Option<Value>,
    description: String,
    delimiter: String,
}

impl Templates {
    fn new(path: &Path, task: &RawTask, has_choices: bool) -> Result<Templates, Error> {
        let missing =
            |name: &str| refused(path, format!("it has no usable {name}"), "write it as lm-evaluation-harness does");
        let mut environment = Environment::new();
        environment.set_keep_trailing_newline(true);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(python_method);
        let text = task.doc_to_text.as_str().ok_or_else(|| missing("doc_to_text"))?.to_string();
        let is_target = matches!(task.doc_to_target, Value::String(_) | Value::Number(_));
        if !is_target {
            return Err(missing("doc_to_target"));
        }
        let is_choice = matches!(task.doc_to_choice, Value::String(_) | Value::Array(_) | Value::Object(_));
        if has_choices && !is_choice {
            return Err(missing("doc_to_choice"));
        }
        Ok(Templates {
            environment,
            text,
            target: task.doc_to_target.clone(),
            choices: has_choices.then(|| task.doc_to_choice.clone()),
            description: task.description.clone().unwrap_or_default(),
            delimiter: task.target_delimiter.clone().unwrap_or_else(|| " ".into()),
        })
    }

    /// What a template gives for a document: a field of its name, else what it writes. A template that is one expression gives its
    /// value, which may be a list.
    fn value(&self, template: &str, document: &Value) -> Result<Value, String> {
        if let Some(field) = document.get(template) {
            return Ok(field.clone());
        }
        let failed = |error: minijinja::Error| format!("`{template}`: {error}");
        let whole = template.trim();
        let inside = whole.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        if let Some(expression) = inside.filter(|inside| !inside.contains("{{") && !inside.contains("}}")) {
            let made = self.environment.compile_expression(expression.trim()).map_err(failed)?;
            let made = made.eval(TemplateValue::from_serialize(document)).map_err(failed)?;
            if made.is_undefined() {
                return Err(format!("`{template}`: the document has no such field"));
            }
            let made = serde_json::to_value(&made).map_err(|error| error.to_string())?;
            // What stands around the expression belongs to a text.
            return Ok(match made {
                Value::String(text) => Value::String(template.replace(whole, &text)),
                other => other,
            });
        }
        let template_of = self.environment.template_from_str(template).map_err(failed)?;
        let text = template_of.render(TemplateValue::from_serialize(document)).map_err(failed)?;
        if text.len() > MAX_TEXT_BYTES {
            return Err(format!("`{template}` writes more than {MAX_TEXT_BYTES} bytes"));
        }
        Ok(Value::String(text))
    }

    fn text(&self, template: &str, document: &Value) -> Result<String, String> {
        match self.value(template, document)? {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(format!("`{template}` gives {other}, which is no text")),
        }
    }

    fn document(&self, document: &Value) -> Result<Document, String> {
        let context = format!("{}{}", self.description, self.text(&self.text, document)?);
        let Some(choices) = &self.choices else {
            let target = match &self.target {
                Value::String(template) => self.text(template, document)?,
                other => other.to_string(),
            };
            let letters = vec![target.chars().count()];
            return Document { pairs: vec![(context, target)], letters, gold: None }.checked();
        };
        let choices = match choices {
            Value::Array(all) => texts(all, |one| self.text(one, document))?,
            Value::Object(named) => texts(named.values(), |one| self.text(one, document))?,
            Value::String(template) => match self.value(template, document)? {
                Value::Array(all) => texts(&all, |one| Ok(one.to_string()))?,
                other => return Err(format!("doc_to_choice gives {other}, which is no list")),
            },
            other => return Err(format!("doc_to_choice is {other}")),
        };
        let target = match &self.target {
            Value::String(template) => self.value(template, document)?,
            other => other.clone(),
        };
        // What is true or false is the second choice or the first.
        let target = target.as_bool().map_or(target.clone(), |is| Value::from(u8::from(is)));
        let gold = gold_of(Some(&target), &choices)?;
        let letters = choices.iter().map(|choice| choice.chars().count()).collect();
        let pairs =
            choices.into_iter().map(|choice| (context.clone(), format!("{}{choice}", self.delimiter))).collect();
        Document { pairs, letters, gold: Some(gold) }.checked()
    }
}

/// Values as texts.
fn texts<'a>(
    values: impl IntoIterator<Item = &'a Value>,
    of_text: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<String>, String> {
    let text = |value: &Value| match value {
        Value::String(text) => of_text(text),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("a choice is {other}, which is no text")),
    };
    values.into_iter().map(text).collect()
}

/// Methods of Python's lists and texts that templates call.
fn python_method(
    state: &State<'_, '_>,
    value: &TemplateValue,
    method: &str,
    arguments: &[TemplateValue],
) -> Result<TemplateValue, minijinja::Error> {
    if let ("index", ValueKind::Seq, [wanted]) = (method, value.kind(), arguments) {
        let found = value.try_iter()?.position(|one| one == *wanted);
        let missing = || minijinja::Error::new(ErrorKind::InvalidOperation, format!("{wanted} is not in the list"));
        return found.map(TemplateValue::from).ok_or_else(missing);
    }
    unknown_method_callback(state, value, method, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task and its documents in a folder.
    fn read_task(task: &str, documents: &str) -> Result<ChoiceTask, Error> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("task.yaml"), task).unwrap();
        std::fs::write(folder.path().join("base.yaml"), "target_delimiter: \"\"\ntest_split: test\n").unwrap();
        std::fs::write(folder.path().join("docs.jsonl"), documents).unwrap();
        read(&folder.path().join("task.yaml"), None, usize::MAX)
    }

    const DATA: &str = "dataset_path: json\ndataset_kwargs:\n  data_files:\n    test: docs.jsonl\n";

    #[test]
    fn templates_become_documents() {
        // As ARC: choices and the right one are expressions.
        let arc = format!(
            "task: arc\noutput_type: multiple_choice\n{DATA}doc_to_text: \"Question: {{{{question}}}}\\nAnswer:\"\n\
             doc_to_target: \"{{{{choices.label.index(answerKey)}}}}\"\ndoc_to_choice: \"{{{{choices.text}}}}\"\n\
             metric_list:\n  - metric: acc\n"
        );
        let line =
            r#"{"question": "1+1?", "choices": {"text": ["two", "three"], "label": ["A", "B"]}, "answerKey": "B"}"#;
        let expected = r#"{"context": "Question: 1+1?\nAnswer:", "choices": ["two", "three"], "gold": 1}"#;
        let expected = ChoiceTask::read(&mut expected.as_bytes(), 9).unwrap();
        assert_eq!(read_task(&arc, line).unwrap(), expected);
        assert_eq!(read_task(&arc, &format!("[{line}]")).unwrap(), expected);
        // As BoolQ: choices are a list, the right one a field; the file includes another.
        let boolq = format!(
            "include: base.yaml\noutput_type: multiple_choice\n{DATA}doc_to_text: \"{{{{q}}}}?\"\ndoc_to_target: label\n\
             doc_to_choice: [\"no\", \"yes\"]\ndescription: \"Answer. \"\n"
        );
        let read = read_task(&boolq, r#"{"q": "is it", "label": true}"#).unwrap();
        let expected = r#"{"context": "Answer. is it?", "choices": ["no", "yes"], "gold": 1, "target_delimiter": ""}"#;
        assert_eq!(read, ChoiceTask::read(&mut expected.as_bytes(), 9).unwrap());
        // As LAMBADA: one text, which is right where the model would have written it.
        let lambada = format!(
            "output_type: loglikelihood\n{DATA}test_split: test\n\
             doc_to_text: \"{{{{text.split(' ')[:-1]|join(' ')}}}}\"\ndoc_to_target: \"{{{{' '+text.split(' ')[-1]}}}}\"\n"
        );
        let read = read_task(&lambada, r#"{"text": "one two three"}"#).unwrap();
        let expected = r#"{"arguments": [["one two", " three"]], "target": 0}"#;
        assert_eq!(read.documents[0].pairs, ChoiceTask::read(&mut expected.as_bytes(), 9).unwrap().documents[0].pairs);
    }

    #[test]
    fn what_is_not_followed_is_refused_by_name() {
        let check = |task: &str, why: &str| {
            let error = read_task(task, r#"{"a": 1, "l": "x"}"#).unwrap_err().to_string();
            assert!(error.contains(why), "{task}: {error}");
        };
        check("a: [", "task.yaml");
        check("- a\n- b\n", "no mapping");
        check("output_type: generate_until\n", "generate_until");
        check("doc_to_text: !function utils.text\n", "!function");
        check("output_type: multiple_choice\nprocess_docs: x\n", "process_docs");
        check("output_type: multiple_choice\nnum_fewshot: 5\n", "num_fewshot 5");
        check("output_type: multiple_choice\ndoc_to_text: a\n", "doc_to_target");
        check("output_type: multiple_choice\ndoc_to_text: a\ndoc_to_target: 0\n", "doc_to_choice");
        check("include: task.yaml\n", "include");
        let usual = |more: &str| format!("output_type: multiple_choice\ndoc_to_target: 0\n{more}");
        check(&usual("doc_to_text: a\ndoc_to_choice: [x]\ndataset_path: ai2_arc\n"), "ai2_arc is not a local file");
        check(&usual(&format!("{DATA}doc_to_text: \"{{{{b}}}}\"\ndoc_to_choice: [x]\n")), "document 1");
        check(&usual(&format!("{DATA}doc_to_text: a\ndoc_to_choice: l\n")), "no list");
        let endless = "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
        check(&usual(&format!("{DATA}doc_to_text: \"{endless}\"\ndoc_to_choice: [x]\n")), "document 1");
        // Aliases that double at every step.
        let bomb: String = (1..40).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1)).collect();
        check(&format!("a0: &a0 x\n{bomb}"), "task.yaml");
    }
}
