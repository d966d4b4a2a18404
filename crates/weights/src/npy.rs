//! NumPy's array files: `.npy`, and `.npz` archives of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use tensor::{DType, Literal};

use crate::error::Error;
use crate::unfinished::unfinished_file;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header that is read.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// Arrays an archive may have.
const MAX_MEMBERS: usize = 1 << 16;

/// Dimensions an array may have: as many as NumPy allows.
const MAX_RANK: usize = 64;

/// Bytes that the arrays of any archive may take together, and for each byte of a larger one: a small file must not fill the
/// memory. Data seldom compresses to a tenth; what compresses to less than this is mostly zeros.
const ALWAYS_INFLATED_BYTES: u64 = 1 << 30;
const MAX_INFLATION: u64 = 64;

/// Types by NumPy's names. Types NumPy does not have come as raw bytes of their width.
const TYPES: &[(&str, DType)] = &[
    ("|b1", DType::Bool),
    ("|i1", DType::I8),
    ("<i2", DType::I16),
    ("<i4", DType::I32),
    ("<i8", DType::I64),
    ("|u1", DType::U8),
    ("<u2", DType::U16),
    ("<u4", DType::U32),
    ("<u8", DType::U64),
    ("<f2", DType::F16),
    ("<f4", DType::F32),
    ("<f8", DType::F64),
    ("<c8", DType::C64),
    ("<c16", DType::C128),
    // Written by the Python package ml_dtypes.
    ("<V2", DType::BF16),
    ("|V2", DType::BF16),
    ("bfloat16", DType::BF16),
];

/// Reads an archive: arrays by name, in the order of the file. One whose arrays share bytes, or would become far larger than
/// the file, is refused.
pub fn read_npz(path: &Path) -> Result<Vec<(String, Literal)>, Error> {
    read_archive(path, ALWAYS_INFLATED_BYTES)
}

fn read_archive(path: &Path, always_bytes: u64) -> Result<Vec<(String, Literal)>, Error> {
    let file = File::open(path).map_err(Error::io("opening", path))?;
    let file_bytes = file.metadata().map_err(Error::io("reading", path))?.len();
    let wrong = |error: zip::result::ZipError| Error::format(path, error.to_string());
    let mut archive = zip::ZipArchive::new(file).map_err(wrong)?;
    if archive.len() > MAX_MEMBERS {
        return Err(Error::format(path, format!("it has {} arrays; up to {MAX_MEMBERS} are read", archive.len())));
    }
    if archive.has_overlapping_files().map_err(wrong)? {
        return Err(Error::format(path, "its arrays share bytes of the file"));
    }
    let mut room_bytes = file_bytes.saturating_mul(MAX_INFLATION).max(always_bytes);
    let mut arrays = Vec::new();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(wrong)?;
        let name = member.name().trim_end_matches(".npy").to_string();
        let literal = read(&mut member, room_bytes)
            .map_err(|message| Error::format(path, format!("array `{name}`: {message}")))?;
        room_bytes = room_bytes.saturating_sub(literal.bytes().len() as u64);
        arrays.push((name, literal));
    }
    Ok(arrays)
}

/// Reads one array.
pub fn read_npy(path: &Path) -> Result<Literal, Error> {
    let mut file = File::open(path).map_err(Error::io("opening", path))?;
    // No longer than the file.
    read(&mut file, u64::MAX).map_err(|message| Error::format(path, message))
}

/// Writes an archive: whole, or not at all.
pub fn write_npz(path: &Path, arrays: &BTreeMap<String, Literal>) -> Result<(), Error> {
    let writing = || Error::io("writing", path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = unfinished_file(folder, ".tmp").map_err(writing())?;
    let mut archive = zip::ZipWriter::new(file.as_file_mut());
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored).large_file(true);
    for (name, literal) in arrays {
        let header = header(literal).ok_or_else(|| Error::Tensor {
            name: name.clone(),
            message: format!("NumPy has no type {}", literal.dtype()),
        })?;
        let started = archive.start_file(format!("{name}.npy"), options);
        started.map_err(|error| Error::io("writing", path)(error.into()))?;
        archive.write_all(&header).and_then(|()| archive.write_all(literal.bytes())).map_err(writing())?;
    }
    archive.finish().map_err(|error| Error::io("writing", path)(error.into()))?;
    file.as_file().sync_all().map_err(writing())?;
    file.persist(path).map_err(|error| Error::io("writing", path)(error.error))?;
    Ok(())
}

fn header(literal: &Literal) -> Option<Vec<u8>> {
    let (descr, _) = TYPES.iter().find(|(_, dtype)| *dtype == literal.dtype())?;
    let dims: Vec<String> = literal.dims().iter().map(usize::to_string).collect();
    let shape = if let [one] = dims.as_slice() { format!("({one},)") } else { format!("({})", dims.join(", ")) };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // The data begins at a multiple of 64 bytes.
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(u16::try_from(text.len()).ok()?.to_le_bytes());
    bytes.extend(text.as_bytes());
    Some(bytes)
}

