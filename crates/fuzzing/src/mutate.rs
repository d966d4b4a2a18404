//! Hostile programs from valid ones: other operands, ops, types, sizes and attributes.
//!
//! Some mutations change a thing everywhere, so that the program stays one; others change it in one place, so that it lies.

use hlo::{Attrs, Definition, Func, Module, NewOp, OpClass, OpKind, OpName, Region, Type, Value};

use crate::numbers::Numbers;

/// Constants become arguments, checks go, and what they looked at is returned: every kernel sees data it does not know.
pub(crate) fn expose(module: &Module, choices: &mut Numbers) -> Module {
    let mut module = module.clone();
    let name = module.entry().map(|func| func.name.clone());
    if let Some(func) = module.funcs.iter_mut().find(|func| Some(&func.name) == name.as_ref())
        && let Some(body) = func.body
    {
        expose_body(func, body, choices);
    }
    module
}

fn expose_body(func: &mut Func, body: Region, choices: &mut Numbers) {
    let ops = func.region(body).ops.clone();
    let Some((&end, ops)) = ops.split_last() else { return };
    let mut returned: Vec<Value> = func.op(end).operands.clone();
    let (mut kept, mut seen) = (Vec::new(), Vec::new());
    for &id in ops {
        let op = func.op(id).clone();
        let name = op.name.as_str();
        let checks = name.starts_with("check.")
            || name == "stablehlo.custom_call"
                && op.attr("call_target_name").is_some_and(|name| format!("{name:?}").contains("check"));
        if checks {
            returned.extend(op.operands.first());
            continue;
        }
        let is_tensor = |value: Value| matches!(func.ty(value), Type::Tensor(_));
        let is_source = op.operands.is_empty() && op.regions.is_empty() && op.results().all(is_tensor);
        if is_source && op.num_results > 0 && !choices.one_in(4) {
            for old in op.results() {
                let new = func.add_argument(body, func.ty(old).clone(), None);
                func.inputs.push(func.ty(old).clone());
                func.input_attrs.resize(func.inputs.len(), Attrs::new());
                for user in &mut func.ops {
                    user.operands.iter_mut().filter(|operand| **operand == old).for_each(|operand| *operand = new);
                }
                returned.iter_mut().filter(|value| **value == old).for_each(|value| *value = new);
            }
            continue;
        }
        seen.extend(op.results().filter(|&value| is_tensor(value)));
        kept.push(id);
    }
    for _ in 0..2 {
        if !seen.is_empty() {
            returned.push(choices.pick(&seen));
        }
    }
    kept.push(end);
    func.outputs = returned.iter().map(|&value| func.ty(value).clone()).collect();
    func.output_attrs.resize(func.outputs.len(), Attrs::new());
    func.op_mut(end).operands = returned;
    func.regions[body.0 as usize].ops = kept;
    func.renumber();
}

/// A program with one to four changes, as text.
pub fn mutate(module: &Module, choices: &mut Numbers) -> String {
    let mut module = if choices.one_in(5) { module.clone() } else { expose(module, choices) };
    for _ in 0..choices.below(3) {
        match choices.below(3) {
            0 => swap_operand(&mut module, choices),
            1 => swap_kind(&mut module, choices),
            _ => chain(&mut module, choices),
        }
    }
    let mut text = hlo::text::print(&module);
    for _ in 0..choices.below(4) {
        text = mutate_text(&text, choices);
    }
    text
}

/// A function of the module that has ops, the entry first.
fn some_func<'m>(module: &'m mut Module, choices: &mut Numbers) -> Option<&'m mut Func> {
    let at = module.funcs.iter().position(|func| &*func.name == "main").unwrap_or(0);
    let count = module.funcs.len();
    let at = if choices.one_in(4) { choices.below(count) } else { at };
    module.funcs.get_mut(at).filter(|func| func.body.is_some() && !func.ops.is_empty())
}

/// An operand becomes another value of its type.
fn swap_operand(module: &mut Module, choices: &mut Numbers) {
    let Some(func) = some_func(module, choices) else { return };
    let at = choices.below(func.ops.len());
    let op = &func.ops[at];
    if op.operands.is_empty() {
        return;
    }
    let operand = choices.below(op.operands.len());
    let ty = func.ty(op.operands[operand]);
    let is_before = |value: &Value| match func.value(*value).definition {
        Definition::Argument(..) => true,
        Definition::Result(by, _) => (by.0 as usize) < at,
    };
    let other = |value: &Value| func.ty(*value) == ty && is_before(value);
    let fit: Vec<Value> = (0..func.values.len() as u32).map(Value).filter(other).collect();
    if !fit.is_empty() {
        func.ops[at].operands[operand] = choices.pick(&fit);
    }
}

