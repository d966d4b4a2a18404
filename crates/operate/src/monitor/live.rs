//! The loop of the live view: hosts are asked on a thread of their own, so that keys are answered at once.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use ratatui_core::terminal::Terminal;

use super::collect::{HostMonitor, MonitorError};
use super::screen::{Key, Screen, Taken};
use super::view::{Colours, View};

/// How soon keys and a new size are answered.
const TICK: Duration = Duration::from_millis(100);

/// How the live view behaves.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Time between two questions.
    pub every: Duration,
    /// Whether colours are used.
    pub colours: Colours,
}

/// Shows the view on this terminal until a person quits or `stop` is set.
pub fn live(mut monitor: HostMonitor, how: &Live, stop: &AtomicBool) -> Result<(), MonitorError> {
    let failed = |doing| move |source: io::Error| MonitorError::System { doing, source };
    let (tell, told) = mpsc::channel();
    let (refresh, asked) = mpsc::channel::<()>();
    let every = how.every;
    let ask = move || {
        while tell.send(monitor.look()).is_ok() {
            // Asked for again by a key, or by time; the view's end ends this too.
            if let Err(RecvTimeoutError::Disconnected) = asked.recv_timeout(every) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("monitor".into()).spawn(ask).map_err(failed("starting a thread"))?;
    let drawing = "drawing on the terminal";
    let mut taken = Taken::take().map_err(failed(drawing))?;
    let mut terminal = Terminal::new(Screen::new(io::stdout())).map_err(failed(drawing))?;
    let mut view = View::new(every.as_secs_f64(), how.colours);
    loop {
        if let Some(snapshot) = told.try_iter().last() {
            view.hear(snapshot);
        }
        terminal.draw(|frame| view.draw(frame)).map_err(failed(drawing))?;
        for key in taken.keys(TICK) {
            match key {
                Key::Quit => return Ok(()),
                Key::Refresh => drop(refresh.send(())),
                key => view.press(key),
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}
