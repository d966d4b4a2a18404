//! What stands at the top of bytecode: the module, its functions and its meshes.

use super::container::Container;
use super::cursor::Cursor;
use super::op_attrs::Need;
use super::program::{Header, Inside, Reader, Scope};
use super::tables::Tables;
use crate::error::Error;
use crate::ir::sdy::SdyAttr;
use crate::ir::{Attr, Attrs, Func, MeshOp, Module, Type, Visibility};

/// Reads the program of a container.
pub(super) fn read(container: &Container<'_>) -> Result<Module, Error> {
    Reader { container, tables: Tables::new(container) }.module()
}

impl<'a> Reader<'a> {
    fn module(&mut self) -> Result<Module, Error> {
        let mut cursor = self.container.ir;
        if cursor.flagged()? != (1, false) {
            return Err(cursor.error("the file must hold exactly one module"));
        }
        let mut header = self.header(&mut cursor)?;
        if (header.op.dialect, header.op.name) != ("builtin", "module") {
            let name = format!("{}.{}", header.op.dialect, header.op.name);
            return Err(cursor.error(format!("the outermost op is `{name}`, not a module")));
        }
        self.own_attrs(&mut header, &[("sym_name", Need::Optional), ("sym_visibility", Need::Optional)])?;
        let mut module = Module { loc: header.loc.clone(), ..Module::default() };
        module.name = match header.attrs.remove("sym_name") {
            Some(name) => Some(symbol_text(&cursor, &name)?.into()),
            None => None,
        };
        module.attrs = std::mem::take(&mut header.attrs);
        let mut body = self.regions(&header, &mut cursor)?;
        if header.num_regions != 1 || body.varint()? != 1 {
            return Err(body.error("a module must have one region of one block"));
        }
        body.varint()?;
        let (num_ops, has_args) = body.flagged()?;
        if has_args {
            return Err(body.error("a module's block takes no arguments"));
        }
        for _ in 0..body.bound(num_ops)? {
            self.top_level(&mut body, &mut module)?;
        }
        Ok(module)
    }

    fn top_level(&mut self, cursor: &mut Cursor<'a>, module: &mut Module) -> Result<(), Error> {
        let header = self.header(cursor)?;
        match (header.op.dialect, header.op.name) {
            ("vhlo", "func_v1") => {
                const STORED: &[(&str, Need)] = &[
                    ("arg_attrs", Need::Required),
                    ("function_type", Need::Required),
                    ("res_attrs", Need::Required),
                    ("sym_name", Need::Required),
                    ("sym_visibility", Need::Required),
                ];
                module.funcs.push(self.func(cursor, header, STORED)?);
            }
            ("func", "func") => {
                const STORED: &[(&str, Need)] = &[
                    ("arg_attrs", Need::Optional),
                    ("function_type", Need::Required),
                    ("no_inline", Need::Optional),
                    ("res_attrs", Need::Optional),
                    ("sym_name", Need::Required),
                    ("sym_visibility", Need::Optional),
                ];
                module.funcs.push(self.func(cursor, header, STORED)?);
            }
            ("sdy", "mesh") => module.meshes.push(self.mesh(cursor, header)?),
            (dialect, name) => {
                return Err(cursor.error(format!("`{dialect}.{name}` in a module is not supported")));
            }
        }
        Ok(())
    }

    fn mesh(&mut self, cursor: &Cursor<'_>, mut header: Header<'a>) -> Result<MeshOp, Error> {
        self.own_attrs(&mut header, &[("mesh", Need::Required), ("sym_name", Need::Required)])?;
        let name = header.attrs.remove("sym_name").ok_or_else(|| cursor.error("a mesh without a name"))?;
        let mesh = match header.attrs.remove("mesh") {
            Some(Attr::Sdy(sdy)) => match &*sdy {
                SdyAttr::Mesh(mesh) => Some(mesh.clone()),
                _ => None,
            },
            _ => None,
        };
        let mesh = mesh.ok_or_else(|| cursor.error("a mesh without its axes"))?;
        Ok(MeshOp { name: symbol_text(cursor, &name)?.into(), mesh, attrs: header.attrs, loc: header.loc })
    }

    fn func(
        &mut self,
        cursor: &mut Cursor<'a>,
        mut header: Header<'a>,
        stored: &'static [(&'static str, Need)],
    ) -> Result<Func, Error> {
        self.own_attrs(&mut header, stored)?;
        let attrs = &mut header.attrs;
        let name = attrs.remove("sym_name").ok_or_else(|| cursor.error("a function without a name"))?;
        let mut func = Func::new(symbol_text(cursor, &name)?);
        func.visibility = match attrs.remove("sym_visibility") {
            None => Visibility::Default,
            Some(word) => match word.as_str() {
                Some("") => Visibility::Default,
                Some("public") => Visibility::Public,
                Some("private") => Visibility::Private,
                Some("nested") => Visibility::Nested,
                _ => return Err(cursor.error(format!("{word:?} is no visibility"))),
            },
        };
        match attrs.remove("function_type") {
            Some(Attr::Type(Type::Function(ty))) => {
                func.inputs = ty.inputs.clone();
                func.outputs = ty.outputs.clone();
            }
            _ => return Err(cursor.error(format!("function `{}` has no function type", func.name))),
        }
        func.input_attrs = per_value(cursor, attrs.remove("arg_attrs"), func.inputs.len())?;
        func.output_attrs = per_value(cursor, attrs.remove("res_attrs"), func.outputs.len())?;
        func.attrs = std::mem::take(attrs);
        func.loc = header.loc.clone();
        if header.num_regions > 1 {
            return Err(cursor.error(format!("function `{}` has several regions", func.name)));
        }
        let mut body = self.regions(&header, cursor)?;
        if header.num_regions == 1 {
            let region = func.add_region();
            let inside = Inside { is_function: true, depth: 0 };
            if self.region(&mut body, &mut func, region, &mut Scope::default(), inside)? {
                func.body = Some(region);
            } else {
                func.regions.clear();
            }
        }
        if !self.has_own_section(&header) {
            *cursor = body;
        }
        if func.body.is_some() && func.args().len() != func.inputs.len() {
            return Err(cursor.error(format!("function `{}` has a body with other arguments", func.name)));
        }
        func.renumber();
        Ok(func)
    }
}

fn symbol_text<'s>(cursor: &Cursor<'_>, name: &'s Attr) -> Result<&'s str, Error> {
    match name {
        Attr::Symbol(name) => Ok(name),
        _ => name.as_str().ok_or_else(|| cursor.error("a name that is not text")),
    }
}

/// Attributes of arguments or results: one dictionary for each, or nothing at all.
fn per_value(cursor: &Cursor<'_>, attr: Option<Attr>, count: usize) -> Result<Vec<Attrs>, Error> {
    let dicts = match attr {
        None => return Ok(vec![Attrs::new(); count]),
        Some(Attr::Array(dicts)) if dicts.is_empty() => return Ok(vec![Attrs::new(); count]),
        Some(Attr::Array(dicts)) if dicts.len() == count => dicts,
        Some(_) => return Err(cursor.error("attributes of arguments or results that do not match their number")),
    };
    let attrs = |dict: &Attr| match dict {
        Attr::Dict(attrs) => Ok(Attrs::clone(attrs)),
        _ => Err(cursor.error("attributes of an argument or result are not a dictionary")),
    };
    dicts.iter().map(attrs).collect()
}
