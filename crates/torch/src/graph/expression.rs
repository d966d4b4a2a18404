//! Sizes as expressions of symbols: sympy's `srepr` and `str` forms, read and computed.

use std::collections::BTreeMap;

use crate::error::Error;

/// Nesting that is read.
const MAX_DEPTH: usize = 64;

/// Characters that are read.
const MAX_LENGTH: usize = 1 << 16;

/// A size that depends on symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymExpr {
    /// A number.
    Int(i64),
    /// A symbol: `s77` is of inputs, `u0` of data.
    Symbol(String),
    /// A function or operator of others, such as `Add` and `FloorDiv`.
    Apply(String, Vec<SymExpr>),
}

impl SymExpr {
    /// Reads `Mul(Integer(2), Symbol('s77', positive=True))` and `2*s77`.
    pub fn parse(text: &str) -> Result<SymExpr, Error> {
        let bad = || Error::damaged(format!("`{}` is not a size", text.chars().take(80).collect::<String>()));
        if text.len() > MAX_LENGTH {
            return Err(bad());
        }
        let mut reader = Reader { rest: text.trim(), depth: 0 };
        let expression = reader.sum().ok_or_else(bad)?;
        match reader.rest.trim().is_empty() {
            true => Ok(expression),
            false => Err(bad()),
        }
    }

    /// Its value, when symbols have these.
    pub fn value(&self, symbols: &BTreeMap<String, i64>) -> Result<i64, Error> {
        match self {
            SymExpr::Int(value) => Ok(*value),
            SymExpr::Symbol(name) => symbols.get(name).copied().ok_or_else(|| {
                if name.starts_with('u') {
                    return Error::new(
                        format!("size `{name}` depends on values of tensors, which no TPU program can have"),
                        "replace what makes it (nonzero, boolean indexing, item) by a mask or a fixed size",
                    );
                }
                Error::new(format!("size `{name}` is not known"), "give an input whose shape has it")
            }),
            SymExpr::Apply(name, arguments) => {
                let values = arguments.iter().map(|a| a.value(symbols)).collect::<Result<Vec<i64>, Error>>()?;
                apply(name, &values).ok_or_else(|| {
                    Error::new(format!("size `{name}{values:?}` has no value"), "give inputs of other shapes")
                })
            }
        }
    }
}

