//! The JSON of an exported program, of schema 7 and 8.

use std::collections::BTreeMap;

use serde_json::Value;
use tensor::DType;

use crate::error::Error;
use crate::graph::{ExportedProgram, Graph, InputRole, Node, NodeArgument, OutputRole, SymExpr, SymInt, TensorMeta};

/// Graphs in graphs.
const MAX_NESTING: usize = 16;

/// The program of a JSON text.
pub(crate) fn program(text: &[u8]) -> Result<ExportedProgram, Error> {
    let text = std::str::from_utf8(text).map_err(|_| Error::damaged("the program is not UTF-8"))?;
    let json: Value = serde_json::from_str(&quoted(text)).map_err(|e| Error::damaged(format!("the program: {e}")))?;
    let major = json.pointer("/schema_version/major").and_then(Value::as_i64);
    if !matches!(major, Some(7 | 8)) {
        let found = major.map_or("none".to_string(), |major| major.to_string());
        return Err(Error::new(
            format!("the program has schema {found}; 7 and 8 are known (PyTorch 2.5 to 2.15)"),
            "export the model with one of these versions",
        ));
    }
    let module = json.get("graph_module").ok_or_else(|| missing("graph_module"))?;
    let graph = graph(module.get("graph").ok_or_else(|| missing("graph"))?, 0)?;
    let list = |name: &str| -> Result<Vec<Value>, Error> {
        let found = module.pointer(&format!("/signature/{name}")).and_then(Value::as_array);
        found.cloned().ok_or_else(|| missing(name))
    };
    // The order of specs differs by version; arguments go by name.
    let mut roles = BTreeMap::new();
    let mut non_persistent = std::collections::BTreeSet::new();
    for spec in list("input_specs")? {
        let (role, name) = input_role(&spec)?;
        if let (InputRole::Buffer(name), Some(false)) =
            (&role, spec.pointer("/buffer/persistent").and_then(Value::as_bool))
        {
            non_persistent.insert(name.clone());
        }
        roles.insert(name, role);
    }
    let inputs = graph.inputs.iter().map(|input| match input {
        NodeArgument::Tensor(name) => roles.get(name).cloned().unwrap_or(InputRole::User),
        NodeArgument::Int(SymInt::Name(_)) => InputRole::User,
        _ => InputRole::Nothing,
    });
    let outputs = list("output_specs")?.iter().map(output_role).collect::<Result<Vec<_>, Error>>()?;
    if outputs.len() != graph.outputs.len() {
        let (specs, results) = (outputs.len(), graph.outputs.len());
        return Err(Error::damaged(format!("the signature has {specs} outputs, the graph {results}")));
    }
    let mut ranges = BTreeMap::new();
    for (symbol, range) in json.get("range_constraints").and_then(Value::as_object).into_iter().flatten() {
        let bound = |name: &str| range.get(name).and_then(Value::as_i64);
        ranges.insert(symbol.clone(), (bound("min_val"), bound("max_val")));
    }
    let tensors = module.pointer("/graph/tensor_values").and_then(Value::as_object);
    let sizes = tensors.into_iter().flatten().filter_map(|(_, meta)| meta.get("sizes").and_then(Value::as_array));
    let examples = sizes.flatten().filter_map(|json| match size(json) {
        Ok(SymExpr::Symbol(symbol)) => Some((symbol, json.pointer("/as_expr/hint/as_int")?.as_i64()?)),
        _ => None,
    });
    Ok(ExportedProgram {
        examples: examples.collect(),
        inputs: inputs.collect(),
        outputs,
        graph,
        ranges,
        torch_version: json.get("torch_version").and_then(Value::as_str).unwrap_or_default().to_string(),
        non_persistent,
        result_names: result_names(module),
    })
}

/// Names of the results, from the structure that Python gives them in; none where it is not told.
fn result_names(module: &Value) -> Vec<String> {
    let spec = module.pointer("/module_call_graph/0/signature/out_spec").and_then(Value::as_str);
    let spec: Option<Value> = spec.and_then(|text| serde_json::from_str(text).ok());
    let mut names = Vec::new();
    if let Some(root) = spec.as_ref().and_then(|spec| spec.get(1)) {
        leaves(root, "", 0, &mut names);
    }
    names
}

