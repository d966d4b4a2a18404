//! Matrices with their axes exchanged, block by block so that both sides stay in the cache, by all cores where they are large.

/// Rows and columns of a block.
const BLOCK: usize = 32;
/// Bytes below which one thread does it all.
const LARGE: usize = 1 << 20;
/// The most threads: memory is what limits them.
const THREADS: usize = 16;

/// A matrix `[rows, columns]` with its axes exchanged.
pub fn transpose_floats(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let bytes = transpose_matrices(&float_bytes(values), rows, columns, size_of::<f32>());
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Floats as they lie in a literal.
pub fn float_bytes(values: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(values)];
    for (to, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
        *to = value.to_le_bytes();
    }
    bytes
}

/// Matrices `[rows, columns]` of elements of so many bytes, one after the other, with the axes of each exchanged. What is left after
/// the last whole matrix is left out.
pub fn transpose_matrices(bytes: &[u8], rows: usize, columns: usize, width: usize) -> Vec<u8> {
    let matrix = rows.saturating_mul(columns).saturating_mul(width);
    if matrix == 0 || matrix > bytes.len() {
        return Vec::new();
    }
    let whole = bytes.len() / matrix * matrix;
    let mut out = vec![0; whole];
    for (from, to) in bytes.chunks_exact(matrix).zip(out.chunks_exact_mut(matrix)) {
        // The rows of the result are shared out.
        let threads =
            if matrix < LARGE { 1 } else { std::thread::available_parallelism().map_or(1, usize::from).min(THREADS) };
        let share = columns.div_ceil(threads).next_multiple_of(BLOCK);
        let mut parts = to.chunks_mut(share * rows * width).enumerate();
        let run = |n: usize, part: &mut [u8]| match width {
            1 => columns_as_rows::<1>(from, rows, columns, n * share, part),
            2 => columns_as_rows::<2>(from, rows, columns, n * share, part),
            4 => columns_as_rows::<4>(from, rows, columns, n * share, part),
            8 => columns_as_rows::<8>(from, rows, columns, n * share, part),
            _ => one_by_one(from, rows, columns, width, n * share, part),
        };
        std::thread::scope(|scope| {
            let first = parts.next();
            for (n, part) in parts {
                let run = &run;
                scope.spawn(move || run(n, part));
            }
            if let Some((n, part)) = first {
                run(n, part);
            }
        });
    }
    out
}

/// Some rows of a matrix `[all_rows, columns]`, from `first` on, put as columns into `out`, which is `[columns, all_rows]`. Rows and places
/// beyond either are left out.
pub fn transpose_rows_into(rows: &[u8], columns: usize, width: usize, out: &mut [u8], first: usize, all_rows: usize) {
    let (row_bytes, line) = (columns.saturating_mul(width), all_rows.saturating_mul(width));
    if row_bytes == 0 || first >= all_rows {
        return;
    }
    let count = (rows.len() / row_bytes).min(all_rows - first);
    match width {
        1 => tiles_into::<1>(rows, columns, out, first, count, all_rows),
        2 => tiles_into::<2>(rows, columns, out, first, count, all_rows),
        4 => tiles_into::<4>(rows, columns, out, first, count, all_rows),
        8 => tiles_into::<8>(rows, columns, out, first, count, all_rows),
        _ => out.chunks_exact_mut(line).take(columns).enumerate().for_each(|(column, line)| {
            let places = line[first * width..].chunks_exact_mut(width);
            for (row, to) in rows.chunks_exact(row_bytes).take(count).zip(places) {
                to.copy_from_slice(&row[column * width..(column + 1) * width]);
            }
        }),
    }
}