/// An op becomes another that takes and gives as many values.
fn swap_kind(module: &mut Module, choices: &mut Numbers) {
    let Some(func) = some_func(module, choices) else { return };
    let at = choices.below(func.ops.len());
    let op = &func.ops[at];
    if !op.regions.is_empty() || op.kind().is_none_or(OpKind::is_terminator) {
        return;
    }
    let (operands, class) = (op.operands.len(), op.kind().map(OpKind::class));
    let is_elementwise = |class| matches!(class, Some(OpClass::Arithmetic | OpClass::Transcendental));
    let fits = |kind: &&OpKind| {
        let arity = elementwise_arity(**kind);
        if is_elementwise(class) { arity == Some(operands) } else { Some(kind.class()) == class }
    };
    let kinds: Vec<OpKind> = OpKind::ALL.iter().filter(fits).copied().collect();
    if !kinds.is_empty() {
        func.ops[at].name = OpName::Known(choices.pick(&kinds));
    }
}

/// How many operands an element-wise op without attributes takes.
fn elementwise_arity(kind: OpKind) -> Option<usize> {
    use OpKind as K;
    match kind {
        K::Add
        | K::And
        | K::Atan2
        | K::Divide
        | K::Maximum
        | K::Minimum
        | K::Multiply
        | K::Or
        | K::Power
        | K::Remainder
        | K::ShiftLeft
        | K::ShiftRightArithmetic
        | K::ShiftRightLogical
        | K::Subtract
        | K::Xor => Some(2),
        K::Abs
        | K::Cbrt
        | K::Ceil
        | K::Cosine
        | K::CountLeadingZeros
        | K::Exponential
        | K::ExponentialMinusOne
        | K::Floor
        | K::Log
        | K::LogPlusOne
        | K::Logistic
        | K::Negate
        | K::Not
        | K::Popcnt
        | K::RoundNearestAfz
        | K::RoundNearestEven
        | K::Rsqrt
        | K::Sign
        | K::Sine
        | K::Sqrt
        | K::Tan
        | K::Tanh
        | K::Convert
        | K::ChloErf
        | K::ChloErfc
        | K::ChloDigamma
        | K::ChloLgamma
        | K::ChloAsinh
        | K::ChloCosh => Some(1),
        _ => None,
    }
}

/// One more op on a result, which is then returned instead: what is fused with what changes.
fn chain(module: &mut Module, choices: &mut Numbers) {
    let Some(func) = some_func(module, choices).filter(|func| &*func.name == "main") else { return };
    let Some(body) = func.body else { return };
    let Some(end) = func.regions[body.0 as usize].ops.pop() else { return };
    let count = func.op(end).operands.len();
    if count > 0 {
        let n = choices.below(count);
        let value = func.op(end).operands[n];
        let ty = func.ty(value).clone();
        let kinds: Vec<(OpKind, usize)> =
            OpKind::ALL.iter().filter_map(|&kind| Some((kind, elementwise_arity(kind)?))).collect();
        let (kind, arity) = choices.pick(&kinds);
        let mut new = NewOp::new(OpName::Known(kind));
        new.operands = vec![value; arity];
        new.results = vec![ty];
        let id = func.add_op(body, new);
        let result = func.op(id).first_result;
        func.op_mut(end).operands[n] = result;
    }
    func.regions[body.0 as usize].ops.push(end);
    func.renumber();
}

const TYPES: [&[&str]; 5] = [
    &[
        "f32",
        "f64",
        "bf16",
        "f16",
        "f8E4M3FN",
        "f8E5M2",
        "f8E4M3B11FNUZ",
        "f8E4M3FNUZ",
        "f8E5M2FNUZ",
        "f8E4M3",
        "f8E3M4",
    ],
    &["i32", "i64", "i8", "i16", "i4", "i2"],
    &["ui32", "ui64", "ui8", "ui16", "ui4", "ui2"],
    &["complex<f32>", "complex<f64>"],
    &["i1"],
];

const WORDS: [&[&str]; 6] = [
    &["LT", "LE", "GT", "GE", "EQ", "NE"],
    &["FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"],
    &["FFT", "IFFT", "RFFT", "IRFFT"],
    &["THREE_FRY", "PHILOX", "DEFAULT"],
    &["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"],
    &["true", "false"],
];

/// A change of the text.
fn mutate_text(text: &str, choices: &mut Numbers) -> String {
    match choices.below(12) {
        0..=2 => change_number(text, choices),
        3..=5 => change_size(text, choices),
        6..=8 => change_type(text, choices),
        9 => change_word(text, choices),
        _ => donate(text, choices),
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.$#%@!".contains(&byte)
}

/// Where whole numbers stand that are no part of a name.
fn numbers_of(text: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            at += 1;
        }
        let before = if start == 0 { b' ' } else { bytes[start - 1] };
        // In `4x5xf32` the `x` divides.
        let is_size = before == b'x' && start >= 2 && !bytes[start - 2].is_ascii_alphabetic();
        if !is_name(before) || is_size {
            let start = if before == b'-' { start - 1 } else { start };
            found.push(start..at);
        }
    }
    found
}

fn other_number(n: i64, choices: &mut Numbers) -> String {
    const EDGES: [i64; 14] = [
        0,
        1,
        2,
        -1,
        -2,
        i64::MIN,
        i64::MIN + 1,
        i64::MAX,
        1 << 62,
        1 << 40,
        1 << 32,
        i32::MAX as i64,
        i32::MIN as i64,
        255,
    ];
    let near = choices.between(-3, 3);
    match choices.below(5) {
        0 => choices.pick(&EDGES).to_string(),
        1 => n.wrapping_mul(2).to_string(),
        2 => choices.between(0, 9).to_string(),
        _ => n.wrapping_add(near).to_string(),
    }
}

