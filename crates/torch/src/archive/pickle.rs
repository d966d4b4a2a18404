//! Tensors in a pickle, without running it: only what a dictionary of tensors is made of is understood.

use std::collections::BTreeMap;

use tensor::DType;

use crate::error::Error;

/// Things that a pickle may make.
const MAX_VALUES: usize = 1 << 22;

/// A tensor in a pickle: a storage, and how it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PickledTensor {
    /// The name of its storage.
    pub(crate) storage: String,
    pub(crate) dtype: DType,
    pub(crate) offset: usize,
    pub(crate) sizes: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Item {
    Nothing,
    Mark,
    Bool,
    Int(i64),
    Text(String),
    List(Vec<Item>),
    Dict(Vec<(Item, Item)>),
    /// `module name`.
    Global(String),
    Storage(String, DType),
    Tensor(PickledTensor),
}

/// The tensors of a dictionary, by name.
pub(crate) fn tensors(bytes: &[u8]) -> Result<BTreeMap<String, PickledTensor>, Error> {
    let root = Machine { bytes, stack: Vec::new(), memo: BTreeMap::new(), made: 0 }.run()?;
    let Item::Dict(entries) = root else { return Err(Error::damaged("a pickle is not a dictionary of tensors")) };
    let mut found = BTreeMap::new();
    for (name, value) in entries {
        if let (Item::Text(name), Item::Tensor(tensor)) = (name, value) {
            found.insert(name, tensor);
        }
    }
    Ok(found)
}

struct Machine<'a> {
    bytes: &'a [u8],
    stack: Vec<Item>,
    memo: BTreeMap<u64, Item>,
    made: usize,
}

