//! The reader's eye: a position in the text and the small steps every rule is made of.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::{Error, Position};
use crate::ir::Type;
use crate::print::name::{is_word, is_word_start};
use crate::text::read_alias::Alias;

/// Nesting of regions, types, attributes and locations that a text may have.
pub(super) const MAX_DEPTH: u32 = 256;

/// Why reading stopped, by byte offset; turned into [`Error`] with line, column and excerpt at the door.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) at: usize,
    pub(super) message: String,
    pub(super) is_limit: bool,
}

/// Result of one reading step. Boxed, so that the many small steps return a word or two.
pub(super) type Read<T> = Result<T, Box<Failure>>;

/// Reads one text.
pub(super) struct Reader<'a> {
    pub(super) src: &'a [u8],
    pub(super) pos: usize,
    /// Current nesting.
    pub(super) depth: u32,
    /// Deepest nesting since the current alias began, aliases expanded.
    pub(super) peak: u32,
    /// Attributes and types read since the current alias began, aliases expanded.
    pub(super) nodes: u64,
    pub(super) aliases: HashMap<&'a [u8], Alias>,
    /// Tensor types by their text: programs repeat a few types many times.
    pub(super) types: HashMap<&'a [u8], Type>,
    /// File and name strings of locations, shared.
    pub(super) strings: HashMap<&'a [u8], Arc<str>>,
    /// Hex text of `dense_resource` blobs: start and end offsets.
    pub(super) resources: HashMap<&'a [u8], (usize, usize)>,
    /// Where each type of the last type list began.
    pub(super) type_starts: Vec<usize>,
    /// Bytes of foreign attributes with the aliases in them written out.
    pub(super) expanded_bytes: usize,
    /// Names of the module's functions and meshes.
    pub(super) symbols: HashSet<Arc<str>>,
}

fn is_suffix(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

/// Position of the first byte that passes the test. Tests whole blocks at a time, which the compiler turns into vector
/// instructions; long constants and comments are passed over at the speed of memory.
#[inline]
pub(super) fn find(bytes: &[u8], test: impl Fn(u8) -> bool + Copy) -> Option<usize> {
    const BLOCK: usize = 32;
    let mut at = 0;
    for block in bytes.chunks_exact(BLOCK) {
        if block.iter().fold(false, |hit, &b| hit | test(b)) {
            break;
        }
        at += BLOCK;
    }
    bytes[at..].iter().position(|&b| test(b)).map(|found| at + found)
}

pub(super) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("\u{fffd}")
}

impl<'a> Reader<'a> {
    pub(super) fn new(src: &'a [u8]) -> Self {
        Reader {
            src,
            pos: 0,
            depth: 0,
            peak: 0,
            nodes: 0,
            aliases: HashMap::new(),
            types: HashMap::new(),
            strings: HashMap::new(),
            resources: HashMap::new(),
            type_starts: Vec::new(),
            expanded_bytes: 0,
            symbols: HashSet::new(),
        }
    }

    /// Fails here.
    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Read<T> {
        self.fail_at(self.pos, message)
    }

    pub(super) fn fail_at<T>(&self, at: usize, message: impl Into<String>) -> Read<T> {
        Err(Box::new(Failure { at, message: message.into(), is_limit: false }))
    }

    pub(super) fn limit<T>(&self, message: impl Into<String>) -> Read<T> {
        Err(Box::new(Failure { at: self.pos, message: message.into(), is_limit: true }))
    }

