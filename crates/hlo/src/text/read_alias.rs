//! Names that stand for attributes, types and locations (`#loc1 = …`, `!t = …`), defined before or after their use.

use crate::ir::{Attr, Type};
use crate::text::lexer::{Read, Reader, find, text};

/// Nesting a value may reach when the aliases inside it are expanded; values this deep are still compared and dropped
/// by recursion.
const MAX_EXPANDED_DEPTH: u32 = 1024;

/// Size a value may reach when the aliases inside it are expanded.
const MAX_EXPANDED_NODES: u64 = 1 << 16;

/// One alias.
pub(super) struct Alias {
    /// Offset of its value.
    at: usize,
    /// Offset just behind its value, once read.
    end: usize,
    state: State,
    depth: u32,
    nodes: u64,
}

#[derive(Clone)]
enum State {
    Unread,
    Reading,
    Attr(Attr),
    Type(Type),
}

impl<'a> Reader<'a> {
    /// Finds every alias definition, so that a use may come first, and reads them in order of writing.
    ///
    /// A definition is a line that starts with `#name =` or `!name =`; no other line can, since strings do not span lines.
    pub(super) fn find_aliases(&mut self) -> Read<()> {
        let mut found = Vec::new();
        let mut line = 0;
        while line < self.src.len() {
            let rest = &self.src[line..];
            let length = find(rest, |b| b == b'\n').map_or(rest.len(), |p| p + 1);
            let blanks = rest[..length].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
            if matches!(rest.get(blanks), Some(b'#' | b'!')) {
                self.pos = line + blanks;
                if let Some((name, at)) = self.definition_ahead() {
                    let fresh = Alias { at, end: 0, state: State::Unread, depth: 0, nodes: 0 };
                    if self.aliases.insert(name, fresh).is_some() {
                        self.pos = line + blanks;
                        return self.fail(format!("`{}` is defined twice", text(name)));
                    }
                    found.push(name);
                }
            }
            line += length;
        }
        for name in found {
            self.resolve(name, 0)?;
        }
        self.pos = 0;
        Ok(())
    }

    /// The name (with its sigil) and the offset of the value, if an alias definition starts here.
    fn definition_ahead(&mut self) -> Option<(&'a [u8], usize)> {
        let start = self.pos;
        self.pos += 1;
        self.suffix("").ok()?;
        let name = &self.src[start..self.pos];
        while matches!(self.here(), b' ' | b'\t') {
            self.pos += 1;
        }
        let is_definition = self.here() == b'=' && self.src.get(self.pos + 1) != Some(&b'=');
        is_definition.then_some((name, self.pos + 1))
    }

    /// Passes a definition at the top of the file: [`Reader::find_aliases`] has read it.
    pub(super) fn skip_definition(&mut self) -> Read<()> {
        self.skip();
        let start = self.pos;
        let Some((name, _)) = self.definition_ahead() else {
            self.pos = start;
            return self.expected("an alias definition, a function or a module");
        };
        match self.aliases.get(name) {
            Some(alias) => self.pos = alias.end,
            None => return self.fail_at(start, "an alias definition must start its line"),
        }
        Ok(())
    }

    /// The attribute an alias names; `name` includes the `#`.
    pub(super) fn attr_alias(&mut self, name: &'a [u8], used_at: usize) -> Read<Attr> {
        match self.resolve(name, used_at)? {
            State::Attr(attr) => Ok(attr),
            _ => self.fail_at(used_at, format!("`{}` does not name an attribute", text(name))),
        }
    }

    /// The type an alias names; `name` includes the `!`.
    pub(super) fn type_alias(&mut self, name: &'a [u8], used_at: usize) -> Read<Type> {
        match self.resolve(name, used_at)? {
            State::Type(ty) => Ok(ty),
            _ => self.fail_at(used_at, format!("`{}` does not name a type", text(name))),
        }
    }

    fn resolve(&mut self, name: &'a [u8], used_at: usize) -> Read<State> {
        let Some(alias) = self.aliases.get_mut(name) else {
            return self.fail_at(used_at, format!("`{}` is not defined", text(name)));
        };
        match &alias.state {
            State::Reading => return self.fail_at(used_at, format!("`{}` is defined by itself", text(name))),
            State::Unread => {
                let at = alias.at;
                alias.state = State::Reading;
                self.read_alias(name, at)?;
            }
            State::Attr(_) | State::Type(_) => {}
        }
        let Some(alias) = self.aliases.get(name) else { return self.fail_at(used_at, "alias lost") };
        self.peak = self.peak.max(self.depth + alias.depth);
        self.nodes = self.nodes.saturating_add(alias.nodes);
        if self.peak > MAX_EXPANDED_DEPTH {
            return self.limit(format!("nested deeper than {MAX_EXPANDED_DEPTH} levels through aliases"));
        }
        Ok(alias.state.clone())
    }

    fn read_alias(&mut self, name: &'a [u8], at: usize) -> Read<()> {
        let outer = (self.pos, self.peak, self.nodes);
        // Aliases that refer to later ones are read inside one another: the nesting of reading itself stays bounded
        // because `depth` goes on from where the use stands.
        let base = self.depth;
        (self.pos, self.peak, self.nodes) = (at, self.depth, 0);
        self.enter()?;
        let state = if name.first() == Some(&b'!') { State::Type(self.ty()?) } else { State::Attr(self.attr()?) };
        self.depth -= 1;
        let (depth, nodes, end) = (self.peak - base, self.nodes, self.pos);
        if nodes > MAX_EXPANDED_NODES {
            return self.limit(format!("`{}` holds more than {MAX_EXPANDED_NODES} parts through aliases", text(name)));
        }
        self.aliases.insert(name, Alias { at, end, state, depth, nodes });
        (self.pos, self.peak, self.nodes) = outer;
        Ok(())
    }
}