/// `count` rows put as columns, from column `first` on, tile by tile: each is turned in memory that stays in the first cache, and both
/// sides see whole cache lines.
fn tiles_into<const W: usize>(
    rows: &[u8],
    columns: usize,
    out: &mut [u8],
    first: usize,
    count: usize,
    all_rows: usize,
) {
    let (from, out) = (rows.as_chunks::<W>().0, out.as_chunks_mut::<W>().0);
    let lines = columns.min(out.len() / all_rows.max(1));
    let mut tile = [[[0; W]; BLOCK]; BLOCK];
    for column in (0..lines).step_by(BLOCK) {
        let width = BLOCK.min(lines - column);
        for row in (0..count).step_by(BLOCK) {
            let height = BLOCK.min(count - row);
            for (at, values) in from[row * columns..].chunks(columns).take(height).enumerate() {
                match values[column..column + width].first_chunk::<BLOCK>() {
                    Some(values) => values.iter().zip(&mut tile).for_each(|(value, line)| line[at] = *value),
                    None => values[column..].iter().zip(&mut tile).for_each(|(value, line)| line[at] = *value),
                }
            }
            for (line, to) in tile.iter().take(width).zip(out[column * all_rows..].chunks_mut(all_rows)) {
                let to = &mut to[first + row..first + row + height];
                match to.first_chunk_mut::<BLOCK>() {
                    Some(to) => *to = *line,
                    None => to.copy_from_slice(&line[..height]),
                }
            }
        }
    }
}

/// Columns from `first` on, as rows of `out`.
fn columns_as_rows<const W: usize>(from: &[u8], rows: usize, columns: usize, first: usize, out: &mut [u8]) {
    let (from, out) = (from.as_chunks::<W>().0, out.as_chunks_mut::<W>().0);
    let count = out.len() / rows;
    for column_block in (0..count).step_by(BLOCK) {
        for row_block in (0..rows).step_by(BLOCK) {
            for column in column_block..(column_block + BLOCK).min(count) {
                let last = (row_block + BLOCK).min(rows);
                for (row, to) in (row_block..last).zip(&mut out[column * rows + row_block..column * rows + last]) {
                    *to = from[row * columns + first + column];
                }
            }
        }
    }
}

fn one_by_one(from: &[u8], rows: usize, columns: usize, width: usize, first: usize, out: &mut [u8]) {
    for (n, to) in out.chunks_exact_mut(width).enumerate() {
        let at = (n % rows * columns + first + n / rows) * width;
        to.copy_from_slice(&from[at..at + width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_exchanged() {
        for width in [1, 2, 3, 4, 8] {
            for (rows, columns) in [(1, 1), (1, 7), (5, 3), (33, 70), (600, 700)] {
                let bytes: Vec<u8> = (0..2 * rows * columns * width).map(|n| (n * 31 % 251) as u8).collect();
                let turned = transpose_matrices(&bytes, rows, columns, width);
                assert_eq!(turned.len(), bytes.len());
                let (r, c) = (rows / 2, columns - 1);
                let matrix = rows * columns * width;
                let (at, to) = ((r * columns + c) * width, (c * rows + r) * width);
                assert_eq!(bytes[matrix + at..][..width], turned[matrix + to..][..width]);
                assert_eq!(transpose_matrices(&turned, columns, rows, width), bytes);
            }
        }
        for (rows, columns, width) in [(1, 7, 2), (70, 33, 2), (5, 3, 3), (64, 9, 4), (12, 5, 1), (3, 4, 8)] {
            let bytes: Vec<u8> = (0..rows * columns * width).map(|n| (n * 31 % 251) as u8).collect();
            let mut out = vec![0; bytes.len()];
            for first in (0..rows).step_by(11) {
                let some = &bytes[first * columns * width..(first + 11).min(rows) * columns * width];
                transpose_rows_into(some, columns, width, &mut out, first, rows);
            }
            assert_eq!(out, transpose_matrices(&bytes, rows, columns, width));
            transpose_rows_into(&bytes, columns, width, &mut out, rows, rows);
        }
        assert!(transpose_matrices(&[1, 2, 3], 2, 2, 1).is_empty() && transpose_matrices(&[1], 0, 3, 1).is_empty());
    }
}