    /// Fails with what was expected and what stands here instead.
    #[cold]
    pub(super) fn expected<T>(&mut self, what: &str) -> Read<T> {
        self.skip();
        let rest = &self.src[self.pos..];
        let found = match rest.first() {
            None => "the end of the text".to_owned(),
            Some(&b) if is_word_start(b) => {
                let end = rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len()).min(40);
                format!("`{}`", text(&rest[..end]))
            }
            Some(&b) if b.is_ascii_graphic() => format!("`{}`", char::from(b)),
            Some(&b) => format!("byte 0x{b:02X}"),
        };
        self.fail(format!("expected {what}, found {found}"))
    }

    /// One level deeper; the caller decrements `depth` on the way out of a success.
    pub(super) fn enter(&mut self) -> Read<()> {
        self.depth += 1;
        self.peak = self.peak.max(self.depth);
        self.nodes += 1;
        if self.depth > MAX_DEPTH {
            return self.limit(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        Ok(())
    }

    /// Moves over blanks and comments.
    #[inline]
    pub(super) fn skip(&mut self) {
        loop {
            match self.src.get(self.pos) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.pos += 1,
                Some(b'/') if self.src.get(self.pos + 1) == Some(&b'/') => {
                    let rest = &self.src[self.pos..];
                    self.pos += find(rest, |b| b == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// The next significant byte, 0 at the end.
    #[inline]
    pub(super) fn peek(&mut self) -> u8 {
        self.skip();
        self.src.get(self.pos).copied().unwrap_or(0)
    }

    /// The byte right here, 0 at the end.
    #[inline]
    pub(super) fn here(&self) -> u8 {
        self.src.get(self.pos).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && self.pos < self.src.len();
        self.pos += usize::from(found);
        found
    }

    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Read<()> {
        if self.eat(byte) { Ok(()) } else { self.expected(&format!("`{}`", char::from(byte))) }
    }

    /// Takes punctuation of any length.
    pub(super) fn eat_mark(&mut self, mark: &str) -> bool {
        self.skip();
        let found = self.src[self.pos..].starts_with(mark.as_bytes());
        self.pos += if found { mark.len() } else { 0 };
        found
    }

    pub(super) fn expect_mark(&mut self, mark: &str) -> Read<()> {
        if self.eat_mark(mark) { Ok(()) } else { self.expected(&format!("`{mark}`")) }
    }

    /// The word ahead, without taking it; empty if there is none.
    #[inline]
    pub(super) fn peek_word(&mut self) -> &'a str {
        if !is_word_start(self.peek()) {
            return "";
        }
        let rest = &self.src[self.pos..];
        let end = rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len());
        text(&rest[..end])
    }

    pub(super) fn word(&mut self, what: &str) -> Read<&'a str> {
        let word = self.peek_word();
        if word.is_empty() {
            return self.expected(what);
        }
        self.pos += word.len();
        Ok(word)
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == word;
        self.pos += if found { word.len() } else { 0 };
        found
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Read<()> {
        if self.eat_word(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    /// The identifier after a sigil (`%`, `#`, `!`, `^`), which may hold dashes or be all digits.
    #[inline]
    pub(super) fn suffix(&mut self, what: &str) -> Read<&'a [u8]> {
        let rest = &self.src[self.pos..];
        let end = if rest.first().is_some_and(u8::is_ascii_digit) {
            rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len())
        } else {
            rest.iter().position(|&b| !is_suffix(b)).unwrap_or(rest.len())
        };
        if end == 0 {
            return self.expected(what);
        }
        self.pos += end;
        Ok(&rest[..end])
    }

    /// Comma-separated items between brackets.
    pub(super) fn list(&mut self, open: u8, close: u8, mut item: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.expect(open)?;
        if self.eat(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.eat(b',') {
                return self.expect(close);
            }
        }
    }

    /// A decimal or hexadecimal integer that fits in 64 bits (either signedness), as `i128`.
    pub(super) fn wide_integer(&mut self) -> Read<i128> {
        self.skip();
        let start = self.pos;
        let negative = self.here() == b'-';
        self.pos += usize::from(negative);
        let rest = &self.src[self.pos..];
        let mut value: i128 = 0;
        let taken = if rest.starts_with(b"0x") && rest.get(2).is_some_and(u8::is_ascii_hexdigit) {
            let digits = rest[2..].iter().take_while(|b| b.is_ascii_hexdigit());
            let mut n = 2;
            for &b in digits {
                value = value.saturating_mul(16).saturating_add(i128::from(char::from(b).to_digit(16).unwrap_or(0)));
                n += 1;
            }
            n
        } else {
            let mut n = 0;
            for &b in rest.iter().take_while(|b| b.is_ascii_digit()) {
                value = value.saturating_mul(10).saturating_add(i128::from(b - b'0'));
                n += 1;
            }
            n
        };
        if taken == 0 {
            self.pos = start;
            return self.expected("an integer");
        }
        if value > i128::from(u64::MAX) || (negative && value > 1 << 63) {
            return self.fail_at(start, "the integer does not fit in 64 bits");
        }
        self.pos += taken;
        Ok(if negative { -value } else { value })
    }

    pub(super) fn integer(&mut self) -> Read<i64> {
        let start = self.pos;
        let value = self.wide_integer()?;
        i64::try_from(value).or_else(|_| self.fail_at(start, "the integer does not fit in a signed 64-bit integer"))
    }

    /// `[1, 2, 3]`.
    pub(super) fn integers(&mut self) -> Read<Vec<i64>> {
        let mut values = Vec::new();
        self.list(b'[', b']', |r| {
            values.push(r.integer()?);
            Ok(())
        })?;
        Ok(values)
    }

    /// Whether a number with a decimal point starts here.
    pub(super) fn at_float(&mut self) -> bool {
        self.skip();
        let rest = &self.src[self.pos..];
        let rest = rest.strip_prefix(b"-").unwrap_or(rest);
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && rest.get(digits) == Some(&b'.')
    }

    /// A number with a decimal point.
    pub(super) fn float(&mut self) -> Read<f64> {
        if !self.at_float() {
            return self.expected("a floating-point number");
        }
        let rest = &self.src[self.pos..];
        let (value, length) = super::read_dense::scan_float(rest);
        self.pos += length;
        value.map_or_else(|| self.fail("malformed floating-point number"), Ok)
    }

    /// The raw inside of a string literal; escapes are not resolved.
    pub(super) fn raw_string(&mut self) -> Read<&'a [u8]> {
        if self.peek() != b'"' {
            return self.expected("a string");
        }
        let start = self.pos + 1;
        let mut at = start;
        loop {
            let next = find(self.src.get(at..).unwrap_or_default(), |b| matches!(b, b'"' | b'\\' | b'\n'));
            let Some(next) = next else { return self.fail("the string is never closed") };
            at += next;
            match self.src[at] {
                b'"' => break,
                b'\\' => at += 2,
                _ => return self.fail("the string is not closed on its line"),
            }
        }
        self.pos = at + 1;
        Ok(&self.src[start..at])
    }

    /// The bytes of a string literal.
    pub(super) fn string(&mut self) -> Read<Vec<u8>> {
        let start = self.pos;
        let raw = self.raw_string()?;
        unescape(raw).map_or_else(|| self.fail_at(start, "unknown escape in a string"), Ok)
    }

    /// A string literal that must be text.
    pub(super) fn utf8_string(&mut self) -> Read<String> {
        let start = self.pos;
        let bytes = self.string()?;
        String::from_utf8(bytes).or_else(|_| self.fail_at(start, "the string is not UTF-8"))
    }

    /// A string shared with its earlier occurrences; invalid UTF-8 is replaced.
    pub(super) fn shared_string(&mut self) -> Read<Arc<str>> {
        let start = self.pos;
        let raw = self.raw_string()?;
        if let Some(known) = self.strings.get(raw) {
            return Ok(known.clone());
        }
        let Some(bytes) = unescape(raw) else { return self.fail_at(start, "unknown escape in a string") };
        let shared: Arc<str> = String::from_utf8_lossy(&bytes).into();
        self.strings.insert(raw, shared.clone());
        Ok(shared)
    }

    /// `@name` or `@"any text"`.
    pub(super) fn symbol(&mut self) -> Read<Arc<str>> {
        if !self.eat(b'@') {
            return self.expected("a symbol such as `@main`");
        }
        if self.here() == b'"' {
            return Ok(self.utf8_string()?.into());
        }
        if !is_word_start(self.here()) {
            return self.expected("a name after `@`");
        }
        Ok(self.word("a name after `@`")?.into())
    }

    /// Moves past the bracket that closes the one here, over strings and nested brackets.
    pub(super) fn skip_balanced(&mut self) -> Read<()> {
        let start = self.pos;
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.here() {
                b'"' => {
                    self.raw_string()?;
                    continue;
                }
                b'-' if self.src.get(self.pos + 1) == Some(&b'>') => self.pos += 1,
                b'<' => open.push(b'>'),
                b'[' => open.push(b']'),
                b'(' => open.push(b')'),
                b'{' => open.push(b'}'),
                b @ (b'>' | b']' | b')' | b'}') if open.pop() != Some(b) => {
                    return self.fail(format!("`{}` closes nothing", char::from(b)));
                }
                0 if self.pos >= self.src.len() => return self.fail_at(start, "this bracket is never closed"),
                _ => {}
            }
            self.pos += 1;
            if open.is_empty() {
                return Ok(());
            }
        }
    }

    /// The text from `start` to here, as text.
    pub(super) fn text_since(&self, start: usize) -> Read<Arc<str>> {
        match std::str::from_utf8(&self.src[start..self.pos]) {
            Ok(text) => Ok(text.into()),
            Err(_) => self.fail_at(start, "this text is not UTF-8"),
        }
    }

    /// The error to hand out for a failure.
    pub(super) fn into_error(self, failure: Failure) -> Error {
        let at = failure.at.min(self.src.len());
        let (line, column) = position(self.src, at);
        if failure.is_limit {
            return Error::Limit { message: format!("line {line}, column {column}: {}", failure.message) };
        }
        let excerpt = excerpt(self.src, at);
        Error::Syntax { at: Position { line, column }, message: failure.message, excerpt }
    }
}

/// Resolves escapes; `None` if one is unknown.
pub(super) fn unescape(raw: &[u8]) -> Option<Vec<u8>> {
    if !raw.contains(&b'\\') {
        return Some(raw.to_vec());
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b @ (b'"' | b'\\') => b,
            high => {
                let digit = |b: u8| char::from(b).to_digit(16);
                (digit(high)? * 16 + digit(bytes.next()?)?) as u8
            }
        });
    }
    Some(out)
}