fn change_number(text: &str, choices: &mut Numbers) -> String {
    let found = numbers_of(text);
    if found.is_empty() {
        return text.to_string();
    }
    let at = choices.pick(&found);
    let number = text[at.clone()].parse().unwrap_or(0);
    format!("{}{}{}", &text[..at.start], other_number(number, choices), &text[at.end..])
}

/// One size everywhere: the program mostly stays valid.
fn change_size(text: &str, choices: &mut Numbers) -> String {
    let found = numbers_of(text);
    let is_size = |at: &std::ops::Range<usize>| text.as_bytes().get(at.end) == Some(&b'x');
    let sizes: Vec<&str> = found.iter().filter(|at| is_size(at)).map(|at| &text[(*at).clone()]).collect();
    if sizes.is_empty() {
        return text.to_string();
    }
    let old = choices.pick(&sizes);
    let number: i64 = old.parse().unwrap_or(1);
    let new = match choices.below(6) {
        0 => "0".to_string(),
        1 => "1".to_string(),
        2 => choices.pick(&[16, 17, 31, 33, 64, 65, 100, 129]).to_string(),
        3 => number.saturating_mul(2).to_string(),
        _ => number.saturating_add(choices.between(-2, 5)).max(0).to_string(),
    };
    let everywhere = choices.one_in(2);
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for at in found {
        if &text[at.clone()] == old && (everywhere || is_size(&at)) {
            out += &text[last..at.start];
            out += &new;
            last = at.end;
        }
    }
    out + &text[last..]
}

/// Where a word stands that is no part of another.
fn places(text: &str, word: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let is_edge = |at: usize| at >= bytes.len() || !is_name(bytes[at]) || bytes[at] == b'x';
    let is_start = |at: usize| at == 0 || !is_name(bytes[at - 1]) || bytes[at - 1] == b'x';
    text.match_indices(word).map(|(at, _)| at).filter(|&at| is_start(at) && is_edge(at + word.len())).collect()
}

fn replace(text: &str, places: &[usize], old: usize, new: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for &at in places {
        out += &text[last..at];
        out += new;
        last = at + old;
    }
    out + &text[last..]
}

/// One element type by another: everywhere, in one line, or in one place.
fn change_type(text: &str, choices: &mut Numbers) -> String {
    let mut written: Vec<(usize, &str)> = Vec::new();
    for (family, types) in TYPES.iter().enumerate() {
        written.extend(types.iter().filter(|ty| !places(text, ty).is_empty()).map(|ty| (family, *ty)));
    }
    if written.is_empty() {
        return text.to_string();
    }
    let (family, old) = choices.pick(&written);
    let family = if choices.one_in(4) { choices.below(TYPES.len()) } else { family };
    let new = choices.pick(TYPES[family]);
    let found = places(text, old);
    let chosen = choices.pick(&found);
    let line =
        text[..chosen].rfind('\n').map_or(0, |at| at + 1)..text[chosen..].find('\n').map_or(text.len(), |n| chosen + n);
    let found = match choices.below(4) {
        0 => vec![chosen],
        1 => found.into_iter().filter(|at| line.contains(at)).collect(),
        _ => found,
    };
    replace(text, &found, old.len(), new)
}

fn change_word(text: &str, choices: &mut Numbers) -> String {
    let mut written: Vec<(&[&str], &str)> = Vec::new();
    for words in WORDS {
        written.extend(words.iter().filter(|word| !places(text, word).is_empty()).map(|word| (words, *word)));
    }
    if written.is_empty() {
        return text.to_string();
    }
    let (words, old) = choices.pick(&written);
    let new = choices.pick(words);
    let at = choices.pick(&places(text, old));
    replace(text, &[at], old.len(), new)
}

/// An argument is given to the program, perhaps for a result that it does not fit.
fn donate(text: &str, choices: &mut Numbers) -> String {
    let Some(start) = text.find("@main(") else { return text.to_string() };
    let Some(end) = text[start..].find(") ").map(|n| start + n) else { return text.to_string() };
    let types: Vec<usize> = text[start..end].match_indices(": tensor<").map(|(at, _)| start + at).collect();
    if types.is_empty() {
        return text.to_string();
    }
    let at = choices.pick(&types);
    let mut depth = 0;
    let close = text[at..].char_indices().find_map(|(n, c)| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        (c == '>' && depth == 0).then_some(at + n + 1)
    });
    let Some(close) = close.filter(|&close| !text[close..].starts_with(" {")) else { return text.to_string() };
    let attribute = match choices.below(3) {
        0 => " {jax.buffer_donor = true}".to_string(),
        _ => format!(" {{tf.aliasing_output = {} : i32}}", choices.below(3)),
    };
    format!("{}{attribute}{}", &text[..close], &text[close..])
}
