//! Reading of source locations.

use std::sync::Arc;

use crate::ir::{Attr, Loc, Location};
use crate::text::lexer::{Read, Reader};

impl<'a> Reader<'a> {
    /// `loc(…)`, if it starts here.
    pub(super) fn optional_location(&mut self) -> Read<Option<Loc>> {
        if self.peek() == b'l' && self.peek_word() == "loc" { Ok(Some(self.location()?)) } else { Ok(None) }
    }

    /// `loc(…)`.
    pub(super) fn location(&mut self) -> Read<Loc> {
        self.expect_word("loc")?;
        self.expect(b'(')?;
        let loc = self.location_inside()?;
        self.expect(b')')?;
        Ok(loc)
    }

    fn location_inside(&mut self) -> Read<Loc> {
        self.enter()?;
        let loc = self.location_body()?;
        self.depth -= 1;
        Ok(loc)
    }

    fn location_body(&mut self) -> Read<Loc> {
        match self.peek() {
            b'#' => {
                let start = self.pos;
                self.pos += 1;
                self.suffix("the name of a location")?;
                return match self.attr_alias(&self.src[start..self.pos], start)? {
                    Attr::Loc(loc) => Ok(loc),
                    _ => self.fail_at(start, "this alias is not a location"),
                };
            }
            b'"' => {
                let name = self.shared_string()?;
                if self.eat(b':') {
                    return self.file_position(name);
                }
                let child = if self.eat(b'(') {
                    let child = self.nested_location()?;
                    self.expect(b')')?;
                    child
                } else {
                    None
                };
                return Ok(Some(Arc::new(Location::Name(name, child))));
            }
            _ => {}
        }
        match self.peek_word() {
            "unknown" => {
                self.expect_word("unknown")?;
                Ok(None)
            }
            "callsite" => {
                self.expect_word("callsite")?;
                self.expect(b'(')?;
                let callee = self.nested_location()?;
                self.expect_word("at")?;
                let caller = self.nested_location()?;
                self.expect(b')')?;
                Ok(Some(Arc::new(Location::CallSite { callee, caller })))
            }
            "fused" => {
                self.expect_word("fused")?;
                let mut metadata = None;
                if self.eat(b'<') {
                    self.skip();
                    let start = self.pos;
                    self.attr()?;
                    metadata = Some(self.foreign_text(start)?);
                    self.expect(b'>')?;
                }
                let mut parts = Vec::new();
                self.list(b'[', b']', |r| {
                    parts.push(r.nested_location()?);
                    Ok(())
                })?;
                Ok(Some(Arc::new(Location::Fused(parts, metadata))))
            }
            _ => self.expected("a location"),
        }
    }

    /// A location inside another, with or without `loc(…)` around it.
    fn nested_location(&mut self) -> Read<Loc> {
        if self.peek_word() == "loc" { self.location() } else { self.location_inside() }
    }

    /// `line:column` and a range after it, behind the file's name and colon.
    fn file_position(&mut self, file: Arc<str>) -> Read<Loc> {
        let line = self.coordinate()?;
        self.expect(b':')?;
        let column = self.coordinate()?;
        let mut end = None;
        if self.eat_word("to") {
            let end_line = if self.peek() == b':' { line } else { self.coordinate()? };
            self.expect(b':')?;
            end = Some((end_line, self.coordinate()?));
        }
        Ok(Some(Arc::new(Location::File { file, line, column, end })))
    }

    fn coordinate(&mut self) -> Read<u32> {
        let start = self.pos;
        let value = self.integer()?;
        u32::try_from(value).or_else(|_| self.fail_at(start, "expected a line or column"))
    }
}