/// The value of a function of sizes.
pub(crate) fn apply(name: &str, values: &[i64]) -> Option<i64> {
    let pair = || match *values {
        [a, b] => Some((a, b)),
        _ => None,
    };
    match name {
        "Add" => values.iter().try_fold(0i64, |sum, value| sum.checked_add(*value)),
        "Mul" => values.iter().try_fold(1i64, |product, value| product.checked_mul(*value)),
        "Max" => values.iter().copied().max(),
        "Min" => values.iter().copied().min(),
        "Sub" => pair().and_then(|(a, b)| a.checked_sub(b)),
        "FloorDiv" => pair().and_then(|(a, b)| floor_div(a, b)),
        "CleanDiv" | "IntTrueDiv" => pair().filter(|(a, b)| *b != 0 && a % b == 0).and_then(|(a, b)| a.checked_div(b)),
        "CeilDiv" => pair().and_then(|(a, b)| floor_div(a.checked_neg()?, b)?.checked_neg()),
        "Mod" | "PythonMod" => pair().and_then(|(a, b)| a.checked_sub(b.checked_mul(floor_div(a, b)?)?)),
        "Pow" => pair().and_then(|(a, b)| a.checked_pow(u32::try_from(b).ok()?)),
        "Abs" => values.first().and_then(|a| a.checked_abs()),
        _ => None,
    }
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(token) {
            Some(after) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Option<SymExpr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut left = self.product()?;
        loop {
            left = if self.eat("+") {
                SymExpr::Apply("Add".into(), vec![left, self.product()?])
            } else if self.eat("-") {
                SymExpr::Apply("Sub".into(), vec![left, self.product()?])
            } else {
                self.depth -= 1;
                return Some(left);
            };
        }
    }

    fn product(&mut self) -> Option<SymExpr> {
        let mut left = self.power()?;
        loop {
            let name = if self.rest.trim_start().starts_with("**") {
                return Some(left);
            } else if self.eat("*") {
                "Mul"
            } else if self.eat("//") {
                "FloorDiv"
            } else if self.eat("/") {
                "IntTrueDiv"
            } else if self.eat("%") {
                "Mod"
            } else {
                return Some(left);
            };
            left = SymExpr::Apply(name.into(), vec![left, self.power()?]);
        }
    }

    fn power(&mut self) -> Option<SymExpr> {
        if self.eat("-") {
            self.depth += 1;
            let inner = (self.depth <= MAX_DEPTH).then(|| self.power()).flatten()?;
            self.depth -= 1;
            return Some(SymExpr::Apply("Mul".into(), vec![SymExpr::Int(-1), inner]));
        }
        let base = self.primary()?;
        match self.eat("**") {
            true => Some(SymExpr::Apply("Pow".into(), vec![base, self.primary()?])),
            false => Some(base),
        }
    }

    fn primary(&mut self) -> Option<SymExpr> {
        if self.eat("(") {
            let inner = self.sum()?;
            return self.eat(")").then_some(inner);
        }
        let word = self.word()?;
        if let Ok(number) = word.parse::<i64>() {
            return Some(SymExpr::Int(number));
        }
        if !self.eat("(") {
            return Some(SymExpr::Symbol(word.to_string()));
        }
        let mut arguments = Vec::new();
        let mut name = None;
        while !self.eat(")") {
            if let Some(quote) = ['\'', '"'].into_iter().find(|quote| self.rest.trim_start().starts_with(*quote)) {
                let text = self.rest.trim_start().get(1..)?;
                let end = text.find(quote)?;
                name = text.get(..end);
                self.rest = text.get(end + 1..)?;
            } else if !self.skip_keyword() {
                arguments.push(self.sum()?);
            }
            self.eat(",");
        }
        match (word, name) {
            ("Symbol", Some(name)) => Some(SymExpr::Symbol(name.to_string())),
            ("Integer", None) => arguments.into_iter().next(),
            (_, None) => Some(SymExpr::Apply(word.rsplit('.').next().unwrap_or(word).to_string(), arguments)),
            _ => None,
        }
    }

    /// `positive=True` says nothing of the value.
    fn skip_keyword(&mut self) -> bool {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let Some(after) = rest.get(end..).and_then(|after| after.strip_prefix('=')) else { return false };
        let value = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
        self.rest = after.get(value..).unwrap_or_default();
        true
    }

    fn word(&mut self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
        let word = rest.get(..end).filter(|word| !word.is_empty())?;
        self.rest = rest.get(end..)?;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_have_the_same_value() {
        let symbols = BTreeMap::from([("s77".to_string(), 7), ("s0".to_string(), 3)]);
        let value = |text: &str| SymExpr::parse(text).and_then(|e| e.value(&symbols));
        let long = "Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(-1))";
        assert_eq!(value(long).unwrap(), 13);
        assert_eq!(value("2*s77 - 1").unwrap(), 13);
        assert_eq!(value("(s77 + 1)//2 + s0**2").unwrap(), 13);
        assert_eq!(value("torch.utils._sympy.functions.FloorDiv(Symbol('s77'), Integer(2))").unwrap(), 3);
        assert_eq!(value("Mod(-s77, 4) + Max(s0, s77)").unwrap(), 8);
        assert!(value("s9").unwrap_err().to_string().contains("s9"));
        assert!(value("u0").unwrap_err().to_string().contains("values of tensors"));
        for bad in ["", "2*", "Symbol('s", "((((", "Pow(2, 99)", "s77//0", "a b"] {
            assert!(value(bad).is_err(), "{bad}");
        }
        assert!(SymExpr::parse(&"(".repeat(100_000)).is_err());
        assert!(SymExpr::parse(&"-".repeat(1000)).is_err());
    }
}