fn leaves(spec: &Value, path: &str, nesting: usize, names: &mut Vec<String>) {
    let children = spec.get("children_spec").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if nesting > MAX_NESTING || (children.is_empty() && spec.get("type").is_some_and(Value::is_null)) {
        names.push(if path.is_empty() { "0".to_string() } else { path.to_string() });
        return;
    }
    // Dictionaries and data classes have their keys here, tuples have none.
    let keys: Option<Vec<Value>> =
        spec.get("context").and_then(Value::as_str).and_then(|context| serde_json::from_str(context).ok());
    for (n, child) in children.iter().enumerate() {
        let key = keys.as_ref().and_then(|keys| keys.get(n)).and_then(Value::as_str);
        let key = key.map_or_else(|| n.to_string(), str::to_string);
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        leaves(child, &path, nesting + 1, names);
    }
}

fn missing(name: &str) -> Error {
    Error::damaged(format!("the program has no `{name}`"))
}

/// The text with `Infinity`, `-Infinity` and `NaN`, which PyTorch 2.5 and 2.6 write bare, in quotes.
fn quoted(text: &str) -> std::borrow::Cow<'_, str> {
    if !["Infinity", "NaN"].iter().any(|word| text.contains(word)) {
        return text.into();
    }
    let mut result = String::with_capacity(text.len() + 64);
    let (mut is_text, mut rest) = (false, text);
    while let Some(c) = rest.chars().next() {
        let bare = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| !is_text && rest.starts_with(word));
        let taken = match bare {
            Some(word) => {
                result.push_str(&format!("\"{word}\""));
                word.len()
            }
            // What follows a backslash in a text is no quote.
            None if is_text && c == '\\' => {
                let pair: usize = rest.chars().take(2).map(char::len_utf8).sum();
                result.push_str(rest.get(..pair).unwrap_or_default());
                pair
            }
            None => {
                is_text ^= c == '"';
                result.push(c);
                c.len_utf8()
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    result.into()
}

/// The one key of a union, and what it holds.
fn union<'a>(value: &'a Value, what: &str) -> Result<(&'a str, &'a Value), Error> {
    match value.as_object().map(|object| (object.len(), object.iter().next())) {
        Some((1, Some((key, value)))) => Ok((key, value)),
        _ => Err(Error::damaged(format!("{what} is not a union of one key"))),
    }
}

fn name_of(value: &Value) -> Option<String> {
    value.get("name").and_then(Value::as_str).map(str::to_string)
}

fn input_role(spec: &Value) -> Result<(InputRole, String), Error> {
    let (kind, body) = union(spec, "an input of the signature")?;
    let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_string);
    let own = body.get("arg").and_then(name_of);
    let nested = || {
        body.get("arg")
            .and_then(|arg| arg.as_object()?.values().next())
            .and_then(|arg| name_of(arg).or_else(|| arg.get("as_name").and_then(Value::as_str).map(str::to_string)))
    };
    let role = match kind {
        "parameter" => text("parameter_name").map(InputRole::Parameter),
        "buffer" => text("buffer_name").map(InputRole::Buffer),
        "tensor_constant" => text("tensor_constant_name").map(InputRole::Constant),
        "user_input" => Some(InputRole::User),
        "constant_input" | "token" | "custom_obj" => Some(InputRole::Nothing),
        _ => None,
    };
    let role = role.ok_or_else(|| Error::damaged(format!("an input of the signature is `{kind}`")))?;
    Ok((role, own.or_else(nested).or_else(|| text("name")).unwrap_or_default()))
}

fn output_role(spec: &Value) -> Result<OutputRole, Error> {
    let (kind, body) = union(spec, "an output of the signature")?;
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
    Ok(match kind {
        "user_output" => OutputRole::User,
        "loss_output" => OutputRole::Loss,
        "buffer_mutation" => OutputRole::Mutation(text("buffer_name")),
        "parameter_mutation" => OutputRole::Mutation(text("parameter_name")),
        "user_input_mutation" => OutputRole::UserMutation(text("user_input_name")),
        "token" => OutputRole::Nothing,
        "gradient_to_parameter" | "gradient_to_user_input" => OutputRole::User,
        other => return Err(Error::damaged(format!("an output of the signature is `{other}`"))),
    })
}

