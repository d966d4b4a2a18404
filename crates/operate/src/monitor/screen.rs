//! The terminal of the live view: drawing by escape sequences that every terminal knows, keys byte by byte, and everything
//! put back at the end.

use std::io::{self, Write};
use std::time::Duration;

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// A size for terminals that do not tell theirs.
const UNKNOWN_SIZE: Size = Size { width: 80, height: 24 };

/// Draws on a terminal.
pub(super) struct Screen<W: Write> {
    out: W,
    frame: Vec<u8>,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W) -> Screen<W> {
        Screen { out, frame: Vec::new() }
    }

    fn put(&mut self, sequence: &str) {
        self.frame.extend_from_slice(sequence.as_bytes());
    }
}

impl<W: Write> Backend for Screen<W> {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        let mut next = None;
        let mut style = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.put(&format!("\x1b[{};{}H", y.saturating_add(1), x.saturating_add(1)));
            }
            let wanted = (cell.fg, cell.modifier);
            if style != Some(wanted) {
                self.put(&selection(wanted.0, wanted.1));
                style = Some(wanted);
            }
            self.put(cell.symbol());
            // A wide character moves the cursor further: the place of the next one is then told.
            next = (cell.symbol().chars().count() == 1 && cell.symbol().is_ascii()).then(|| (x.saturating_add(1), y));
        }
        self.put("\x1b[0m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.put("\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.put("\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // Asked for by inline views only, which this is not.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.put(&format!("\x1b[{};{}H", y.saturating_add(1), x.saturating_add(1)));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.put(match clear_type {
            ClearType::All => "\x1b[2J",
            ClearType::AfterCursor => "\x1b[0J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[0K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(rustix::stdio::stdout()).map(|size| Size { width: size.ws_col, height: size.ws_row });
        Ok(size.ok().filter(|size| size.width > 0 && size.height > 0).unwrap_or(UNKNOWN_SIZE))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let frame = std::mem::take(&mut self.frame);
        self.out.write_all(&frame)?;
        self.out.flush()
    }
}

/// The sequence that selects a style.
fn selection(colour: Color, modifier: Modifier) -> String {
    let mut sequence = String::from("\x1b[0");
    for (flag, code) in [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::REVERSED, 7)] {
        if modifier.contains(flag) {
            sequence.push_str(&format!(";{code}"));
        }
    }
    let code = match colour {
        Color::Red => Some(31),
        Color::Green => Some(32),
        Color::Yellow => Some(33),
        Color::Blue => Some(34),
        Color::Cyan => Some(36),
        _ => None,
    };
    if let Some(code) = code {
        sequence.push_str(&format!(";{code}"));
    }
    sequence.push('m');
    sequence
}

/// What a person pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Refresh,
}

/// Keys in bytes that arrived together. What is not known is passed over.
pub(super) fn keys(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&[u8], Key); 6] = [
        (b"\x1b[A", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1b[H", Key::Top),
        (b"\x1b[F", Key::Bottom),
    ];
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| rest.starts_with(sequence)) {
            keys.push(*key);
            rest = &rest[sequence.len()..];
            continue;
        }
        match first {
            // Escape alone, Ctrl-C and Ctrl-D, which arrive as bytes.
            b'q' | b'Q' | 3 | 4 => keys.push(Key::Quit),
            0x1b if after.is_empty() => keys.push(Key::Quit),
            // Any other sequence ends with a letter or a tilde.
            0x1b => {
                let end = after.iter().skip(1).position(|byte| byte.is_ascii_alphabetic() || *byte == b'~');
                rest = &after[end.map_or(after.len(), |end| end + 2).min(after.len())..];
                continue;
            }
            b'k' => keys.push(Key::Up),
            b'j' => keys.push(Key::Down),
            b'g' => keys.push(Key::Top),
            b'G' => keys.push(Key::Bottom),
            b' ' | b'r' => keys.push(Key::Refresh),
            _ => {}
        }
        rest = after;
    }
    keys
}

/// The terminal while the view is on it. Dropping it puts everything back.
pub(super) struct Taken {
    before: Option<Termios>,
    /// Whether standard input has ended, or is no terminal.
    is_deaf: bool,
}

impl Taken {
    /// Takes the terminal: its other screen, keys without a line's end.
    pub(super) fn take() -> io::Result<Taken> {
        let before = tcgetattr(rustix::stdio::stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw)?;
        }
        let taken = Taken { is_deaf: before.is_none(), before };
        let mut out = io::stdout();
        out.write_all(b"\x1b[?1049h\x1b[?25l\x1b[2J")?;
        out.flush()?;
        Ok(taken)
    }

    /// Waits for keys.
    pub(super) fn keys(&mut self, patience: Duration) -> Vec<Key> {
        if self.is_deaf {
            std::thread::sleep(patience);
            return Vec::new();
        }
        let stdin = rustix::stdio::stdin();
        let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
        let wait = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        // A signal ends the wait early: whoever waits looks why.
        if !matches!(poll(&mut watched, Some(&wait)), Ok(1..)) {
            return Vec::new();
        }
        let mut bytes = [0; 64];
        match rustix::io::read(stdin, &mut bytes) {
            Ok(0) | Err(_) => {
                self.is_deaf = true;
                Vec::new()
            }
            Ok(count) => keys(&bytes[..count]),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut out = io::stdout();
        let _ = out.write_all(b"\x1b[0m\x1b[?25h\x1b[?1049l");
        let _ = out.flush();
        if let Some(before) = &self.before {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_bytes() {
        assert_eq!(keys(b"q"), [Key::Quit]);
        assert_eq!(keys(b"\x03"), [Key::Quit]);
        assert_eq!(keys(b"\x1b"), [Key::Quit]);
        assert_eq!(keys(b"\x1b[A\x1b[Bjk"), [Key::Up, Key::Down, Key::Down, Key::Up]);
        assert_eq!(keys(b"\x1b[6~G"), [Key::PageDown, Key::Bottom]);
        // Unknown sequences are passed over whole: `q` in one is no key.
        assert_eq!(keys(b"\x1b[1;5Cq"), [Key::Quit]);
        assert_eq!(keys(b"\x1bOPx"), []);
        assert_eq!(keys(b"\x1b["), []);
        assert_eq!(keys(&[0xff; 40]), []);
    }

    #[test]
    fn styles_become_sequences() {
        assert_eq!(selection(Color::Reset, Modifier::empty()), "\x1b[0m");
        assert_eq!(selection(Color::Red, Modifier::BOLD), "\x1b[0;1;31m");
    }

    #[test]
    fn cells_are_drawn_where_they_are() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out);
        let cell = |symbol: &'static str| Cell::new(symbol);
        let (a, b, bar) = (cell("a"), cell("b"), cell("█"));
        screen.draw([(0, 0, &a), (1, 0, &b), (2, 0, &bar), (3, 0, &a), (0, 2, &b)].into_iter()).unwrap();
        screen.flush().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "\x1b[1;1H\x1b[0mab█\x1b[1;4Ha\x1b[3;1Hb\x1b[0m");
    }
}