/// What an array file says of itself before its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// Element type.
    pub dtype: DType,
    /// Sizes, major to minor.
    pub dims: Vec<usize>,
    /// Where the elements begin in the file.
    pub data_offset_bytes: u64,
    /// Whether the first dimension is the fastest.
    columns_first: bool,
}

/// Reads the header of one array, for those who read or map the elements themselves.
pub fn read_npy_header(path: &Path) -> Result<NpyHeader, Error> {
    let mut file = File::open(path).map_err(Error::io("opening", path))?;
    read_header(&mut file).map_err(|message| Error::format(path, message))
}

/// Reads the header of one array from anywhere; `path` is what errors name.
pub fn read_npy_header_from(mut from: impl Read, path: &Path) -> Result<NpyHeader, Error> {
    read_header(&mut from).map_err(|message| Error::format(path, message))
}

fn read_header(from: &mut impl Read) -> Result<NpyHeader, String> {
    let mut start = [0; 8];
    from.read_exact(&mut start).map_err(|_| "it is too short")?;
    if !start.starts_with(MAGIC) {
        return Err("it is not a NumPy array".into());
    }
    let mut length = vec![0; if start[6] == 1 { 2 } else { 4 }];
    let data_offset_bytes = (start.len() + length.len()) as u64;
    from.read_exact(&mut length).map_err(|_| "it is too short")?;
    length.resize(4, 0);
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if length > MAX_HEADER_BYTES {
        return Err(format!("its header would be {length} bytes long"));
    }
    let mut header = vec![0; length];
    from.read_exact(&mut header).map_err(|_| "it is too short")?;
    let header = String::from_utf8_lossy(&header);
    let descr = field(&header, "descr").ok_or("its header has no type")?.trim_matches(['\'', '"']);
    let known = TYPES.iter().find(|(name, _)| *name == descr);
    let (_, dtype) = known.ok_or_else(|| format!("its type {descr} is not known"))?;
    let shape = field(&header, "shape").ok_or("its header has no shape")?;
    let sizes = shape.trim_matches(['(', ')']).split(',').map(str::trim).filter(|size| !size.is_empty());
    let dims: Vec<usize> =
        sizes.map(str::parse).collect::<Result<_, _>>().map_err(|_| "its shape is no list of sizes")?;
    if dims.len() > MAX_RANK {
        return Err(format!("it has {} dimensions; up to {MAX_RANK} are read", dims.len()));
    }
    let columns_first = field(&header, "fortran_order") == Some("True");
    let data_offset_bytes = data_offset_bytes + length as u64;
    Ok(NpyHeader { dtype: *dtype, dims, data_offset_bytes, columns_first })
}

fn read(from: &mut impl Read, room_bytes: u64) -> Result<Literal, String> {
    let NpyHeader { dtype, dims, columns_first, .. } = read_header(from)?;
    let size_bytes = dims.iter().try_fold(dtype.size_bytes(), |bytes, &size| bytes.checked_mul(size));
    let size_bytes = size_bytes.ok_or("its shape is too large")?;
    if size_bytes as u64 > room_bytes {
        return Err(format!("it would become {size_bytes} bytes, where the file's size leaves room for {room_bytes}"));
    }
    // Only as much is allocated as the file has.
    let mut bytes = Vec::new();
    from.take(size_bytes as u64).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() != size_bytes {
        return Err(format!("it has {} bytes of {size_bytes}", bytes.len()));
    }
    if columns_first {
        bytes = row_major(&bytes, &dims, dtype.size_bytes());
    }
    Literal::new(dtype, dims, bytes).ok_or_else(|| "its size does not fit its shape".to_string())
}

/// The value of a key in the header, a Python dictionary of three known keys.
fn field<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let rest = header[header.find(&format!("'{key}':"))? + key.len() + 3..].trim_start();
    let end = if rest.starts_with('(') { rest.find(')')? + 1 } else { rest.find([',', '}'])? };
    Some(rest[..end].trim())
}

