//! How one array is spread over the partitions of a program: tiles, their devices, cutting and joining.

use std::borrow::Borrow;

use hlo::sdy::{MeshRef, SdyAttr, TensorSharding};
use hlo::{Attr, Attrs, Module};
use tensor::Literal;

use crate::error::Error;

/// A tiled sharding. Replicated arrays have one tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// Number of tiles along each dimension.
    pub tiles: Vec<usize>,
    /// Partitions holding each tile: tile-major, then the summands of the tile, then the copies of each.
    pub partitions: Vec<usize>,
    /// Partial values whose sum a tile is: more than one along unreduced axes.
    pub summands: usize,
}

impl Sharding {
    /// Every partition holds the whole array.
    pub fn replicated(rank: usize, num_partitions: usize) -> Sharding {
        Sharding { tiles: vec![1; rank], partitions: (0..num_partitions).collect(), summands: 1 }
    }

    /// Number of tiles.
    pub fn num_tiles(&self) -> usize {
        self.tiles.iter().product()
    }

    /// Partitions that hold the same summand of the same tile.
    pub fn copies(&self) -> usize {
        self.partitions.len() / (self.num_tiles() * self.summands).max(1)
    }

    /// Whether every partition holds the whole array.
    pub fn is_replicated(&self) -> bool {
        self.num_tiles() == 1 && self.summands == 1
    }

    /// Which tile a partition holds, and which summand of it.
    fn held_by(&self, partition: usize) -> Option<(usize, usize)> {
        let place = self.partitions.iter().position(|&holder| holder == partition)? / self.copies().max(1);
        Some((place / self.summands, place % self.summands))
    }

    /// Which tile along a dimension a partition holds.
    pub(crate) fn tile_index(&self, partition: usize, dim: usize) -> usize {
        let (tile, _) = self.held_by(partition).unwrap_or((0, 0));
        tile / self.tiles[dim + 1..].iter().product::<usize>() % self.tiles[dim]
    }

    /// Partitions whose tiles lie one behind the other along a dimension, in that order; each holds one copy of its tile.
    pub(crate) fn groups_along(&self, dim: usize) -> Vec<Vec<usize>> {
        let (tiles, copies) = (self.tiles[dim], self.copies() * self.summands);
        let inner = self.tiles[dim + 1..].iter().product::<usize>() * copies;
        let outer = self.partitions.len() / (tiles * inner).max(1);
        let group = |outer: usize, within: usize| {
            (0..tiles).map(|tile| self.partitions[(outer * tiles + tile) * inner + within]).collect()
        };
        (0..outer).flat_map(|outer| (0..inner).map(move |within| (outer, within))).map(|(o, w)| group(o, w)).collect()
    }

    /// The sharding written in the attributes of an argument or result; `None` where nothing is written.
    pub(crate) fn of(
        attrs: &Attrs,
        module: &Module,
        rank: usize,
        num_partitions: usize,
    ) -> Result<Option<Sharding>, Error> {
        match (attrs.get("sdy.sharding"), attrs.get("mhlo.sharding")) {
            (Some(Attr::Sdy(attr)), _) => match &**attr {
                SdyAttr::Sharding(sharding) => from_sdy(sharding, module, rank, num_partitions).map(Some),
                _ => Err(unsupported("this form of sdy.sharding")),
            },
            (None, Some(attr)) => match attr.as_str() {
                Some(text) => from_text(text, rank, num_partitions).map(Some),
                None => Err(unsupported("an mhlo.sharding that is not text")),
            },
            _ => Ok(None),
        }
    }

    /// The sizes of one tile of an array; `None` where a dimension is not a multiple of its tiles.
    pub fn tile_dims(&self, dims: &[usize]) -> Option<Vec<usize>> {
        dims.iter().zip(&self.tiles).map(|(&d, &t)| (t > 0 && d % t == 0).then(|| d / t)).collect()
    }

    /// The tile that one partition has of an array.
    pub(crate) fn part_of(&self, whole: &Literal, partition: usize) -> Result<Literal, Error> {
        let dims = self.tile_dims(whole.dims()).ok_or_else(|| uneven(whole.dims(), &self.tiles))?;
        let held = self.held_by(partition);
        let (tile, summand) = held.ok_or_else(|| Error::Internal("a partition without a tile".into()))?;
        // The first summand is the whole sum, the others add nothing.
        match summand {
            0 => self.cut(whole, &dims, tile),
            _ => Literal::zeros(whole.dtype(), dims).ok_or_else(|| Error::Exhausted("an array too large".into())),
        }
    }

