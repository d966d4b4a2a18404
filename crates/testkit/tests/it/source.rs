//! A source file as rules see it: comments, strings and tests blanked, and the paths it names.

use std::collections::BTreeSet;

/// The text with comments, strings and character literals blanked; lines stay where they are.
pub(crate) fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = blank_until(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// Where the comment or literal that begins here ends; here where none begins.
fn blank_until(chars: &[char], at: usize) -> usize {
    let is = |n: usize, c: char| chars.get(at + n) == Some(&c);
    let begins_word = at == 0 || !is_word(chars[at - 1]);
    match chars[at] {
        '/' if is(1, '/') => chars[at..].iter().position(|&c| c == '\n').map_or(chars.len(), |n| at + n),
        '/' if is(1, '*') => after_block_comment(chars, at),
        '"' => after_string(chars, at + 1),
        'b' | 'c' if begins_word && is(1, '"') => after_string(chars, at + 2),
        'r' if begins_word => after_raw_string(chars, at + 1).unwrap_or(at),
        'b' | 'c' if begins_word && is(1, 'r') => after_raw_string(chars, at + 2).unwrap_or(at),
        '\'' => after_character(chars, at),
        _ => at,
    }
}

fn after_block_comment(chars: &[char], at: usize) -> usize {
    let (mut depth, mut n) = (0, at);
    while n < chars.len() {
        match (chars[n], chars.get(n + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                n += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                n += 2;
                if depth == 0 {
                    return n;
                }
            }
            _ => n += 1,
        }
    }
    chars.len()
}

fn after_string(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn after_raw_string(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let mut n = at + hashes + 1;
    while n < chars.len() {
        if chars[n] == '"' && chars[n + 1..].iter().take_while(|&&c| c == '#').count() >= hashes {
            return Some(n + 1 + hashes);
        }
        n += 1;
    }
    Some(chars.len())
}

/// After a character literal; a lifetime is none.
fn after_character(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => chars[at + 3..].iter().position(|&c| c == '\'').map_or(chars.len(), |n| at + 4 + n),
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Code with items under `#[cfg(test)]` blanked, and the modules in files of their own that were among them.
pub(crate) fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut out = code.to_string();
    let mut modules = Vec::new();
    let mut from = 0;
    while let Some(begin) = out[from..].find("#[cfg(").map(|n| from + n) {
        let Some(condition) = out[begin..].find(']').map(|n| &out[begin + 6..begin + n]) else { break };
        let after = begin + 6 + condition.len() + 1;
        let is_test = words(condition).any(|word| word == "test") && !condition.contains("not(");
        if !is_test {
            from = after;
            continue;
        }
        let (open, end) = (out[after..].find('{'), out[after..].find(';'));
        let end = match (open, end) {
            (Some(open), Some(semicolon)) if semicolon < open => after + semicolon + 1,
            (Some(open), _) => after_braces(&out, after + open),
            (None, Some(semicolon)) => after + semicolon + 1,
            (None, None) => out.len(),
        };
        let item: Vec<&str> = words(&out[after..end]).collect();
        if out[after..end].ends_with(';')
            && let Some(at) = item.iter().position(|&word| word == "mod")
        {
            modules.extend(item.get(at + 1).map(|name| name.to_string()));
        }
        let blanked: String = out[begin..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(begin..end, &blanked);
        from = begin;
    }
    (out, modules)
}

fn after_braces(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (n, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + n + 1;
        }
    }
    code.len()
}

/// Words of code, in order.
pub(crate) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    /// `::`.
    Of,
    Other(char),
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(c) = rest.chars().next() {
        let length = if is_word(c) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            found.push(Token::Word(&rest[..length]));
            length
        } else if rest.starts_with("::") {
            found.push(Token::Of);
            2
        } else {
            if !c.is_whitespace() {
                found.push(Token::Other(c));
            }
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

/// Every path of two or more parts that code names: those of `use`, groups taken apart, and those in expressions and types.
pub(crate) fn paths(code: &str) -> BTreeSet<Vec<String>> {
    let tokens = tokens(code);
    let mut found = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        // After `::` only where nothing stands before it, as in `::std::fs`.
        let goes_on = at > 0
            && tokens[at - 1] == Token::Of
            && at.checked_sub(2).is_some_and(|before| matches!(tokens[before], Token::Word(_) | Token::Other('>')));
        if matches!(tokens[at], Token::Word(_)) && !goes_on {
            at = path(&tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Takes one path apart, after a prefix, and gives where it ends.
fn path(tokens: &[Token<'_>], mut at: usize, prefix: &[String], found: &mut BTreeSet<Vec<String>>) -> usize {
    let mut parts = prefix.to_vec();
    while let Some(Token::Word(word)) = tokens.get(at) {
        parts.push(word.to_string());
        at += 1;
        if tokens.get(at) != Some(&Token::Of) {
            break;
        }
        at += 1;
    }
    let is_group = tokens.get(at) == Some(&Token::Other('{')) && at > 0 && tokens[at - 1] == Token::Of;
    if !is_group {
        if parts.len() > 1 {
            found.insert(parts);
        }
        return at;
    }
    at += 1;
    while let Some(&token) = tokens.get(at) {
        match token {
            Token::Other('}') => return at + 1,
            Token::Word("as") => at += 2,
            Token::Word(_) => at = path(tokens, at, &parts, found),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_no_code() {
        let text = "a // unsafe\n/* unsafe /* b */ */ c \"un\\\"safe\" r#\"unsafe \" \"# 'u' '\\'' &'d e b\"unsafe\" br\"x\" f";
        assert_eq!(words(&code(text)).collect::<Vec<_>>(), ["a", "c", "d", "e", "f"]);
        assert_eq!(code("x\n// y\nz").lines().count(), 3);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "use a::b;\n#[cfg(test)]\nmod tests {\n fn f() { c::d() }\n}\n#[cfg(all(test, unix))]\nmod more;\n#[cfg(not(test))]\nuse e::f;\n#[cfg(unix)]\nuse g::h;";
        let (left, modules) = without_tests(text);
        assert_eq!(modules, ["more"]);
        let left: Vec<String> = paths(&left).iter().map(|path| path.join("::")).collect();
        assert_eq!(left, ["a::b", "e::f", "g::h"]);
    }

    #[test]
    fn groups_are_taken_apart() {
        let text = "use crate::{a::{b, c as d}, e, self};\nfn f(x: super::g::H) { i::<j::K>(::std::fs::read) }";
        let found: Vec<String> = paths(text).iter().map(|path| path.join("::")).collect();
        assert_eq!(
            found,
            ["crate::a::b", "crate::a::c", "crate::e", "crate::self", "j::K", "std::fs::read", "super::g::H"]
        );
    }
}
