//! The line of the user's source that counts while functions of ours write nodes.

use std::cell::Cell;
use std::panic::Location;

thread_local! {
    /// Line that nodes get when one rule writes them for another node.
    static LINE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// Puts the line before back.
pub(crate) struct Line(Option<&'static Location<'static>>);

impl Drop for Line {
    fn drop(&mut self) {
        LINE.set(self.0);
    }
}

/// Gives what is written until the guard is dropped the user's line: closures do not know who called the function around
/// them. The outermost line counts.
pub(crate) fn of(at: &'static Location<'static>) -> Line {
    let before = LINE.get();
    LINE.set(before.or(Some(at)));
    Line(before)
}

/// Gives what is written until the guard is dropped this line, whatever the line around is.
pub(crate) fn instead(at: &'static Location<'static>) -> Line {
    Line(LINE.replace(Some(at)))
}

/// The line that stands for what is written now, if it is not the caller's own.
pub(crate) fn current() -> Option<&'static Location<'static>> {
    LINE.get()
}

/// Runs a function of the user's, whose lines count again.
pub(crate) fn as_user<T>(f: impl FnOnce() -> T) -> T {
    let _restore = Line(LINE.replace(None));
    f()
}
