//! The text of `mhlo.sharding`: parts along each dimension, and the devices that hold them.

/// Devices a sharding may have; it may name each.
pub const MAX_DEVICES: u64 = 1 << 14;

/// Which device holds which part: parts along each dimension, and devices that hold the same part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileAssignment {
    /// Parts along each dimension.
    pub parts: Vec<u64>,
    /// Devices that hold the same part.
    pub copies: u64,
    /// Devices by part, the last dimension's part changing fastest, then by copy.
    pub order: Vec<u64>,
}

impl TileAssignment {
    /// All devices hold all of an array.
    pub fn whole(rank: usize, devices: u64) -> TileAssignment {
        TileAssignment { parts: vec![1; rank], copies: devices, order: (0..devices).collect() }
    }

    /// Reads `{replicated}`, or `{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}` with the devices as a transposed
    /// count or as a list. `None` for what is split in any other way.
    pub fn read(text: &str, rank: usize, devices: u64) -> Option<TileAssignment> {
        let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
        if inner == "replicated" {
            return Some(TileAssignment::whole(rank, devices));
        }
        let (parts, rest) = inner.strip_prefix("devices=[")?.split_once(']')?;
        let mut parts = numbers(parts)?;
        let (order, is_copied) = match rest.strip_suffix("last_tile_dim_replicate") {
            Some(order) => (order.trim(), true),
            None => (rest.trim(), false),
        };
        let order = match order.strip_prefix("<=[") {
            Some(counted) => counted_order(counted, devices)?,
            None => numbers(order)?,
        };
        let copies = if is_copied { parts.pop()? } else { 1 };
        let all = parts.iter().try_fold(copies, |n, part| n.checked_mul(*part))?;
        let mut seen = order.clone();
        seen.sort_unstable();
        let is_sound = parts.len() == rank && all == devices && seen.iter().copied().eq(0..devices);
        is_sound.then_some(TileAssignment { parts, copies, order })
    }

    /// With the copies split along the dimension whose part is largest and can be split so often.
    pub fn split(&self, dims: &[u64]) -> Option<TileAssignment> {
        if self.copies < 2 {
            return None;
        }
        let fits = |dim: &usize| {
            let parts = self.parts[*dim].checked_mul(self.copies);
            parts.is_some_and(|parts| parts > 0 && dims[*dim] > 0 && dims[*dim].is_multiple_of(parts))
        };
        let extent = |dim: &usize| dims[*dim] / self.parts[*dim].max(1);
        let dim = (0..dims.len()).filter(fits).max_by_key(|dim| (extent(dim), std::cmp::Reverse(*dim)))?;
        // A copy becomes the minor part of the dimension: it moves before the parts of the later dimensions.
        let after: u64 = self.parts[dim + 1..].iter().product();
        let block = usize::try_from(after.checked_mul(self.copies)?).ok()?;
        let (after, copies) = (usize::try_from(after).ok()?, usize::try_from(self.copies).ok()?);
        let moved = |block: &[u64]| -> Vec<u64> {
            (0..copies).flat_map(|copy| (0..after).map(move |part| part * copies + copy)).map(|at| block[at]).collect()
        };
        let order = self.order.chunks_exact(block).flat_map(moved).collect();
        let mut parts = self.parts.clone();
        parts[dim] *= self.copies;
        Some(TileAssignment { parts, copies: 1, order })
    }
}

impl std::fmt::Display for TileAssignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let mut parts = self.parts.clone();
        let suffix = if self.copies > 1 { " last_tile_dim_replicate" } else { "" };
        if self.copies > 1 {
            parts.push(self.copies);
        }
        write!(f, "{{devices=[{}]{}{suffix}}}", list(&parts), list(&self.order))
    }
}

/// Numbers with commas between them.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let numbers: Option<Vec<u64>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() as u64 <= MAX_DEVICES)
}

/// The devices of `2,4]T(1,0)`: counted in an array of these sizes, whose dimensions are then put in that order.
fn counted_order(text: &str, devices: u64) -> Option<Vec<u64>> {
    let (sizes, rest) = text.split_once(']')?;
    let sizes = numbers(sizes)?;
    let order = match rest.trim() {
        "" => (0..sizes.len()).collect(),
        transposed => {
            let inner = transposed.strip_prefix("T(")?.strip_suffix(')')?;
            let order: Vec<usize> = numbers(inner)?.into_iter().map(|dim| dim as usize).collect();
            let mut seen = order.clone();
            seen.sort_unstable();
            if !seen.into_iter().eq(0..sizes.len()) {
                return None;
            }
            order
        }
    };
    let total = sizes.iter().try_fold(1u64, |n, size| n.checked_mul(*size))?;
    if total != devices || devices > MAX_DEVICES {
        return None;
    }
    let stride = |dim: usize| sizes[dim + 1..].iter().product::<u64>();
    let device = |at: u64| {
        let mut rest = at;
        let mut device = 0;
        for &dim in order.iter().rev() {
            device += rest % sizes[dim] * stride(dim);
            rest /= sizes[dim];
        }
        device
    };
    Some((0..devices).map(device).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_become_parts() {
        let check = |text: &str, dims: &[u64], devices: u64, expected: Option<&str>| {
            let split = TileAssignment::read(text, dims.len(), devices).and_then(|tiles| tiles.split(dims));
            assert_eq!(split.map(|tiles| tiles.to_string()).as_deref(), expected, "{text} {dims:?}");
        };
        check("{replicated}", &[8, 16], 4, Some("{devices=[1,4]0,1,2,3}"));
        check("{replicated}", &[16, 16], 4, Some("{devices=[4,1]0,1,2,3}"));
        check("{replicated}", &[6, 3], 4, None);
        // Columns over the second mesh axis, rows then over the first: device 2 holds the second half of the rows.
        let columns = "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}";
        check(columns, &[64, 64], 4, Some("{devices=[2,2]0,1,2,3}"));
        // The same dimension again: its parts become smaller.
        check(columns, &[3, 64], 4, Some("{devices=[1,4]0,2,1,3}"));
        check("{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}", &[4, 64], 4, Some("{devices=[2,2]0,1,2,3}"));
        // Nothing is held twice, or it is not said how it is held.
        check("{devices=[2,2]<=[4]}", &[64, 64], 4, None);
        for odd in ["{manual}", "{maximal device=0}", "{devices=[2,2]<=[5]}", "{devices=[2]0,0}", "{devices=[", ""] {
            check(odd, &[64, 64], 4, None);
        }
        check("{devices=[2,1,2]<=[2,2]T(1,1) last_tile_dim_replicate}", &[64, 64], 4, None);
        check("{devices=[1,18446744073709551615,2]<=[4] last_tile_dim_replicate}", &[64, 64], 4, None);
    }
}