/// Elements whose first dimension was the fastest, with the last one fastest.
fn row_major(bytes: &[u8], dims: &[usize], width: usize) -> Vec<u8> {
    let mut ordered = Vec::with_capacity(bytes.len());
    let mut position = vec![0; dims.len()];
    for _ in 0..bytes.len() / width.max(1) {
        let offset = dims.iter().zip(&position).rev().fold(0, |offset, (size, at)| offset * size + at);
        ordered.extend_from_slice(&bytes[offset * width..][..width]);
        for d in (0..dims.len()).rev() {
            position[d] += 1;
            if position[d] < dims[d] {
                break;
            }
            position[d] = 0;
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_lead_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let mut arrays = BTreeMap::new();
        for (n, dtype) in [DType::F32, DType::BF16, DType::Bool, DType::I64, DType::C64].into_iter().enumerate() {
            let mut literal = Literal::zeros(dtype, [2, 3]).unwrap();
            literal.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 2) as u8);
            arrays.insert(format!("array{n}"), literal);
        }
        arrays.insert("scalar".into(), Literal::new(DType::F64, [], vec![0; 8]).unwrap());
        arrays.insert("vector".into(), Literal::new(DType::U8, [3], vec![1, 2, 3]).unwrap());
        write_npz(&path, &arrays).unwrap();
        let read: BTreeMap<String, Literal> = read_npz(&path).unwrap().into_iter().collect();
        assert_eq!(read, arrays);
    }

    #[test]
    fn a_header_says_where_the_elements_are() {
        let literal = Literal::new(DType::U16, [3], vec![1, 0, 2, 0, 3, 0]).unwrap();
        let mut bytes = header(&literal).unwrap();
        bytes.extend(literal.bytes());
        let found = read_header(&mut bytes.as_slice()).unwrap();
        assert_eq!((found.dtype, found.dims, found.columns_first), (DType::U16, vec![3], false));
        assert_eq!(&bytes[found.data_offset_bytes as usize..], literal.bytes());
    }

    #[test]
    fn columns_first_become_rows_first() {
        // [[0, 1, 2], [3, 4, 5]] with the first dimension fastest.
        assert_eq!(row_major(&[0, 3, 1, 4, 2, 5], &[2, 3], 1), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn damaged_arrays_are_refused() {
        let check = |text: &str, data: &[u8], expected: &str| {
            let mut bytes = MAGIC.to_vec();
            bytes.extend([1, 0]);
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text.as_bytes());
            bytes.extend(data);
            let error = read(&mut bytes.as_slice(), u64::MAX).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        };
        check("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", b"1234", "4 bytes of 8");
        check("{'descr': '<f9', 'fortran_order': False, 'shape': (2,), }", b"", "not known");
        check("{'descr': '<f4', 'shape': (99999999999, 99999999999), }", b"", "too large");
        check("{'descr': '<f4', 'shape': (-1,), }", b"", "no list");
        check(&format!("{{'descr': '|u1', 'shape': ({}), }}", "1,".repeat(65)), b"1", "65 dimensions");
        check("{}", b"", "no type");
        assert!(read(&mut b"PK".as_slice(), u64::MAX).is_err());
    }

    /// An archive of one compressed array of zeros.
    fn zeros(path: &Path, count: usize) {
        let mut archive = zip::ZipWriter::new(File::create(path).unwrap());
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        let literal = Literal::zeros(DType::U8, [count]).unwrap();
        archive.start_file("zeros.npy", options).unwrap();
        archive.write_all(&header(&literal).unwrap()).unwrap();
        archive.write_all(literal.bytes()).unwrap();
        archive.finish().unwrap();
    }

    #[test]
    fn a_small_archive_does_not_fill_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bomb.npz");
        zeros(&path, 8 << 20);
        let file_bytes = std::fs::metadata(&path).unwrap().len();
        assert!(file_bytes * MAX_INFLATION < 8 << 20, "{file_bytes}");
        let error = read_archive(&path, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("would become 8388608 bytes"), "{error}");
        assert_eq!(read_archive(&path, 8 << 20).unwrap()[0].1.bytes().len(), 8 << 20);
        // A member that says it is small and is not gives no more than its shape asks for.
        zeros(&path, 100);
        assert_eq!(read_npz(&path).unwrap()[0].1.dims(), [100]);
    }

    #[test]
    fn arrays_that_share_bytes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        let one = Literal::zeros(DType::U8, [64]).unwrap();
        write_npz(&path, &BTreeMap::from([("a".to_string(), one.clone()), ("b".to_string(), one)])).unwrap();
        assert_eq!(read_npz(&path).unwrap().len(), 2);
        // Both entries of the directory at the end name the first member.
        let mut bytes = std::fs::read(&path).unwrap();
        let entries: Vec<usize> =
            bytes.windows(4).enumerate().filter(|(_, w)| w == b"PK\x01\x02").map(|(n, _)| n).collect();
        let offset = |entry: usize| entry + 42..entry + 46;
        let first = bytes[offset(entries[0])].to_vec();
        bytes[offset(entries[1])].copy_from_slice(&first);
        std::fs::write(&path, &bytes).unwrap();
        let error = read_npz(&path).unwrap_err().to_string();
        assert!(error.contains("share bytes"), "{error}");
        // Cut anywhere, it is refused and nothing panics.
        for end in (0..bytes.len()).step_by(13) {
            std::fs::write(&path, &bytes[..end]).unwrap();
            assert!(read_npz(&path).is_err());
        }
    }
}
