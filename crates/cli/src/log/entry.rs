//! One thing that is logged, and the forms it is written in.

use std::error::Error;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value, json};
use telemetry::otlp::{OtlpValue, SaidRecord, SpanContext};
use tracing::Level;
use tracing::field::{Field, Visit};

/// Something that is logged.
pub(super) struct Entry<'a> {
    pub(super) level: Level,
    pub(super) target: &'a str,
    /// The file and line that say it.
    pub(super) place: Option<(&'a str, u32)>,
    /// The spans it is in, the outermost first.
    pub(super) spans: Vec<(&'static str, &'a Fields)>,
    pub(super) fields: &'a Fields,
}

/// Names and values, as text for people and as JSON.
#[derive(Default)]
pub(super) struct Fields(pub(super) Vec<(String, String, Value)>);

impl Fields {
    /// What is said, without more.
    pub(super) fn message(text: &str) -> Fields {
        Fields(vec![("message".into(), text.to_string(), text.into())])
    }

    pub(super) fn put(&mut self, name: &str, text: String, value: Value) {
        self.0.retain(|(known, ..)| known != name);
        self.0.push((name.to_string(), text, value));
    }

    /// What is said, then what is known about it.
    fn split(&self) -> (&str, impl Iterator<Item = &(String, String, Value)>) {
        let message = self.0.iter().find(|(name, ..)| name == "message").map_or("", |(_, text, _)| text);
        (message, self.0.iter().filter(|(name, ..)| name != "message"))
    }

