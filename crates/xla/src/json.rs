//! A small JSON reader for `backend_config`, bounded in depth.

/// A JSON value. Numbers keep their text: the compiler writes 64-bit integers both as numbers and as strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object in the order written.
    Object(Vec<(String, Json)>),
}

const MAX_DEPTH: u32 = 64;

impl Json {
    /// Reads one value; `None` where the text is not JSON or nests deeper than 64.
    pub fn parse(text: &[u8]) -> Option<Json> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        (reader.at == text.len()).then_some(value)
    }

    /// Member of an object.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|m| m.0 == key).map(|m| &m.1),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(s) => Some(s),
            _ => None,
        }
    }

    /// Elements of an array.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// An integer, written as a number or as a string.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(s) | Json::String(s) => s.parse().ok(),
            _ => None,
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        self.space();
        (self.text.get(self.at) == Some(&expected)).then(|| self.at += 1)
    }

    fn word(&mut self, word: &[u8], value: Json) -> Option<Json> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            value
        })
    }

    fn value(&mut self, depth: u32) -> Option<Json> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.space();
        match *self.text.get(self.at)? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(Json::String),
            b't' => self.word(b"true", Json::Bool(true)),
            b'f' => self.word(b"false", Json::Bool(false)),
            b'n' => self.word(b"null", Json::Null),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: u32) -> Option<Json> {
        self.take(b'{')?;
        let mut members = Vec::new();
        if self.take(b'}').is_some() {
            return Some(Json::Object(members));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.take(b':')?;
            members.push((key, self.value(depth + 1)?));
            if self.take(b',').is_none() {
                self.take(b'}')?;
                return Some(Json::Object(members));
            }
        }
    }

    fn array(&mut self, depth: u32) -> Option<Json> {
        self.take(b'[')?;
        let mut items = Vec::new();
        if self.take(b']').is_some() {
            return Some(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b',').is_none() {
                self.take(b']')?;
                return Some(Json::Array(items));
            }
        }
    }

    fn number(&mut self) -> Option<Json> {
        let rest = &self.text[self.at..];
        let len = rest.iter().take_while(|b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')).count();
        let text = std::str::from_utf8(&rest[..len]).ok()?;
        text.parse::<f64>().ok()?;
        self.at += len;
        Some(Json::Number(text.to_owned()))
    }

    fn string(&mut self) -> Option<String> {
        self.take(b'"')?;
        let mut out = Vec::new();
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(out).ok(),
                b'\\' => {
                    let escape = *self.text.get(self.at)?;
                    self.at += 1;
                    let c = match escape {
                        b'n' => '\n',
                        b't' => '\t',
                        b'r' => '\r',
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'u' => self.unicode()?,
                        b'"' | b'\\' | b'/' => char::from(escape),
                        _ => return None,
                    };
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => out.push(byte),
            }
        }
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }

    fn unicode(&mut self) -> Option<char> {
        let first = self.hex4()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        self.take(b'\\')?;
        self.take(b'u')?;
        let second = self.hex4()?.checked_sub(0xdc00).filter(|&s| s < 0x400)?;
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_backend_config() {
        let json =
            Json::parse(br#" {"w": {"estimated_cycles":"9635","n":-3e2},"l":[true,null],"s":"a\n\u00e9"} "#).unwrap();
        assert_eq!(json.get("w").and_then(|w| w.get("estimated_cycles")).and_then(Json::as_i64), Some(9635));
        assert_eq!(json.get("l").and_then(Json::as_array), Some(&[Json::Bool(true), Json::Null][..]));
        assert_eq!(json.get("s").and_then(Json::as_str), Some("a\né"));
        assert_eq!(Json::parse(br#""\ud83d\ude00""#).as_ref().and_then(Json::as_str), Some("😀"));
    }

    #[test]
    fn refuses_what_is_not_json() {
        for bad in ["", "{", "[1,]", "{\"a\" 1}", "tru", "\"\\x\"", "\"\\ud800\"", "1 2", "-", "\"", "\"\\u12"] {
            assert_eq!(Json::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Json::parse("[".repeat(100_000).as_bytes()), None);
    }
}
