//! Manifests as YAML: the few forms that they need, each text in quotes where YAML would read it as something else.

use serde_json::Value;

/// Documents, one after the other.
pub fn yaml(documents: &[Value]) -> String {
    let mut text = String::new();
    for document in documents {
        text.push_str("---\n");
        block(&mut text, document, 0);
    }
    text
}

/// A value that begins on a line of its own.
fn block(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                text.push_str(&" ".repeat(indent));
                text.push_str(&scalar(key));
                text.push(':');
                after(text, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&" ".repeat(indent));
                text.push('-');
                match item {
                    Value::Object(fields) if !fields.is_empty() => {
                        // The first field beside the dash.
                        let mut fields_text = String::new();
                        block(&mut fields_text, item, indent + 2);
                        text.push(' ');
                        text.push_str(&fields_text[indent + 2..]);
                    }
                    Value::Array(_) => text.push_str(&format!(" {item}\n")),
                    other => after(text, other, indent),
                }
            }
        }
        other => {
            text.push_str(&" ".repeat(indent));
            text.push_str(&flow(other));
            text.push('\n');
        }
    }
}

/// A value after a key or a dash.
fn after(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            block(text, value, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            block(text, value, indent);
        }
        Value::String(lines) if is_literal(lines) => {
            text.push_str(" |\n");
            for line in lines.lines() {
                if !line.is_empty() {
                    text.push_str(&" ".repeat(indent + 2));
                    text.push_str(line);
                }
                text.push('\n');
            }
        }
        other => {
            text.push(' ');
            text.push_str(&flow(other));
            text.push('\n');
        }
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        // Empty lists and tables, numbers, truth and nothing are written as in JSON.
        other => other.to_string(),
    }
}

/// Whether lines can stand as they are: they end with one line break, the first is not indented, and nothing is invisible.
fn is_literal(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or("");
    let is_plain = |c: char| c == '\n' || (!c.is_control() && c != '\u{feff}' && c != '\u{2028}' && c != '\u{2029}');
    !body.is_empty()
        && !body.starts_with([' ', '\n'])
        && !body.ends_with('\n')
        && text.chars().all(is_plain)
        && body.lines().all(|line| line.trim_end() == line)
}

/// A text on one line: plain where no reader can mistake it, else in double quotes as in JSON, which YAML reads alike.
fn scalar(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') && text.chars().all(is_word);
    let words = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    // Shapes such as 4x4 are words as well; 0x10 is a number.
    let is_shape = text.split('x').all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
        && text.contains('x')
        && !text.starts_with('0');
    match (is_plain && !words.contains(&text.to_ascii_lowercase().as_str())) || is_shape {
        true => text.to_string(),
        false => Value::from(text).to_string().replace('\u{7f}', "\\u007f"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_stay_texts() {
        let value = json!({
            "a": "true", "b": "1e3", "c": "4x4x4", "d": "0x10", "e": "gs://b", "f": "", "g": "a: b", "h": "- x", "i": "no",
            "j": "key=v", "k": "x\ty", "cloud.google.com/gke-spot": "true", "l": "-1", "m": "~", "o": "1_000",
        });
        let text = yaml(&[value]);
        assert_eq!(
            text,
            "---\na: \"true\"\nb: \"1e3\"\nc: 4x4x4\nd: \"0x10\"\ne: \"gs://b\"\nf: \"\"\ng: \"a: b\"\nh: \"- x\"\ni: \"no\"\n\
             j: \"key=v\"\nk: \"x\\ty\"\ncloud.google.com/gke-spot: \"true\"\nl: \"-1\"\nm: \"~\"\no: \"1_000\"\n"
        );
    }

    #[test]
    fn lists_tables_and_lines() {
        let value = json!({
            "list": [{ "name": "a", "more": { "p": 1 } }, "b", 2, [], {}, ["c"]],
            "text": "one\n  two\n\nthree\n",
            "spaces": " one\n",
            "none": null,
            "is": true,
        });
        assert_eq!(
            yaml(&[value.clone(), json!({ "z": 1 })]),
            "---\nlist:\n- name: a\n  more:\n    p: 1\n- b\n- 2\n- []\n- {}\n- [\"c\"]\ntext: |\n  one\n    two\n\n  three\nspaces: \" one\\n\"\n\
             none: null\nis: true\n---\nz: 1\n"
        );
    }
}
