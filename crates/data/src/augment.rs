//! Images changed a little from epoch to epoch: moved and mirrored, as seed, step and example say.

use super::permutation::key;

/// What is changed at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Augment {
    /// Images are moved by up to this many pixels each way; black moves in.
    pub crop_padding: usize,
    /// Whether images are mirrored.
    pub flip: Flip,
}

/// Whether images are mirrored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flip {
    /// Never.
    #[default]
    Never,
    /// Left and right are exchanged in half of the images.
    Horizontal,
}

/// The change of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Rows that the image moves up.
    up: isize,
    /// Columns that it moves left.
    left: isize,
    is_mirrored: bool,
}

impl Augment {
    /// The change of an example in a step. It depends on nothing else, so that a resumed run sees the same.
    pub(super) fn change(&self, seed: u64, step: u64, example: u64) -> Change {
        let drawn = |salt: u64| key(&[seed, step, example, salt]);
        let reach = self.crop_padding.min(isize::MAX as usize / 4) as u64;
        let shift = |salt: u64| (drawn(salt) % (2 * reach + 1)) as isize - reach as isize;
        let is_mirrored = self.flip == Flip::Horizontal && drawn(3) & 1 == 1;
        Change { up: shift(1), left: shift(2), is_mirrored }
    }

    /// Whether anything is changed.
    pub(super) fn is_on(&self) -> bool {
        *self != Augment::default()
    }
}

impl Change {
    /// Changes pixels of `[height, width]`; what moves in from outside is `black`, a pixel.
    pub(super) fn apply(self, pixels: &mut [u8], (height, width): (usize, usize), black: &[u8]) {
        let pixel_bytes = black.len();
        let before = pixels.to_vec();
        let old = |row: usize, column: usize| {
            let (row, column) = (row.checked_add_signed(self.up)?, column.checked_add_signed(self.left)?);
            let column = if self.is_mirrored { width.checked_sub(column + 1)? } else { column };
            if row >= height || column >= width {
                return None;
            }
            before.get((row * width + column) * pixel_bytes..)?.get(..pixel_bytes)
        };
        for (n, pixel) in pixels.chunks_exact_mut(pixel_bytes.max(1)).enumerate() {
            pixel.copy_from_slice(old(n / width.max(1), n % width.max(1)).unwrap_or(black));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_move_and_turn() {
        let image: Vec<u8> = (1..=6).collect();
        let check = |change: Change, expected: [u8; 6]| {
            let mut pixels = image.clone();
            change.apply(&mut pixels, (2, 3), &[0]);
            assert_eq!(pixels, expected, "{change:?}");
        };
        check(Change { up: 0, left: 0, is_mirrored: false }, [1, 2, 3, 4, 5, 6]);
        check(Change { up: 0, left: 0, is_mirrored: true }, [3, 2, 1, 6, 5, 4]);
        check(Change { up: 1, left: 0, is_mirrored: false }, [4, 5, 6, 0, 0, 0]);
        check(Change { up: -1, left: 1, is_mirrored: false }, [0, 0, 0, 2, 3, 0]);
        check(Change { up: 0, left: -2, is_mirrored: true }, [0, 0, 3, 0, 0, 6]);
        check(Change { up: 9, left: isize::MIN, is_mirrored: true }, [0; 6]);
    }

    #[test]
    fn changes_depend_on_seed_step_and_example() {
        let augment = Augment { crop_padding: 2, flip: Flip::Horizontal };
        let all: Vec<Change> = (0..500).map(|n| augment.change(7, n / 10, n)).collect();
        assert_eq!(all, (0..500).map(|n| augment.change(7, n / 10, n)).collect::<Vec<_>>());
        assert_ne!(all, (0..500).map(|n| augment.change(8, n / 10, n)).collect::<Vec<_>>());
        assert_ne!(all, (0..500).map(|n| augment.change(7, 1 + n / 10, n)).collect::<Vec<_>>());
        for shift in -2..=2 {
            assert!(all.iter().any(|change| change.up == shift) && all.iter().any(|change| change.left == shift));
        }
        assert!(all.iter().all(|change| change.up.abs() <= 2 && change.left.abs() <= 2));
        let mirrored = all.iter().filter(|change| change.is_mirrored).count();
        assert!((200..300).contains(&mirrored), "{mirrored}");
        let none = Augment::default();
        assert!(!none.is_on() && (0..50).all(|n| none.change(n, n, n) == none.change(0, 0, 0)));
    }
}
