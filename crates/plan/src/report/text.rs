//! Text from programs, made safe to stand in a page.

use std::fmt::{self, Write};

/// Longest text shown, in characters; hostile programs have names of megabytes.
pub(super) const LONGEST: usize = 200;

/// Text that is escaped and cut when shown: right between tags and within quotes.
pub(super) struct Text<'a>(pub(super) &'a str, pub(super) usize);

/// Text of ordinary length.
pub(super) fn text(text: &str) -> Text<'_> {
    Text(text, LONGEST)
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Text(text, longest) = *self;
        for (count, c) in text.chars().enumerate() {
            if count == longest {
                return f.write_char('…');
            }
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(' ')?,
                // Control characters are not allowed in a page, and those that change the direction of writing make
                // one name look like another.
                c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}') => {
                    f.write_char('\u{fffd}')?;
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The end of a path-like name, which says most: `jit(step)/while/body/dot_general` as `…/body/dot_general`.
pub(super) fn tail(name: &str, longest: usize) -> String {
    let count = name.chars().count();
    if count <= longest {
        return name.to_string();
    }
    let kept: String = name.chars().skip(count - longest.saturating_sub(1)).collect();
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_markup() {
        assert_eq!(text("<b a='1' c=\"2\">&").to_string(), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;");
        assert_eq!(text("a\u{0}b\u{202e}c\nd").to_string(), "a\u{fffd}b\u{fffd}c d");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(text(&"<".repeat(1 << 20)).to_string(), "&lt;".repeat(LONGEST) + "…");
        assert_eq!(tail("jit(step)/body/dot", 9), "…body/dot");
        assert_eq!(tail("dot", 9), "dot");
    }
}
