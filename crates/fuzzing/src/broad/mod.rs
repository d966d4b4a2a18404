//! Programs of every op and element type, valid but for what the dice decide; nothing is known of their results.

mod calls;
mod data;
mod regions;

use std::fmt::Write;

use crate::numbers::Numbers;
use crate::oracle::Subject;

const FLOATS: [&str; 9] = ["f32", "f32", "f64", "bf16", "f16", "f8E4M3FN", "f8E5M2", "f8E4M3B11FNUZ", "f8E3M4"];
const INTEGERS: [&str; 12] = ["i32", "i32", "i64", "i8", "i16", "i4", "i2", "ui8", "ui16", "ui32", "ui64", "ui4"];
const COMPLEX: [&str; 2] = ["complex<f32>", "complex<f64>"];

/// The type of an array.
#[derive(Clone, Debug, PartialEq)]
struct Ty {
    dims: Vec<i64>,
    element: &'static str,
}

impl Ty {
    fn new(dims: impl Into<Vec<i64>>, element: &'static str) -> Ty {
        Ty { dims: dims.into(), element }
    }

    fn of(&self, element: &'static str) -> Ty {
        Ty::new(self.dims.clone(), element)
    }

    fn count(&self) -> i64 {
        self.dims.iter().product()
    }

    fn is_float(&self) -> bool {
        FLOATS.contains(&self.element)
    }
}

impl std::fmt::Display for Ty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("tensor<")?;
        for size in &self.dims {
            write!(f, "{size}x")?;
        }
        write!(f, "{}>", self.element)
    }
}

/// A value in scope.
#[derive(Clone, Debug)]
struct Named {
    name: String,
    ty: Ty,
}

struct Writer {
    choices: Numbers,
    arguments: Vec<Named>,
    pool: Vec<Named>,
    lines: Vec<String>,
    /// Private functions that calls and composites name.
    functions: Vec<String>,
    next: usize,
}

/// The program of these choices.
pub fn generate(choices: Numbers) -> Subject {
    let mut writer =
        Writer { choices, arguments: Vec::new(), pool: Vec::new(), lines: Vec::new(), functions: Vec::new(), next: 0 };
    for _ in 0..writer.choices.between(1, 5) {
        writer.any_op();
    }
    Subject::of(writer.finish())
}

impl Writer {
    fn name(&mut self) -> String {
        self.next += 1;
        format!("%v{}", self.next)
    }