impl Machine<'_> {
    fn run(mut self) -> Result<Item, Error> {
        loop {
            let code = self.take(1)?[0];
            if code == b'.' {
                return self.pop();
            }
            self.step(code)?;
            self.made += 1;
            if self.made > MAX_VALUES {
                return Err(Error::damaged("a pickle is too long"));
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<&[u8], Error> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(|| Error::damaged("a pickle is cut off"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, Error> {
        let taken = self.take(bytes)?;
        Ok(taken.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn text(&mut self, length: u64) -> Result<String, Error> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let text = self.take(length)?.to_vec();
        String::from_utf8(text).map_err(|_| Error::damaged("a text of a pickle is not UTF-8"))
    }

    fn line(&mut self) -> Result<String, Error> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n');
        let line = self.text(end.ok_or_else(|| Error::damaged("a pickle is cut off"))? as u64)?;
        self.take(1)?;
        Ok(line)
    }

    fn pop(&mut self) -> Result<Item, Error> {
        self.stack.pop().ok_or_else(|| Error::damaged("a pickle takes more than it has"))
    }

    /// What lies above the last mark, which is taken too.
    fn above_mark(&mut self) -> Result<Vec<Item>, Error> {
        let at = self.stack.iter().rposition(|item| matches!(item, Item::Mark));
        let at = at.ok_or_else(|| Error::damaged("a pickle has no mark"))?;
        let items = self.stack.split_off(at + 1);
        self.stack.pop();
        Ok(items)
    }

    /// Copies of large things would let a short pickle fill the memory.
    fn recalled(&mut self, key: u64) -> Result<Item, Error> {
        let item = self.memo.get(&key).cloned().ok_or_else(|| Error::damaged("a pickle recalls nothing"))?;
        self.made += size_of_item(&item);
        Ok(item)
    }

    fn step(&mut self, code: u8) -> Result<(), Error> {
        let item = match code {
            // PROTO, FRAME: nothing to do.
            0x80 => return self.take(1).map(|_| ()),
            0x95 => return self.take(8).map(|_| ()),
            b'(' => Item::Mark,
            b'N' => Item::Nothing,
            0x88 | 0x89 => Item::Bool,
            b'K' => Item::Int(self.number(1)? as i64),
            b'M' => Item::Int(self.number(2)? as i64),
            b'J' => Item::Int(i64::from(self.number(4)? as u32 as i32)),
            0x8a => {
                let length = self.number(1)? as usize;
                if length > 8 {
                    return Err(Error::damaged("an integer of a pickle is too long"));
                }
                let value = self.number(length)?;
                let shift = 64 - 8 * length as u32;
                Item::Int(if length == 0 { 0 } else { (value << shift) as i64 >> shift })
            }
            b'X' => {
                let length = self.number(4)?;
                Item::Text(self.text(length)?)
            }
            0x8c => {
                let length = self.number(1)?;
                Item::Text(self.text(length)?)
            }
            b'}' => Item::Dict(Vec::new()),
            b']' | b')' => Item::List(Vec::new()),
            b't' | b'l' => Item::List(self.above_mark()?),
            0x85..=0x87 => {
                let count = usize::from(code - 0x84);
                let start = self.stack.len().checked_sub(count);
                let start = start.ok_or_else(|| Error::damaged("a pickle takes more than it has"))?;
                Item::List(self.stack.split_off(start))
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                Item::Global(format!("{module} {name}"))
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (Item::Text(name), Item::Text(module)) => Item::Global(format!("{module} {name}")),
                _ => return Err(Error::damaged("a pickle names nothing")),
            },
            b'q' | b'r' | 0x94 => {
                let key = match code {
                    b'q' => self.number(1)?,
                    b'r' => self.number(4)?,
                    _ => self.memo.len() as u64,
                };
                let item = self.stack.last().cloned().ok_or_else(|| Error::damaged("a pickle keeps nothing"))?;
                self.made += size_of_item(&item);
                self.memo.insert(key, item);
                return Ok(());
            }
            b'h' => {
                let key = self.number(1)?;
                self.recalled(key)?
            }
            b'j' => {
                let key = self.number(4)?;
                self.recalled(key)?
            }
            b'u' | b's' => {
                let items = match code {
                    b'u' => self.above_mark()?,
                    _ => {
                        let value = self.pop()?;
                        vec![self.pop()?, value]
                    }
                };
                let Some(Item::Dict(entries)) = self.stack.last_mut() else {
                    return Err(Error::damaged("a pickle fills what is no dictionary"));
                };
                let mut items = items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    entries.push((key, value));
                }
                return Ok(());
            }
            b'e' | b'a' => {
                let items = if code == b'e' { self.above_mark()? } else { vec![self.pop()?] };
                let Some(Item::List(list)) = self.stack.last_mut() else {
                    return Err(Error::damaged("a pickle fills what is no list"));
                };
                list.extend(items);
                return Ok(());
            }
            b'Q' => storage(self.pop()?)?,
            b'R' => {
                let arguments = self.pop()?;
                called(self.pop()?, arguments)?
            }
            // BUILD: attributes of a tensor are of no use here.
            b'b' => {
                self.pop()?;
                return Ok(());
            }
            b'0' => {
                self.pop()?;
                return Ok(());
            }
            other => return Err(Error::damaged(format!("a pickle has the instruction {other:#x}"))),
        };
        self.stack.push(item);
        Ok(())
    }
}

fn size_of_item(item: &Item) -> usize {
    match item {
        Item::List(items) => 1 + items.iter().map(size_of_item).sum::<usize>(),
        Item::Dict(entries) => 1 + entries.iter().map(|(k, v)| size_of_item(k) + size_of_item(v)).sum::<usize>(),
        _ => 1,
    }
}

/// `('storage', torch.FloatStorage, '0', 'cpu', 24)`.
fn storage(item: Item) -> Result<Item, Error> {
    if let Item::List(parts) = &item
        && let [Item::Text(kind), Item::Global(class), Item::Text(name), ..] = parts.as_slice()
        && kind == "storage"
    {
        let word = class.strip_prefix("torch ").and_then(|class| class.strip_suffix("Storage"));
        let dtype = match word {
            Some("Float") => DType::F32,
            Some("Double") => DType::F64,
            Some("Half") => DType::F16,
            Some("BFloat16") => DType::BF16,
            Some("Long") => DType::I64,
            Some("Int") => DType::I32,
            Some("Short") => DType::I16,
            Some("Char") => DType::I8,
            Some("Byte") => DType::U8,
            Some("Bool") => DType::Bool,
            Some("ComplexFloat") => DType::C64,
            Some("ComplexDouble") => DType::C128,
            _ => return Err(Error::damaged(format!("a pickle has storage of `{class}`"))),
        };
        return Ok(Item::Storage(name.clone(), dtype));
    }
    Err(Error::damaged("a pickle refers to something outside that is no storage"))
}

/// The few functions that make tensors; others are never run.
fn called(function: Item, arguments: Item) -> Result<Item, Error> {
    let (Item::Global(name), Item::List(arguments)) = (function, arguments) else {
        return Err(Error::damaged("a pickle calls what is no function"));
    };
    match (name.as_str(), arguments.as_slice()) {
        ("collections OrderedDict", []) => Ok(Item::Dict(Vec::new())),
        ("torch._utils _rebuild_tensor_v2", [Item::Storage(storage, dtype), offset, sizes, strides, ..]) => {
            let tensor = PickledTensor {
                storage: storage.clone(),
                dtype: *dtype,
                offset: count(offset)?,
                sizes: counts(sizes)?,
                strides: counts(strides)?,
            };
            Ok(Item::Tensor(tensor))
        }
        ("torch._utils _rebuild_parameter", [Item::Tensor(tensor), ..]) => Ok(Item::Tensor(tensor.clone())),
        _ => Err(Error::new(
            format!("a pickle calls `{}`, and nothing in a pickle is run", name.replace(' ', ".")),
            "save plain tensors: unwrap tensor subclasses before the export",
        )),
    }
}

fn count(item: &Item) -> Result<usize, Error> {
    match item {
        Item::Int(value) => usize::try_from(*value).map_err(|_| Error::damaged("a size is negative")),
        _ => Err(Error::damaged("a size is no integer")),
    }
}

fn counts(item: &Item) -> Result<Vec<usize>, Error> {
    match item {
        Item::List(items) => items.iter().map(count).collect(),
        _ => Err(Error::damaged("sizes are no tuple")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_pickle_runs() {
        let hostile = b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.";
        let error = tensors(hostile).unwrap_err();
        assert!(error.to_string().contains("posix.system"), "{error}");
        for bad in [&b"\x80"[..], b"R.", b"(", b"}h\x00.", b"X\xff\xff\xff\xff."] {
            assert!(tensors(bad).is_err());
        }
        // A dictionary that holds itself twice, again and again.
        let mut growing = b"\x80\x02".to_vec();
        growing.extend(b"]q\x00");
        for key in 0..60u8 {
            growing.extend([b']', b'(', b'h', key, b'h', key, b'e', b'q', key + 1]);
        }
        assert!(tensors(&growing).unwrap_err().to_string().contains("too long"));
    }
}