    /// What each partition holds of an array.
    pub fn split(&self, whole: &Literal) -> Result<Vec<Literal>, Error> {
        let mut held = vec![None; self.partitions.len()];
        for holders in self.partitions.chunks(self.copies().max(1)) {
            let part = self.part_of(whole, holders[0])?;
            holders.iter().for_each(|&partition| held[partition] = Some(part.clone()));
        }
        held.into_iter().map(|p| p.ok_or_else(|| Error::Internal("a partition without a tile".into()))).collect()
    }

    /// The whole array from what each partition holds. Where tiles have copies, those are taken whose place among the
    /// copies is that of the partition `seen_from`.
    pub fn join<L: Borrow<Literal>>(&self, parts: &[L], seen_from: usize) -> Result<Literal, Error> {
        match self.summands {
            1 => self.join_summand(parts, seen_from, 0),
            _ => Err(unsupported("joining partial values without a sum")),
        }
    }

    /// The same of one summand of every tile.
    pub(crate) fn join_summand<L: Borrow<Literal>>(
        &self,
        parts: &[L],
        seen_from: usize,
        summand: usize,
    ) -> Result<Literal, Error> {
        let first = parts.first().map(Borrow::borrow).ok_or_else(|| Error::Internal("no partitions".into()))?;
        let dims: Vec<usize> = first.dims().iter().zip(&self.tiles).map(|(d, t)| d * t).collect();
        let mut whole =
            Literal::zeros(first.dtype(), dims).ok_or_else(|| Error::Exhausted("an array too large".into()))?;
        for tile in 0..self.num_tiles() {
            let part = parts
                .get(self.holder(tile, summand, seen_from))
                .map(Borrow::borrow)
                .filter(|part| part.dims() == first.dims());
            let part = part.ok_or_else(|| Error::Arguments("tiles of different sizes".into()))?;
            let rows = self.rows(whole.dims(), part.dims(), tile, part.dtype().size_bytes());
            for (n, row) in rows.starts.iter().enumerate() {
                whole.bytes_mut()[*row..row + rows.bytes]
                    .copy_from_slice(&part.bytes()[n * rows.bytes..(n + 1) * rows.bytes]);
            }
        }
        Ok(whole)
    }

    /// The partition that holds a summand of a tile, with the place among its copies that another partition has.
    pub(crate) fn holder(&self, tile: usize, summand: usize, seen_from: usize) -> usize {
        let copies = self.copies().max(1);
        let copy = self.partitions.iter().position(|&p| p == seen_from).unwrap_or(0) % copies;
        self.partitions[(tile * self.summands + summand) * copies + copy]
    }

    fn cut(&self, whole: &Literal, dims: &[usize], tile: usize) -> Result<Literal, Error> {
        let rows = self.rows(whole.dims(), dims, tile, whole.dtype().size_bytes());
        let bytes = rows.starts.iter().flat_map(|&row| &whole.bytes()[row..row + rows.bytes]).copied().collect();
        Literal::new(whole.dtype(), dims, bytes).ok_or_else(|| Error::Internal("a tile of the wrong size".into()))
    }

    /// Where the rows of a tile begin in the whole array: runs along the last dimension that is split and all behind it.
    pub(crate) fn rows(&self, whole: &[usize], part: &[usize], tile: usize, element_bytes: usize) -> Rows {
        if part.is_empty() {
            return Rows { starts: vec![0], bytes: element_bytes };
        }
        let mut position = vec![0; part.len()];
        let mut rest = tile;
        for d in (0..part.len()).rev() {
            position[d] = (rest % self.tiles[d]) * part[d];
            rest /= self.tiles[d];
        }
        let last = self.tiles.iter().rposition(|&tiles| tiles > 1).unwrap_or(0);
        let inner: usize = part[last + 1..].iter().product();
        let bytes = part[last] * inner * element_bytes;
        let count: usize = part[..last].iter().product();
        let starts = match bytes {
            0 => Vec::new(),
            _ => {
                let start = |n| row_start(n, &whole[..=last], &part[..=last], &position[..=last]);
                (0..count).map(|n| start(n) * inner * element_bytes).collect()
            }
        };
        Rows { starts, bytes }
    }
}

pub(crate) struct Rows {
    pub(crate) starts: Vec<usize>,
    pub(crate) bytes: usize,
}

fn row_start(mut n: usize, whole: &[usize], part: &[usize], position: &[usize]) -> usize {
    let last = part.len() - 1;
    let (mut start, mut stride) = (position[last], whole[last]);
    for d in (0..last).rev() {
        start += (position[d] + n % part[d]) * stride;
        n /= part[d];
        stride *= whole[d];
    }
    start
}

