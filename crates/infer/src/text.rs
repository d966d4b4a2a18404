//! Text of tokens as they come: letters of several tokens wait until they are whole, and so does what may become a stop text.

use data::{DataError, Tokenizer};

/// Tokens that are decoded again with each new one: how a token reads may depend on those before it.
const CONTEXT: usize = 8;

/// The text of one answer.
#[derive(Clone, Debug)]
pub(crate) struct AnswerText {
    tokens: Vec<u32>,
    /// Where decoding begins.
    from: usize,
    /// Bytes of the decoded text that were taken already.
    taken: usize,
    /// Decoded, not given out yet: it may be the beginning of a stop text.
    held: String,
    stop: Vec<String>,
}

/// What one more token brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Text that is certain.
    pub(crate) text: String,
    /// A stop text was found: the answer ends before it.
    pub(crate) is_stopped: bool,
}

impl AnswerText {
    pub(crate) fn new(stop: Vec<String>) -> AnswerText {
        AnswerText { tokens: Vec::new(), from: 0, taken: 0, held: String::new(), stop }
    }

    /// One more token.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<Piece, DataError> {
        self.tokens.push(token);
        let text = tokenizer.decode_text(&self.tokens[self.from..])?;
        // A letter that is not whole yet; one that never will be is given out after a few tokens.
        let is_whole = !text.ends_with('\u{fffd}') || self.tokens.len() - self.from > 2 * CONTEXT;
        if is_whole {
            self.held.push_str(text.get(self.taken..).unwrap_or(""));
            self.taken = text.len();
            if self.tokens.len() - self.from > CONTEXT {
                self.from = self.tokens.len() - CONTEXT / 2;
                self.taken = tokenizer.decode_text(&self.tokens[self.from..])?.len();
            }
        }
        let found = self.stop.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(at) = found {
            self.held.truncate(at);
            return Ok(Piece { text: std::mem::take(&mut self.held), is_stopped: true });
        }
        let kept = self.stop.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        Ok(Piece { text: std::mem::replace(&mut self.held, rest), is_stopped: false })
    }

    /// The rest, where the answer ends.
    pub(crate) fn finish(&mut self, tokenizer: &Tokenizer) -> Result<String, DataError> {
        let text = tokenizer.decode_text(&self.tokens[self.from..])?;
        self.held.push_str(text.get(self.taken..).unwrap_or(""));
        self.taken = text.len();
        Ok(std::mem::take(&mut self.held))
    }
}

/// Bytes at the end of a text that are the beginning of another.
fn overlap(text: &str, stop: &str) -> usize {
    let ends = stop.char_indices().map(|(at, _)| at).skip(1);
    ends.filter(|&end| text.ends_with(&stop[..end])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, stop: &[&str]) -> (Vec<String>, bool) {
        let tokenizer = Tokenizer::bytes();
        let mut answer = AnswerText::new(stop.iter().map(|stop| stop.to_string()).collect());
        let mut pieces = Vec::new();
        for byte in text.bytes() {
            let piece = answer.push(&tokenizer, byte.into()).unwrap();
            pieces.push(piece.text);
            if piece.is_stopped {
                return (pieces, true);
            }
        }
        pieces.push(answer.finish(&tokenizer).unwrap());
        (pieces, false)
    }

    #[test]
    fn text_comes_in_whole_letters_and_never_more_than_is_certain() {
        let text = "größer ↯ und 漢字, long enough to move the window of tokens that are decoded again";
        let (parts, _) = pieces(text, &[]);
        assert_eq!(parts.concat(), text);
        assert!(parts.iter().all(|part| !part.contains('\u{fffd}')), "{parts:?}");
        let (parts, stopped) = pieces("one two END three", &["END"]);
        assert!(stopped);
        assert_eq!(parts.concat(), "one two ");
        // What only begins as a stop text comes later.
        let (parts, stopped) = pieces("an ENterprise", &["END"]);
        assert_eq!((parts.concat().as_str(), stopped), ("an ENterprise", false));
        assert!(!parts.iter().any(|part| part == "E"));
    }
}
