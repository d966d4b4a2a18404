//! Reading of a file: the module, its functions and meshes, aliases and resources.

use crate::ir::sdy::SdyAttr;
use crate::ir::{Attr, Attrs, MeshOp, Module};
use crate::text::lexer::{Read, Reader};

impl<'a> Reader<'a> {
    /// A whole file.
    pub(super) fn module(&mut self) -> Read<Module> {
        self.find_resources();
        self.find_aliases()?;
        let mut module = Module::default();
        let mut explicit = false;
        loop {
            match self.peek() {
                0 if self.pos >= self.src.len() => return Ok(module),
                b'#' | b'!' => self.skip_definition()?,
                b'{' if self.src[self.pos..].starts_with(b"{-#") => self.skip_resources()?,
                _ => {
                    let at = self.pos;
                    let is_module = matches!(self.peek_word(), "module" | "builtin.module")
                        || self.src[self.pos..].starts_with(b"\"builtin.module\"");
                    if explicit {
                        return self.fail_at(at, "nothing may follow the module");
                    }
                    if is_module && !(module.funcs.is_empty() && module.meshes.is_empty()) {
                        return self.fail_at(at, "a module may not follow functions");
                    }
                    if is_module {
                        explicit = true;
                        self.explicit_module(&mut module)?;
                    } else {
                        self.module_op(&mut module)?;
                    }
                }
            }
        }
    }

    fn explicit_module(&mut self, module: &mut Module) -> Read<()> {
        if self.here() == b'"' {
            return self.generic_module(module);
        }
        self.word("`module`")?;
        if self.peek() == b'@' {
            module.name = Some(self.symbol()?);
        }
        if self.eat_word("attributes") {
            self.attr_dict(&mut module.attrs, None)?;
        }
        self.expect(b'{')?;
        self.module_ops(module)?;
        module.loc = self.optional_location()?.flatten();
        Ok(())
    }

    fn generic_module(&mut self, module: &mut Module) -> Read<()> {
        let at = self.pos;
        self.raw_string()?;
        self.expect(b'(')?;
        self.expect(b')')?;
        let mut attrs = Attrs::new();
        if self.eat(b'<') {
            self.attr_dict(&mut attrs, None)?;
            self.expect(b'>')?;
        }
        self.expect(b'(')?;
        self.expect(b'{')?;
        if self.eat(b'^') {
            self.suffix("a block name after `^`")?;
            self.expect(b':')?;
        }
        self.module_ops(module)?;
        self.expect(b')')?;
        self.optional_attr_dict(&mut attrs, None)?;
        self.expect(b':')?;
        self.function_type()?;
        module.name = match attrs.remove("sym_name") {
            None => None,
            Some(Attr::Str(name)) => name.as_str().map(Into::into),
            Some(_) => return self.fail_at(at, "`sym_name` must be a string"),
        };
        module.attrs = attrs;
        module.loc = self.optional_location()?.flatten();
        Ok(())
    }

    /// Ops of the module up to its closing brace.
    fn module_ops(&mut self, module: &mut Module) -> Read<()> {
        loop {
            match self.peek() {
                b'}' => {
                    self.pos += 1;
                    return Ok(());
                }
                0 if self.pos >= self.src.len() => return self.expected("`}`"),
                _ => self.module_op(module)?,
            }
        }
    }

    fn module_op(&mut self, module: &mut Module) -> Read<()> {
        let at = self.pos;
        if self.here() == b'"' {
            let name = self.utf8_string()?;
            match name.as_str() {
                "func.func" => {
                    let func = self.generic_func()?;
                    module.funcs.push(func);
                }
                "sdy.mesh" => self.generic_mesh(module)?,
                _ => return self.fail_at(at, format!("a module holds functions and meshes, not `{name}`")),
            }
            return self.unique_name(module, at);
        }
        match self.peek_word() {
            "func.func" | "func" => {
                self.word("`func.func`")?;
                let func = self.func()?;
                module.funcs.push(func);
            }
            "sdy.mesh" => {
                self.word("`sdy.mesh`")?;
                let name = self.symbol()?;
                self.expect(b'=')?;
                let mesh = self.sdy_mesh()?;
                let mut attrs = Attrs::new();
                self.optional_attr_dict(&mut attrs, None)?;
                let loc = self.optional_location()?.flatten();
                module.meshes.push(MeshOp { name, mesh, attrs, loc });
            }
            "" => return self.expected("a function or a mesh"),
            word => return self.fail_at(at, format!("a module holds functions and meshes, not `{word}`")),
        }
        self.unique_name(module, at)
    }

    fn generic_mesh(&mut self, module: &mut Module) -> Read<()> {
        let at = self.pos;
        self.expect(b'(')?;
        self.expect(b')')?;
        let mut attrs = Attrs::new();
        if self.eat(b'<') {
            self.attr_dict(&mut attrs, None)?;
            self.expect(b'>')?;
        }
        self.optional_attr_dict(&mut attrs, None)?;
        self.expect(b':')?;
        self.function_type()?;
        let loc = self.optional_location()?.flatten();
        let (Some(Attr::Str(name)), Some(Attr::Sdy(sdy))) = (attrs.remove("sym_name"), attrs.remove("mesh")) else {
            return self.fail_at(at, "a mesh needs `sym_name` and `mesh`");
        };
        let (Some(name), SdyAttr::Mesh(mesh)) = (name.as_str(), &*sdy) else {
            return self.fail_at(at, "a mesh needs `sym_name` and `mesh`");
        };
        module.meshes.push(MeshOp { name: name.into(), mesh: mesh.clone(), attrs, loc });
        Ok(())
    }

    /// Symbols of a module are unique. Called after each op, with the newest last in its list.
    fn unique_name(&mut self, module: &Module, at: usize) -> Read<()> {
        let newest_func = module.funcs.last().map(|f| &f.name);
        let newest_mesh = module.meshes.last().map(|m| &m.name);
        for name in [newest_func, newest_mesh].into_iter().flatten() {
            self.symbols.insert(name.clone());
        }
        if self.symbols.len() != module.funcs.len() + module.meshes.len() {
            return self.fail_at(at, "a function or mesh of this name exists already");
        }
        Ok(())
    }

    /// Notes where the blobs of `{-# dialect_resources: … #-}` are. What cannot be read is reported when the section is
    /// reached in order.
    fn find_resources(&mut self) {
        if !self.src.trim_ascii_end().ends_with(b"#-}") {
            return;
        }
        let Some(at) = self.src.windows(4).rposition(|w| w == b"\n{-#") else { return };
        self.pos = at + 1;
        let _ = self.skip_resources();
        self.pos = 0;
    }

    fn skip_resources(&mut self) -> Read<()> {
        self.expect_mark("{-#")?;
        while !self.eat_mark("#-}") {
            let section = self.word("a section of resources")?;
            self.expect(b':')?;
            self.list(b'{', b'}', |r| {
                r.resource_key()?;
                r.expect(b':')?;
                r.list(b'{', b'}', |r| {
                    let key = r.resource_key()?;
                    r.expect(b':')?;
                    if r.peek() != b'"' {
                        r.attr()?;
                        return Ok(());
                    }
                    let from = r.pos + 1;
                    r.raw_string()?;
                    if section == "dialect_resources" {
                        r.resources.insert(key, (from, r.pos - 1));
                    }
                    Ok(())
                })
            })?;
            self.eat(b',');
        }
        Ok(())
    }

    fn resource_key(&mut self) -> Read<&'a [u8]> {
        if self.peek() == b'"' { self.raw_string() } else { Ok(self.word("a resource name")?.as_bytes()) }
    }
}