fn uneven(dims: &[usize], tiles: &[usize]) -> Error {
    Error::Unsupported { what: format!("sizes {dims:?} split into {tiles:?} tiles that are not equal") }
}

fn unsupported(what: &str) -> Error {
    Error::Unsupported { what: what.to_string() }
}

/// Reads `#sdy.sharding<@mesh, [{"x"}, {}]>`: axes not used by a dimension hold copies.
pub(crate) fn from_sdy(
    sharding: &TensorSharding,
    module: &Module,
    rank: usize,
    num_partitions: usize,
) -> Result<Sharding, Error> {
    let mesh = match &sharding.mesh {
        MeshRef::Symbol(name) => module.mesh(name).ok_or_else(|| Error::Internal(format!("no mesh @{name}")))?,
        MeshRef::Inline(mesh) => mesh,
    };
    if mesh.axes.is_empty() {
        return Ok(Sharding::replicated(rank, num_partitions));
    }
    if mesh.device_count() != i64::try_from(num_partitions).ok() {
        return Err(unsupported("a mesh that does not have one device for each partition"));
    }
    if sharding.dims.len() != rank {
        return Err(Error::Internal("a sharding of another rank".into()));
    }
    // A stride of the partition number for every axis or part of an axis.
    let sizes: Vec<usize> = mesh.axes.iter().map(|(_, size)| *size as usize).collect();
    let strides: Vec<usize> = (0..sizes.len()).map(|n| sizes[n + 1..].iter().product()).collect();
    let mut used: Vec<(usize, usize)> = Vec::new();
    let mut counts = Vec::new();
    // Unreduced axes come last: their places hold the summands of a tile.
    for axes in sharding.dims.iter().map(|dim| &dim.axes).chain([&sharding.unreduced]) {
        let mut count = 1;
        for axis in axes {
            let index = mesh.axes.iter().position(|(name, _)| *name == axis.name);
            let index = index.ok_or_else(|| Error::Internal(format!("no axis {}", axis.name)))?;
            let (size, stride) = match axis.sub_axis {
                None => (sizes[index], strides[index]),
                Some((before, size)) => {
                    let (before, size) = (before as usize, size as usize);
                    if before * size == 0 || !sizes[index].is_multiple_of(before * size) {
                        return Err(unsupported("this part of an axis"));
                    }
                    (size, strides[index] * (sizes[index] / (before * size)))
                }
            };
            used.push((size, stride));
            count *= size;
        }
        counts.push(count);
    }
    // Copies: every combination of the partition number's digits that no dimension uses.
    let natural = |mut tile: usize| {
        let mut partition = 0;
        for (size, stride) in used.iter().rev() {
            partition += (tile % size) * stride;
            tile /= size;
        }
        partition
    };
    let digits_used =
        |partition: usize| used.iter().map(|(size, stride)| (partition / stride % size) * stride).sum::<usize>();
    let num_held: usize = counts.iter().product();
    let mut partitions = Vec::with_capacity(num_partitions);
    for tile in 0..num_held {
        partitions.extend((0..num_partitions).filter(|&p| digits_used(p) == natural(tile)));
    }
    if !mesh.device_ids.is_empty() {
        let mapped = partitions.iter().map(|&p| mesh.device_ids.get(p).and_then(|id| usize::try_from(*id).ok()));
        partitions =
            mapped.collect::<Option<_>>().ok_or_else(|| Error::Internal("a mesh with too few devices".into()))?;
    }
    let summands = counts.pop().unwrap_or(1);
    checked(Sharding { tiles: counts, partitions, summands }, num_partitions)
}

/// Reads `{replicated}`, `{devices=[2,1,4]<=[8] last_tile_dim_replicate}` or an explicit list of devices.
pub(crate) fn from_text(text: &str, rank: usize, num_partitions: usize) -> Result<Sharding, Error> {
    let bad = || Error::Unsupported { what: format!("the sharding {text:?}") };
    let inner = text.trim().strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or_else(bad)?.trim();
    if inner.is_empty() || inner == "replicated" || inner.starts_with("maximal") {
        return Ok(Sharding::replicated(rank, num_partitions));
    }
    let inner = inner.strip_prefix("devices=[").ok_or_else(bad)?;
    let (tiles, rest) = inner.split_once(']').ok_or_else(bad)?;
    let mut tiles = numbers(tiles).ok_or_else(bad)?;
    let (order, flags) = rest.split_once(' ').unwrap_or((rest, ""));
    let partitions = match order.strip_prefix("<=[") {
        Some(iota) => iota_order(iota).ok_or_else(bad)?,
        None => numbers(order).ok_or_else(bad)?,
    };
    match flags.trim() {
        "" => {}
        "last_tile_dim_replicate" => {
            tiles.pop();
        }
        _ => return Err(bad()),
    }
    if tiles.len() != rank {
        return Err(bad());
    }
    checked(Sharding { tiles, partitions, summands: 1 }, num_partitions)
}

