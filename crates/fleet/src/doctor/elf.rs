//! A reader of ELF files that answers one question: which kind of library is this, and does it export a symbol.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const SHT_DYNSYM: u32 = 11;
const ET_DYN: u16 = 3;
/// Longest symbol or string table read; libtpu's are far below.
const MAX_TABLE_BYTES: u64 = 256 << 20;

/// What the header and the dynamic symbol table say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Library {
    pub(super) file_bytes: u64,
    /// Kind of machine, as in `std::env::consts::ARCH`.
    pub(super) machine: &'static str,
    /// `None` when the file has no section headers to find the symbols by.
    pub(super) exports: Option<Export>,
}

/// Whether a symbol is there for others to use.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Export {
    Defined,
    Missing,
}

/// Reads a shared library and looks for one exported symbol.
pub(super) fn read(path: &Path, symbol: &str) -> Result<Library, String> {
    let file = File::open(path).map_err(|e| format!("cannot be opened: {e}"))?;
    let file_bytes = file.metadata().map_err(|e| format!("cannot be read: {e}"))?.len();
    let elf = Elf { file, file_bytes };
    let header = elf.bytes(0, HEADER_BYTES as u64).map_err(|_| format!("too short ({file_bytes} bytes)"))?;
    if header[..4] != *b"\x7fELF" {
        return Err("not a shared library (no ELF header)".into());
    }
    if (header[4], header[5]) != (2, 1) {
        return Err("not a 64-bit little-endian library".into());
    }
    if u16_at(&header, 16) != ET_DYN {
        return Err("an ELF file, but not a shared library".into());
    }
    let machine = match u16_at(&header, 18) {
        62 => "x86_64",
        183 => "aarch64",
        _ => "another kind of machine",
    };
    let sections = Sections {
        offset: u64_at(&header, 40),
        entry_bytes: u16_at(&header, 58).into(),
        count: u16_at(&header, 60).into(),
    };
    Ok(Library { file_bytes, machine, exports: elf.exports(&sections, symbol)? })
}

struct Elf {
    file: File,
    file_bytes: u64,
}

struct Sections {
    offset: u64,
    entry_bytes: u64,
    count: u64,
}

struct Section {
    kind: u32,
    offset: u64,
    bytes: u64,
    link: u32,
}

impl Elf {
    /// Reads a range that lies wholly in the file.
    fn bytes(&self, offset: u64, length: u64) -> Result<Vec<u8>, String> {
        let end = offset.checked_add(length).filter(|&end| end <= self.file_bytes && length <= MAX_TABLE_BYTES);
        end.ok_or("damaged: a table lies outside of the file")?;
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, offset).map_err(|e| format!("cannot be read: {e}"))?;
        Ok(bytes)
    }

    fn section(&self, sections: &Sections, index: u64) -> Result<Section, String> {
        let damaged = "damaged: a section lies outside of the file";
        let offset = index.checked_mul(sections.entry_bytes).and_then(|o| o.checked_add(sections.offset));
        let bytes = self.bytes(offset.ok_or(damaged)?, SECTION_BYTES as u64)?;
        Ok(Section {
            kind: u32_at(&bytes, 4),
            offset: u64_at(&bytes, 24),
            bytes: u64_at(&bytes, 32),
            link: u32_at(&bytes, 40),
        })
    }

    fn exports(&self, sections: &Sections, symbol: &str) -> Result<Option<Export>, String> {
        if sections.offset == 0 || sections.count == 0 || sections.entry_bytes < SECTION_BYTES as u64 {
            return Ok(None);
        }
        for index in 0..sections.count {
            let table = self.section(sections, index)?;
            if table.kind != SHT_DYNSYM {
                continue;
            }
            if u64::from(table.link) >= sections.count {
                return Err("damaged: its symbols have no names".into());
            }
            let names = self.section(sections, table.link.into())?;
            let names = self.bytes(names.offset, names.bytes)?;
            let symbols = self.bytes(table.offset, table.bytes)?;
            let found = symbols.chunks_exact(SYMBOL_BYTES).any(|entry| {
                let defined = u16_at(entry, 6) != 0;
                defined && is_name(&names, u32_at(entry, 0) as usize, symbol)
            });
            return Ok(Some(if found { Export::Defined } else { Export::Missing }));
        }
        Ok(None)
    }
}

fn is_name(names: &[u8], offset: usize, symbol: &str) -> bool {
    names
        .get(offset..)
        .and_then(|rest| rest.strip_prefix(symbol.as_bytes()))
        .is_some_and(|rest| rest.first() == Some(&0))
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    if let Some(part) = bytes.get(offset..offset + N) {
        array.copy_from_slice(part);
    }
    array
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, offset))
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, offset))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A library with two sections, a dynamic symbol table of one symbol and its names.
    pub(in crate::doctor) fn library(symbol: &str) -> Vec<u8> {
        let names_offset = HEADER_BYTES + 2 * SECTION_BYTES;
        let names: Vec<u8> = [b"\0", symbol.as_bytes(), b"\0"].concat();
        let mut file = vec![0; names_offset];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16] = 3;
        file[18] = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        file[40] = HEADER_BYTES as u8;
        file[58] = SECTION_BYTES as u8;
        file[60] = 2;
        let mut section = |index: usize, kind: u8, offset: usize, bytes: usize, link: u8| {
            let at = HEADER_BYTES + index * SECTION_BYTES;
            file[at + 4] = kind;
            file[at + 24..at + 32].copy_from_slice(&(offset as u64).to_le_bytes());
            file[at + 32..at + 40].copy_from_slice(&(bytes as u64).to_le_bytes());
            file[at + 40] = link;
        };
        section(0, 3, names_offset, names.len(), 0);
        section(1, 11, names_offset + names.len(), SYMBOL_BYTES, 0);
        file.extend(names);
        let mut entry = [0; SYMBOL_BYTES];
        entry[0] = 1;
        entry[6] = 1;
        file.extend(entry);
        file
    }

    fn check(bytes: &[u8], expected: Result<Option<Export>, &str>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        match (read(file.path(), "GetPjrtApi"), expected) {
            (Ok(library), Ok(exports)) => assert_eq!(library.exports, exports),
            (Err(found), Err(text)) => assert!(found.contains(text), "{found:?} has no {text:?}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn finds_the_symbol() {
        check(&library("GetPjrtApi"), Ok(Some(Export::Defined)));
        check(&library("GetPjrtApiX"), Ok(Some(Export::Missing)));
        check(b"", Err("too short"));
        check(&[b'#'; 100], Err("no ELF header"));
    }

    #[test]
    fn no_byte_can_make_it_panic() {
        let good = library("GetPjrtApi");
        let file = tempfile::NamedTempFile::new().unwrap();
        for length in 0..good.len() {
            std::fs::write(file.path(), &good[..length]).unwrap();
            let _ = read(file.path(), "GetPjrtApi");
        }
        for position in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[position] = value;
                std::fs::write(file.path(), &bad).unwrap();
                let _ = read(file.path(), "GetPjrtApi");
            }
        }
    }
}
