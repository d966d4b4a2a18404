//! Standard output: aligned tables for people, one JSON record for programs.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use crate::failure::{self, Failure};
use crate::stop;

/// Where results go.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    /// Where the text of a record goes beside JSON.
    tables: Option<PathBuf>,
}

impl Output {
    pub(crate) fn new(json: bool, tables: Option<PathBuf>) -> Self {
        Output { json, tables }
    }

    /// Whether programs read it.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a record: as JSON if asked for, else by the given text.
    pub(crate) fn record<T: Serialize>(&self, record: &T, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json {
            if let Some(path) = &self.tables {
                std::fs::write(path, text()).map_err(|error| failure::file("cannot write", path, error))?;
            }
            let json = serde_json::to_string_pretty(record).map_err(Failure::new)?;
            self.text(&format!("{json}\n"))
        } else {
            self.text(&text())
        }
    }

    /// Prints text as it is.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => stop::die_of_closed_pipe(),
            written => written.map_err(|error| Failure::new(format!("standard output: {error}"))),
        }
    }
}

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table with aligned columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[Align]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, indented by two spaces.
    pub(crate) fn render(&self) -> String {
        let width = |column: usize| self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max();
        let widths: Vec<usize> = (0..self.columns.len()).map(|c| width(c).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::from(" ");
            for ((cell, align), width) in row.iter().zip(&self.columns).zip(&widths) {
                let padding = " ".repeat(width - cell.chars().count());
                line.push(' ');
                match align {
                    Align::Left => line.push_str(&format!("{cell}{padding} ")),
                    Align::Right => line.push_str(&format!("{padding}{cell} ")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let mut table = Table::new(&[Align::Left, Align::Right]);
        table.row(["a", "1"]);
        table.row(["longer", "22"]);
        assert_eq!(table.render(), "  a        1\n  longer  22\n");
    }
}