fn graph(json: &Value, nesting: usize) -> Result<Graph, Error> {
    if nesting > MAX_NESTING {
        return Err(Error::damaged("graphs are nested too deeply"));
    }
    let list = |name: &str| json.get(name).and_then(Value::as_array).ok_or_else(|| missing(name));
    let arguments = |name: &str| -> Result<Vec<NodeArgument>, Error> {
        list(name)?.iter().map(|value| argument(value, nesting)).collect()
    };
    let mut tensors = BTreeMap::new();
    for (name, meta) in json.get("tensor_values").and_then(Value::as_object).into_iter().flatten() {
        tensors.insert(name.clone(), tensor_meta(meta).map_err(|error| error.at(format!("tensor `{name}`")))?);
    }
    Ok(Graph {
        inputs: arguments("inputs")?,
        outputs: arguments("outputs")?,
        nodes: list("nodes")?.iter().map(|value| node(value, nesting)).collect::<Result<_, Error>>()?,
        tensors,
        is_single: json.get("is_single_tensor_return").and_then(Value::as_bool).unwrap_or(false),
    })
}

fn node(json: &Value, nesting: usize) -> Result<Node, Error> {
    let target = json.get("target").and_then(Value::as_str).ok_or_else(|| missing("target"))?.to_string();
    let of_node = |error: Error| error.at(target.clone());
    let mut inputs = Vec::new();
    for input in json.get("inputs").and_then(Value::as_array).into_iter().flatten() {
        let value = input.get("arg").ok_or_else(|| missing("arg"))?;
        let name = input.get("name").and_then(Value::as_str).unwrap_or_default();
        inputs.push((name.to_string(), argument(value, nesting).map_err(of_node)?));
    }
    let outputs = json.get("outputs").and_then(Value::as_array).into_iter().flatten();
    let outputs = outputs.map(|value| argument(value, nesting)).collect::<Result<Vec<_>, Error>>().map_err(of_node)?;
    let text = |key: &str| json.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default();
    // The last frame, with its line of source.
    let trace = text("stack_trace").trim();
    let frame = trace.rfind("File \"").and_then(|at| trace.get(at..)).unwrap_or_default();
    let line = frame.split_whitespace().collect::<Vec<_>>().join(" ");
    let scope = text("nn_module_stack").rsplit(';').next().and_then(|last| last.split(',').nth(1)).unwrap_or_default();
    Ok(Node { inputs, outputs, line, scope: scope.to_string(), target })
}

pub(crate) fn tensor_meta(json: &Value) -> Result<TensorMeta, Error> {
    let code = json.get("dtype").and_then(Value::as_u64).ok_or_else(|| Error::damaged("its type is missing"))?;
    let list = |name: &str| -> Result<Vec<SymExpr>, Error> {
        json.get(name).and_then(Value::as_array).into_iter().flatten().map(size).collect()
    };
    let requires_grad = json.get("requires_grad").and_then(Value::as_bool).unwrap_or(false);
    Ok(TensorMeta { dtype: dtype(code)?, sizes: list("sizes")?, strides: list("strides")?, requires_grad })
}

/// A size: a number, or an expression with the example's value beside it.
pub(crate) fn size(json: &Value) -> Result<SymExpr, Error> {
    if let Some(value) = json.get("as_int").and_then(Value::as_i64) {
        return Ok(SymExpr::Int(value));
    }
    let text = json.pointer("/as_expr/expr_str").and_then(Value::as_str);
    SymExpr::parse(text.ok_or_else(|| Error::damaged("a size is neither a number nor an expression"))?)
}

/// The type of a number in files.
pub(crate) fn dtype(code: u64) -> Result<DType, Error> {
    Ok(match code {
        1 => DType::U8,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        10 => DType::C64,
        11 => DType::C128,
        12 => DType::Bool,
        13 => DType::BF16,
        28 => DType::U16,
        29 => DType::F8E4M3FN,
        30 => DType::F8E5M2,
        31 => DType::F8E4M3FNUZ,
        32 => DType::F8E5M2FNUZ,
        33 => DType::F8E8M0FNU,
        34 => DType::U32,
        35 => DType::U64,
        _ => {
            return Err(Error::new(
                format!("element type {code} has no equal here"),
                "convert the tensor to another type before the export",
            ));
        }
    })
}