fn position(src: &[u8], at: usize) -> (u32, u32) {
    let line = src[..at].iter().filter(|&&b| b == b'\n').count() + 1;
    let line_start = src[..at].iter().rposition(|&b| b == b'\n').map_or(0, |p| p + 1);
    // Continuation bytes of UTF-8 do not count as columns.
    let column = src[line_start..at].iter().filter(|&&b| b & 0xc0 != 0x80).count() + 1;
    (line.min(u32::MAX as usize) as u32, column.min(u32::MAX as usize) as u32)
}

/// The line around `at`, cut to about 120 characters, and a caret below.
fn excerpt(src: &[u8], at: usize) -> String {
    const BEFORE: usize = 70;
    const AFTER: usize = 50;
    let line_start = src[..at].iter().rposition(|&b| b == b'\n').map_or(0, |p| p + 1);
    let line_end = src[at..].iter().position(|&b| b == b'\n').map_or(src.len(), |p| at + p);
    // A hostile file may be one line of gigabytes: look only at what is near.
    let near_start = line_start.max(at.saturating_sub(4 * BEFORE));
    let near_end = line_end.min(at.saturating_add(4 * AFTER));
    let clean = |bytes: &[u8]| -> Vec<char> {
        String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    };
    let before = clean(&src[near_start..at]);
    let after = clean(&src[at..near_end]);
    let cut_before = before.len() > BEFORE || near_start > line_start;
    let cut_after = after.len() > AFTER || near_end < line_end;
    let before = &before[before.len().saturating_sub(BEFORE)..];
    let after = &after[..after.len().min(AFTER)];
    let mut out = String::from("  ");
    out.push_str(if cut_before { "…" } else { "" });
    out.extend(before);
    out.extend(after);
    out.push_str(if cut_after { "…" } else { "" });
    let out = out.trim_end().to_owned();
    let pad = 2 + usize::from(cut_before) + before.len();
    format!("{out}\n{}^", " ".repeat(pad))
}