fn checked(sharding: Sharding, num_partitions: usize) -> Result<Sharding, Error> {
    let mut sorted = sharding.partitions.clone();
    sorted.sort_unstable();
    let whole = sorted.iter().copied().eq(0..num_partitions);
    let tiles = sharding.tiles.iter().try_fold(sharding.summands, |n, &t| n.checked_mul(t)).filter(|&n| n > 0);
    match tiles {
        Some(tiles) if whole && num_partitions.is_multiple_of(tiles) => Ok(sharding),
        _ => Err(unsupported("a sharding that does not use every partition once")),
    }
}

fn numbers(text: &str) -> Option<Vec<usize>> {
    text.split(',').map(|n| n.trim().parse().ok()).collect()
}

/// `2,4]T(1,0)`: the numbers from 0 in a shape, read in another order of its dimensions.
fn iota_order(text: &str) -> Option<Vec<usize>> {
    let (dims, rest) = text.split_once(']')?;
    let dims = numbers(dims)?;
    let count = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n <= 1 << 16)?;
    let order = match rest.trim().strip_prefix("T(") {
        Some(order) => numbers(order.strip_suffix(')')?)?,
        None => (0..dims.len()).collect(),
    };
    if order.len() != dims.len() || order.iter().any(|&d| d >= dims.len()) {
        return None;
    }
    let strides: Vec<usize> = (0..dims.len()).map(|n| dims[n + 1..].iter().product()).collect();
    let position = |mut n: usize| {
        let mut at = 0;
        for &d in order.iter().rev() {
            at += (n % dims[d]) * strides[d];
            n /= dims[d];
        }
        at
    };
    Some((0..count).map(position).collect())
}

#[cfg(test)]
mod tests {
    use tensor::DType;

    use super::*;

    fn check(text: &str, rank: usize, tiles: &[usize], partitions: &[usize]) {
        let sharding = from_text(text, rank, partitions.len()).unwrap();
        assert_eq!((&*sharding.tiles, &*sharding.partitions), (tiles, partitions), "{text}");
    }

    #[test]
    fn reads_the_text_forms() {
        check("{replicated}", 2, &[1, 1], &[0, 1]);
        check("{devices=[2,2]<=[4]}", 2, &[2, 2], &[0, 1, 2, 3]);
        check("{devices=[2,2]<=[2,2]T(1,0)}", 2, &[2, 2], &[0, 2, 1, 3]);
        check("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 2, &[2, 1], &[0, 1, 2, 3]);
        check("{devices=[2]1,0}", 1, &[2], &[1, 0]);
        for bad in ["", "{devices=[3]<=[4]}", "{devices=[2]0,0}", "{manual}", "{devices=[99999999999,9]<=[4]}"] {
            assert!(from_text(bad, 1, 4).is_err(), "{bad}");
        }
    }

    #[test]
    fn neighbours_along_a_dimension_form_groups() {
        let sharding = from_text("{devices=[2,2]<=[2,2]T(1,0)}", 2, 4).unwrap();
        assert_eq!(sharding.groups_along(0), [[0, 1], [2, 3]]);
        assert_eq!(sharding.groups_along(1), [[0, 2], [1, 3]]);
        assert_eq!((sharding.tile_index(2, 0), sharding.tile_index(2, 1)), (0, 1));
        let copied = from_text("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 2, 4).unwrap();
        assert_eq!(copied.groups_along(0), [[0, 2], [1, 3]]);
        assert_eq!(copied.tile_index(3, 0), 1);
    }

    #[test]
    fn joining_undoes_splitting() {
        let whole = Literal::new(DType::U8, [4, 6], (0..24).collect()).unwrap();
        for text in [
            "{replicated}",
            "{devices=[2,2]<=[4]}",
            "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
            "{devices=[4,1]3,1,0,2}",
        ] {
            let sharding = from_text(text, 2, 4).unwrap();
            let parts = sharding.split(&whole).unwrap();
            assert_eq!(sharding.join(&parts, 0).unwrap(), whole, "{text}");
        }
        let parts = from_text("{devices=[2,2]<=[4]}", 2, 4).unwrap().split(&whole).unwrap();
        assert_eq!(parts[1].bytes(), [3, 4, 5, 9, 10, 11]);
        let scalar = Literal::new(DType::U8, [], vec![7]).unwrap();
        assert_eq!(Sharding::replicated(0, 2).split(&scalar).unwrap(), [scalar.clone(), scalar]);
    }
}