    fn object(&self) -> Map<String, Value> {
        self.0.iter().map(|(name, _, value)| (name.clone(), value.clone())).collect()
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        self.put(field.name(), text.clone(), text.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = if field.name() == "message" { value.to_string() } else { format!("{value:?}") };
        self.put(field.name(), text, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        self.put(field.name(), text.clone(), text.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), format!("{value:?}"), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.to_string(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.to_string(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.to_string(), value.into());
    }
}

impl Entry<'_> {
    /// `time LEVEL span{field=value}: target: message field=value`.
    pub(super) fn human(&self, time: &str) -> String {
        let mut line = format!("{time} {:>5} ", self.level.as_str());
        for (name, fields) in &self.spans {
            line.push_str(name);
            let known: Vec<String> = fields.split().1.map(|(name, text, _)| format!("{name}={text}")).collect();
            if !known.is_empty() {
                let _ = write!(line, "{{{}}}", known.join(" "));
            }
            line.push(':');
        }
        if !self.spans.is_empty() {
            line.push(' ');
        }
        let (message, known) = self.fields.split();
        let _ = write!(line, "{}: {message}", self.target);
        for (name, text, _) in known {
            let _ = write!(line, " {name}={text}");
        }
        // What others wrote moves no cursor and changes no colour.
        let mut plain = String::with_capacity(line.len() + 1);
        for c in line.chars() {
            if c.is_control() && !matches!(c, '\n' | '\t') { plain.extend(c.escape_unicode()) } else { plain.push(c) }
        }
        plain.push('\n');
        plain
    }

    /// An object with `timestamp`, `level`, `fields`, `target` and the spans.
    pub(super) fn json(&self, time: &str) -> String {
        let mut line = json!({
            "timestamp": time,
            "level": self.level.as_str(),
            "fields": self.fields.object(),
            "target": self.target,
        });
        if let (Some(object), Some(innermost)) = (line.as_object_mut(), self.spans.last()) {
            object.insert("span".into(), span(innermost));
            object.insert("spans".into(), self.spans.iter().map(span).collect());
        }
        format!("{line}\n")
    }

    /// An object with the fields that Cloud Logging reads; the others become its payload. `project` is Google's, for traces.
    pub(super) fn cloud(&self, time: &str, context: Option<SpanContext>, project: Option<&str>) -> String {
        let (message, known) = self.fields.split();
        let severity = match self.level {
            Level::TRACE | Level::DEBUG => "DEBUG",
            Level::INFO => "INFO",
            Level::WARN => "WARNING",
            Level::ERROR => "ERROR",
        };
        let mut line = json!({
            "severity": severity,
            "message": message,
            "time": time,
            "logging.googleapis.com/labels": { "target": self.target },
        });
        let Some(object) = line.as_object_mut() else { return String::new() };
        let known: Map<String, Value> = known.map(|(name, _, value)| (name.clone(), value.clone())).collect();
        if !known.is_empty() {
            object.insert("fields".into(), known.into());
        }
        if !self.spans.is_empty() {
            object.insert("spans".into(), self.spans.iter().map(span).collect());
        }
        if let Some((file, line)) = self.place {
            let place = json!({ "file": file, "line": line.to_string() });
            object.insert("logging.googleapis.com/sourceLocation".into(), place);
        }
        if let Some(SpanContext { trace, span }) = context {
            let trace = project.map_or_else(|| trace.to_string(), |name| format!("projects/{name}/traces/{trace}"));
            object.insert("logging.googleapis.com/trace".into(), trace.into());
            object.insert("logging.googleapis.com/spanId".into(), span.to_string().into());
            object.insert("logging.googleapis.com/trace_sampled".into(), true.into());
        }
        format!("{line}\n")
    }

    /// For a collector.
    pub(super) fn said(&self, time_unix_nanos: u64) -> SaidRecord {
        let (message, known) = self.fields.split();
        let value = |value: &Value| match value {
            Value::Bool(is_so) => OtlpValue::Bool(*is_so),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => OtlpValue::Int(whole),
                (None, number) => OtlpValue::Number(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => OtlpValue::Text(text.clone()),
            other => OtlpValue::Text(other.to_string()),
        };
        let mut attributes = vec![("target".to_string(), OtlpValue::Text(self.target.to_string()))];
        if let Some((file, line)) = self.place {
            attributes.push(("code.file.path".into(), OtlpValue::Text(file.to_string())));
            attributes.push(("code.line.number".into(), OtlpValue::Int(line.into())));
        }
        attributes.extend(known.map(|(name, _, known)| (name.clone(), value(known))));
        SaidRecord { time_unix_nanos, level: self.level, message: message.to_string(), attributes }
    }
}

fn span((name, fields): &(&'static str, &Fields)) -> Value {
    let mut object = fields.object();
    object.insert("name".into(), (*name).into());
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use telemetry::otlp::{SpanId, TraceId};

    #[test]
    fn cloud_logging_finds_its_fields() {
        let mut fields = Fields::message("a save failed");
        fields.put("severity", "9".into(), 9.into());
        let place = Some(("crates/a.rs", 7));
        let entry = Entry { level: Level::WARN, target: "train", place, spans: Vec::new(), fields: &fields };
        let context = SpanContext { trace: TraceId::new(), span: SpanId::new() };
        let line = entry.cloud("2026-01-02T03:04:05Z", Some(context), Some("p"));
        let line: Value = serde_json::from_str(&line).unwrap();
        let expected = json!({
            "severity": "WARNING",
            "message": "a save failed",
            "time": "2026-01-02T03:04:05Z",
            "logging.googleapis.com/labels": { "target": "train" },
            // What somebody else calls `severity` is not it.
            "fields": { "severity": 9 },
            "logging.googleapis.com/sourceLocation": { "file": "crates/a.rs", "line": "7" },
            "logging.googleapis.com/trace": format!("projects/p/traces/{}", context.trace),
            "logging.googleapis.com/spanId": context.span.to_string(),
            "logging.googleapis.com/trace_sampled": true,
        });
        assert_eq!(line, expected);
        let line: Value = serde_json::from_str(&entry.cloud("t", Some(context), None)).unwrap();
        assert_eq!(line["logging.googleapis.com/trace"], context.trace.to_string());
    }

    #[test]
    fn a_collector_gets_numbers_as_numbers() {
        let mut fields = Fields::message("step 3");
        fields.put("step", "3".into(), 3.into());
        fields.put("loss", "2.5".into(), 2.5.into());
        let entry = Entry { level: Level::INFO, target: "tpu", place: None, spans: Vec::new(), fields: &fields };
        let said = entry.said(5);
        assert_eq!((said.message.as_str(), said.time_unix_nanos), ("step 3", 5));
        let value =
            |name: &str| said.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        assert_eq!(value("step"), Some(OtlpValue::Int(3)));
        assert_eq!(value("loss"), Some(OtlpValue::Number(2.5)));
    }
}
