//! Reading of functions, in their own form and in the generic one.

use std::sync::Arc;

use crate::ir::{Attr, Attrs, Func, Type, Visibility};
use crate::text::lexer::{Read, Reader};
use crate::text::read_op::{Argument, Body, OuterNames};

impl<'a> Reader<'a> {
    /// What follows `func.func`.
    pub(super) fn func(&mut self) -> Read<Func> {
        let visibility = match self.peek_word() {
            "public" => Visibility::Public,
            "private" => Visibility::Private,
            "nested" => Visibility::Nested,
            _ => Visibility::Default,
        };
        if visibility != Visibility::Default {
            self.word("a visibility")?;
        }
        let mut func = Func::new(self.symbol()?);
        func.visibility = visibility;
        let args = self.func_args(&mut func)?;
        if self.eat_mark("->") {
            self.func_results(&mut func)?;
        }
        if self.eat_word("attributes") {
            self.attr_dict(&mut func.attrs, None)?;
        }
        self.skip();
        let body_at = self.pos;
        let mut body = Body::new(func);
        if self.here() == b'{' {
            if args.len() != body.func.inputs.len() {
                return self.fail_at(body_at, "the arguments of a function with a body need names");
            }
            let region = self.region(&mut body, Some(&args), OuterNames::Hidden)?;
            body.func.body = Some(region);
        }
        let mut func = body.func;
        func.loc = self.optional_location()?.flatten();
        func.renumber();
        Ok(func)
    }

    /// `(%a: t {…} loc(…), …)` or `(t {…}, …)`; the named ones are returned.
    fn func_args(&mut self, func: &mut Func) -> Read<Vec<Argument<'a>>> {
        let mut args = Vec::new();
        self.list(b'(', b')', |r| {
            let named = r.peek() == b'%';
            let name = if named {
                let name = r.value_name()?;
                r.expect(b':')?;
                Some(name)
            } else {
                None
            };
            let ty = r.ty()?;
            let mut attrs = Attrs::new();
            r.optional_attr_dict(&mut attrs, None)?;
            let loc = r.optional_location()?.flatten();
            func.inputs.push(ty.clone());
            func.input_attrs.push(attrs);
            if let Some((name, at)) = name {
                args.push(Argument { name, at, ty, loc });
            }
            Ok(())
        })?;
        Ok(args)
    }

    /// `t` or `(t {…}, …)`.
    fn func_results(&mut self, func: &mut Func) -> Read<()> {
        if self.peek() != b'(' {
            func.outputs.push(self.ty()?);
            func.output_attrs.push(Attrs::new());
            return Ok(());
        }
        self.list(b'(', b')', |r| {
            func.outputs.push(r.ty()?);
            let mut attrs = Attrs::new();
            r.optional_attr_dict(&mut attrs, None)?;
            func.output_attrs.push(attrs);
            Ok(())
        })
    }

    /// What follows `"func.func"`: `() <{…}> ({…}) {…} : () -> ()`.
    pub(super) fn generic_func(&mut self) -> Read<Func> {
        let at = self.pos;
        self.expect(b'(')?;
        self.expect(b')')?;
        let mut attrs = Attrs::new();
        if self.eat(b'<') {
            self.attr_dict(&mut attrs, None)?;
            self.expect(b'>')?;
        }
        let mut body = Body::new(Func::new(""));
        self.expect(b'(')?;
        let region = self.region(&mut body, None, OuterNames::Hidden)?;
        self.expect(b')')?;
        self.optional_attr_dict(&mut attrs, None)?;
        self.expect(b':')?;
        self.function_type()?;
        let mut func = body.func;
        func.name = match attrs.remove("sym_name") {
            Some(Attr::Str(name)) if name.as_str().is_some() => name.as_str().unwrap_or_default().into(),
            _ => return self.fail_at(at, "`sym_name` must name the function"),
        };
        func.visibility = match attrs.remove("sym_visibility") {
            None => Visibility::Default,
            Some(Attr::Str(word)) => match word.as_str() {
                Some("public") => Visibility::Public,
                Some("private") => Visibility::Private,
                Some("nested") => Visibility::Nested,
                _ => return self.fail_at(at, "`sym_visibility` must be public, private or nested"),
            },
            Some(_) => return self.fail_at(at, "`sym_visibility` must be a string"),
        };
        let Some(Attr::Type(Type::Function(ty))) = attrs.remove("function_type") else {
            return self.fail_at(at, "`function_type` must be a function type");
        };
        func.inputs = ty.inputs.clone();
        func.outputs = ty.outputs.clone();
        func.input_attrs = self.attrs_of_each(at, attrs.remove("arg_attrs"), func.inputs.len())?;
        func.output_attrs = self.attrs_of_each(at, attrs.remove("res_attrs"), func.outputs.len())?;
        func.attrs = attrs;
        let data = func.region(region);
        let is_declaration = data.ops.is_empty() && data.args.is_empty();
        if !is_declaration {
            let types: Vec<&Type> = data.args.iter().map(|&arg| func.ty(arg)).collect();
            if types != func.inputs.iter().collect::<Vec<_>>() {
                return self.fail_at(at, "the arguments of the body do not match `function_type`");
            }
            func.body = Some(region);
        } else {
            func.regions.clear();
        }
        func.loc = self.optional_location()?.flatten();
        func.renumber();
        Ok(func)
    }

    fn attrs_of_each(&mut self, at: usize, attr: Option<Attr>, count: usize) -> Read<Vec<Attrs>> {
        match attr {
            None => Ok(vec![Attrs::new(); count]),
            Some(Attr::Array(items)) if items.len() == count => items
                .iter()
                .map(|item| match item {
                    Attr::Dict(attrs) => Ok(Arc::unwrap_or_clone(attrs.clone())),
                    _ => self.fail_at(at, "argument and result attributes must be dictionaries"),
                })
                .collect(),
            Some(_) => self.fail_at(at, format!("expected {count} dictionaries of attributes")),
        }
    }
}
