//! A page made of plain parts, for answers that are not about one program on one slice: tiles, bars, tables, a roofline.

use super::charts::{self, Segment, stacked};
use super::input::Fact;
use super::page::{shell, tile};
use super::roofline::Roof;
use super::tables::{self, head, name, number, rest, words};
use super::text::{Text, tail, text};
use crate::estimate::OpLine;

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// What it is about.
    pub title: String,
    /// Where that ran.
    pub subject: String,
    /// Facts below the title.
    pub facts: Vec<Fact>,
    /// The figures that matter most.
    pub tiles: Vec<SheetTile>,
    /// Everything else.
    pub sections: Vec<SheetSection>,
}

/// A figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SheetTile {
    /// What it is.
    pub name: &'static str,
    /// How much.
    pub value: String,
    /// What to compare it with.
    pub below: String,
}

/// A part of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SheetSection {
    /// Name of its anchor.
    pub id: &'static str,
    /// Title.
    pub title: &'static str,
    /// What is in it.
    pub blocks: Vec<SheetBlock>,
}

/// What a section is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum SheetBlock {
    /// A paragraph.
    Words(String),
    /// A bar made of parts: name, how much, and that in words.
    Shares(&'static str, Vec<(String, f64, String)>),
    /// A table.
    Table(SheetTable),
    /// Ops under the roofs of their device; the seconds are those of the whole.
    Roofline(Vec<OpLine>, f64, Roof),
    /// Remarks.
    Notes(Vec<String>),
}

/// A table; rows beyond what a page shows are counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SheetTable {
    /// Heads of the columns; those of numbers begin with `#`.
    pub heads: Vec<&'static str>,
    /// Rows.
    pub rows: Vec<Vec<SheetCell>>,
    /// What the rows are.
    pub what: &'static str,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum SheetCell {
    /// A number as it is shown, and as it is sorted.
    Number(String, f64),
    /// Words.
    Words(String),
    /// A name that may be long: its end says most.
    Name(String),
}

/// Rows, parts and facts shown.
const ROWS: usize = 100;
const PARTS: usize = 24;
const FACTS: usize = 12;
/// A name, in a cell.
const NAME: usize = 60;
/// A paragraph, at most.
const PARAGRAPH: usize = 2000;

/// Classes of colours, in the order of parts.
const COLOURS: [&str; 9] = ["c1", "c6", "c2", "c3", "c5", "c8", "c7", "c4", "c9"];

/// The page as one file, under the same rules as [`super::html`].
pub fn sheet_html(sheet: &Sheet) -> String {
    let mut body = format!(
        "<header>\n<h1 title=\"{}\">{}</h1>\n<p class=\"facts\"><b>{}</b>",
        text(&sheet.title),
        text(&tail(&sheet.title, 80)),
        text(&sheet.subject)
    );
    for fact in sheet.facts.iter().take(FACTS) {
        body += &format!("<span>{} {}</span>", text(&fact.name), text(&fact.value));
    }
    body += "</p>\n<div class=\"tiles\">\n";
    for figure in &sheet.tiles {
        body += &tile("", figure.name, &figure.value, &figure.below);
    }
    body += "</div>\n</header>\n";
    for section in &sheet.sections {
        body += &format!("<section id=\"{}\">\n<h2>{}</h2>\n", text(section.id), text(section.title));
        body.extend(section.blocks.iter().map(block));
        body += "</section>\n";
    }
    shell(&sheet.title, &sheet.subject, &body)
}

fn block(block: &SheetBlock) -> String {
    match block {
        SheetBlock::Words(words) => format!("<p>{}</p>\n", Text(words, PARAGRAPH)),
        SheetBlock::Shares(label, parts) => {
            let segment = |(at, (name, value, shown)): (usize, &(String, f64, String))| Segment {
                class: COLOURS[at % COLOURS.len()],
                name: name.clone(),
                value: *value,
                shown: shown.clone(),
            };
            let segments: Vec<Segment> = parts.iter().take(PARTS).enumerate().map(segment).collect();
            stacked(label, &segments, None)
        }
        SheetBlock::Table(table) => {
            let mut html = head(&table.heads);
            for row in table.rows.iter().take(ROWS) {
                html += "<tr>";
                html.extend(row.iter().map(|cell| match cell {
                    SheetCell::Number(shown, value) => number(shown, *value),
                    SheetCell::Words(shown) => words(shown),
                    SheetCell::Name(shown) => name(shown, NAME),
                }));
                html += "</tr>\n";
            }
            html + tables::FOOT + &rest(table.rows.len(), ROWS, table.what)
        }
        SheetBlock::Roofline(ops, whole_s, roof) => {
            charts::roofline(ops, ops.iter().map(|op| op.flops).sum(), *whole_s, roof)
        }
        SheetBlock::Notes(notes) => tables::notes(&notes.iter().map(String::as_str).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_text_and_long_tables_are_cut() {
        let row = || vec![SheetCell::Name("<script>".into()), SheetCell::Number("1".into(), f64::NAN)];
        let table = SheetTable { heads: vec!["Op", "#Time"], rows: vec![row(); ROWS + 7], what: "ops" };
        let section = SheetSection {
            id: "ops",
            title: "Ops",
            blocks: vec![
                SheetBlock::Table(table),
                SheetBlock::Words("a < b".into()),
                SheetBlock::Shares("Time", vec![("</svg>".into(), 1.0, "1 s".into())]),
                SheetBlock::Notes(vec!["n".into()]),
            ],
        };
        let page = sheet_html(&Sheet { title: "</title>".into(), sections: vec![section], ..Sheet::default() });
        assert!(!page.contains("<script>\"") && !page.contains("</svg></svg>"));
        assert_eq!(page.matches("<script>").count(), 1, "only the page's own");
        assert!(page.contains("and 7 more ops") && page.contains("a &lt; b"));
        assert!(page.contains("default-src 'none'"));
    }
}