    fn float(&mut self) -> &'static str {
        self.choices.pick(&FLOATS)
    }

    fn integer(&mut self) -> &'static str {
        self.choices.pick(&INTEGERS)
    }

    fn element(&mut self) -> &'static str {
        match self.choices.below(10) {
            0..=4 => self.float(),
            5..=7 => self.integer(),
            8 => self.choices.pick(&COMPLEX),
            _ => "i1",
        }
    }

    fn number(&mut self) -> &'static str {
        if self.choices.one_in(2) { self.float() } else { self.integer() }
    }

    fn size(&mut self) -> i64 {
        self.choices.pick(&[0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65])
    }

    fn dims(&mut self, most: usize) -> Vec<i64> {
        let mut dims: Vec<i64> = (0..self.choices.below(most + 1)).map(|_| self.size()).collect();
        while dims.iter().map(|d| d.max(&1)).product::<i64>() > 4000 {
            dims.pop();
        }
        dims
    }

    fn ty(&mut self) -> Ty {
        let (dims, element) = (self.dims(4), self.element());
        Ty::new(dims, element)
    }

    /// A value of a type: one in scope, a constant, or an argument.
    fn operand(&mut self, ty: &Ty) -> String {
        let fit: Vec<usize> = (0..self.pool.len()).filter(|&n| self.pool[n].ty == *ty).collect();
        if !fit.is_empty() && !self.choices.one_in(3) {
            let n = self.choices.pick(&fit);
            return self.pool[n].name.clone();
        }
        if self.choices.one_in(5) {
            return self.constant(ty);
        }
        let named = Named { name: format!("%arg{}", self.arguments.len()), ty: ty.clone() };
        self.arguments.push(named.clone());
        self.pool.push(named.clone());
        named.name
    }

    /// A constant of one number everywhere.
    fn constant(&mut self, ty: &Ty) -> String {
        let number = self.choices.below(3);
        let text = match ty.element {
            _ if ty.count() == 0 => String::new(),
            "i1" => (number > 0).to_string(),
            element if element.starts_with("complex") => format!("({number}.5, -1.0)"),
            _ if ty.is_float() => format!("{number}.5"),
            "i2" => (number % 2).to_string(),
            _ => number.to_string(),
        };
        let name = self.name();
        self.lines.push(format!("{name} = stablehlo.constant dense<{text}> : {ty}"));
        name
    }

    /// A constant of these integers.
    fn integers(&mut self, values: &[i64], element: &'static str) -> Named {
        let name = self.name();
        let ty = Ty::new([values.len() as i64], element);
        let text = if values.is_empty() { String::new() } else { format!("{values:?}") };
        self.lines.push(format!("{name} = stablehlo.constant dense<{text}> : {ty}"));
        Named { name, ty }
    }

    /// A value in scope, or a new one.
    fn any(&mut self) -> Named {
        if !self.pool.is_empty() && !self.choices.one_in(3) {
            return self.choices.pick(&self.pool);
        }
        let ty = self.ty();
        Named { name: self.operand(&ty), ty }
    }

    /// Writes an op in generic form with one result; its name.
    fn op(&mut self, op: &str, operands: &[(&str, &Ty)], attributes: &str, regions: &str, result: Ty) -> Named {
        let names: Vec<&str> = operands.iter().map(|(name, _)| *name).collect();
        let types: Vec<String> = operands.iter().map(|(_, ty)| ty.to_string()).collect();
        let name = self.name();
        let attributes = if attributes.is_empty() { String::new() } else { format!(" <{{{attributes}}}>") };
        let regions = if regions.is_empty() { String::new() } else { format!(" ({regions})") };
        let (names, types) = (names.join(", "), types.join(", "));
        self.lines.push(format!("{name} = \"{op}\"({names}){attributes}{regions} : ({types}) -> {result}"));
        let named = Named { name, ty: result };
        self.pool.push(named.clone());
        named
    }

    /// As [`Writer::op`], with several results.
    fn ops(&mut self, op: &str, operands: &[(String, Ty)], attributes: &str, regions: &str, results: &[Ty]) {
        let names: Vec<&str> = operands.iter().map(|(name, _)| &**name).collect();
        let list = |types: &mut dyn Iterator<Item = &Ty>| types.map(Ty::to_string).collect::<Vec<_>>().join(", ");
        let (types, given) = (list(&mut operands.iter().map(|(_, ty)| ty)), list(&mut results.iter()));
        let name = self.name();
        let attributes = if attributes.is_empty() { String::new() } else { format!(" <{{{attributes}}}>") };
        let regions = if regions.is_empty() { String::new() } else { format!(" ({regions})") };
        self.lines.push(format!(
            "{name}:{} = \"{op}\"({}){attributes}{regions} : ({types}) -> ({given})",
            results.len(),
            names.join(", ")
        ));
        for (n, ty) in results.iter().enumerate() {
            self.pool.push(Named { name: format!("{name}#{n}"), ty: ty.clone() });
        }
    }

    fn any_op(&mut self) {
        match self.choices.below(40) {
            0..=2 => self.unary(),
            3..=5 => self.binary(),
            6 => self.compare(),
            7 => self.select(),
            8..=9 => self.convert(),
            10 => self.bitcast(),
            11..=12 => self.view(),
            13 => self.pad(),
            14 => self.concatenate(),
            15..=16 => self.reduce(),
            17 => self.reduce_window(),
            18 => self.select_and_scatter(),
            19 => self.scatter(),
            20 => self.gather(),
            21 => self.dynamic_slice(),
            22 => self.sort(),
            23 => self.repeat(),
            24 => self.branch(),
            25..=26 => self.dot(),
            27 => self.convolution(),
            28 => self.fourier(),
            29 => self.linear_algebra(),
            30 => self.batch_norm(),
            31 => self.random(),
            32..=33 => self.composite(),
            34 => self.custom_call(),
            35 => self.structure(),
            36 => self.chlo(),
            37 => self.dynamic(),
            38 => self.collective(),
            _ => self.map(),
        }
    }

    fn finish(mut self) -> String {
        let mut results: Vec<Named> = Vec::new();
        for _ in 0..self.choices.between(1, 3) {
            let value = self.any();
            results.push(value);
        }
        results.extend(self.pool.last().cloned());
        let list = |parts: Vec<String>| parts.join(", ");
        let types = list(results.iter().map(|value| value.ty.to_string()).collect());
        let names = list(results.iter().map(|value| value.name.clone()).collect());
        let arguments = list(self.arguments.iter().map(|value| format!("{}: {}", value.name, value.ty)).collect());
        let mut text = String::from("module {\n");
        for function in &self.functions {
            text += function;
        }
        let _ = writeln!(text, "  func.func @main({arguments}) -> ({types}) {{");
        for line in &self.lines {
            let _ = writeln!(text, "    {line}");
        }
        let _ = writeln!(text, "    func.return {names} : {types}\n  }}\n}}");
        text
    }
}

/// `array<i64: …>`.
fn array(values: &[i64]) -> String {
    let text: Vec<String> = values.iter().map(i64::to_string).collect();
    if values.is_empty() { "array<i64>".into() } else { format!("array<i64: {}>", text.join(", ")) }
}

/// `dense<…> : tensor<Nx2xi64>`.
fn pairs(values: &[(i64, i64)]) -> String {
    let text: Vec<String> = values.iter().map(|(a, b)| format!("[{a}, {b}]")).collect();
    let text = if values.is_empty() { String::new() } else { format!("[{}]", text.join(", ")) };
    format!("dense<{text}> : tensor<{}x2xi64>", values.len())
}