fn sym_int(json: &Value) -> Result<SymInt, Error> {
    let name = json.get("as_name").and_then(Value::as_str);
    match (json.as_i64().or_else(|| json.get("as_int").and_then(Value::as_i64)), name) {
        (Some(value), _) => Ok(SymInt::Value(value)),
        (None, Some(name)) => Ok(SymInt::Name(name.to_string())),
        _ => Err(Error::damaged("an integer is neither a number nor a name")),
    }
}

fn float(json: &Value) -> Result<f64, Error> {
    match (json.as_f64(), json.as_str()) {
        (Some(value), _) => Ok(value),
        (_, Some("Infinity")) => Ok(f64::INFINITY),
        (_, Some("-Infinity")) => Ok(f64::NEG_INFINITY),
        (_, Some("NaN")) => Ok(f64::NAN),
        _ => Err(Error::damaged("a float is not a number")),
    }
}

fn list<T>(json: &Value, one: impl FnMut(&Value) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    json.as_array().ok_or_else(|| Error::damaged("a list is not one"))?.iter().map(one).collect()
}

fn argument(json: &Value, nesting: usize) -> Result<NodeArgument, Error> {
    let (tag, value) = union(json, "an argument")?;
    let tensor = |value: &Value| name_of(value).ok_or_else(|| Error::damaged("a tensor has no name"));
    Ok(match tag {
        "as_none" => NodeArgument::None,
        "as_tensor" => NodeArgument::Tensor(tensor(value)?),
        "as_tensors" => NodeArgument::Tensors(list(value, |v| tensor(v).map(Some))?),
        "as_optional_tensor" => match union(value, "an optional tensor")? {
            ("as_tensor", value) => NodeArgument::Tensor(tensor(value)?),
            _ => NodeArgument::None,
        },
        "as_optional_tensors" => NodeArgument::Tensors(list(value, |v| match union(v, "an optional tensor")? {
            ("as_tensor", v) => tensor(v).map(Some),
            _ => Ok(None),
        })?),
        "as_int" | "as_sym_int" => NodeArgument::Int(sym_int(value)?),
        "as_ints" | "as_sym_ints" => NodeArgument::Ints(list(value, sym_int)?),
        "as_float" => NodeArgument::Float(float(value)?),
        "as_floats" => NodeArgument::Floats(list(value, float)?),
        "as_bool" => NodeArgument::Bool(value.as_bool().unwrap_or(false)),
        "as_bools" => NodeArgument::Bools(list(value, |v| Ok(v.as_bool().unwrap_or(false)))?),
        "as_sym_bool" | "as_sym_float" => match union(value, "a value")? {
            ("as_name", name) => NodeArgument::Named(name.as_str().unwrap_or_default().to_string()),
            ("as_bool", value) => NodeArgument::Bool(value.as_bool().unwrap_or(false)),
            ("as_float", value) => NodeArgument::Float(float(value)?),
            (other, _) => NodeArgument::Other(other.to_string()),
        },
        "as_string" => NodeArgument::Text(value.as_str().unwrap_or_default().to_string()),
        "as_scalar_type" => NodeArgument::Type(dtype(value.as_u64().unwrap_or(0))?),
        "as_memory_format" | "as_layout" | "as_device" => NodeArgument::Placement,
        "as_graph" => {
            let name = name_of(value).unwrap_or_default();
            let inner = value.get("graph").ok_or_else(|| missing("graph"))?;
            NodeArgument::Graph(name, Box::new(graph(inner, nesting + 1)?))
        }
        other => NodeArgument::Other(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_words_become_texts() {
        let text = r#"{"a": Infinity, "b": [-Infinity, NaN], "c": "a \" NaN", "d": "Infinity"}"#;
        let wanted = r#"{"a": "Infinity", "b": ["-Infinity", "NaN"], "c": "a \" NaN", "d": "Infinity"}"#;
        assert_eq!(quoted(text), wanted);
    }

    #[test]
    fn other_schemas_are_named() {
        let error = program(br#"{"schema_version": {"major": 9}}"#).unwrap_err();
        assert!(error.to_string().contains("schema 9"), "{error}");
        assert!(program(b"{").is_err() && program(b"\xff").is_err());
    }
}
