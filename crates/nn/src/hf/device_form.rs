//! The forms that weights of files take on a device, layer by layer, and which layers of a stack have the same.

use std::collections::BTreeSet;

use tensor::{BlockFormat, DType};
use weights::quant::PackedSpec;

use crate::quant::{ActivationQuant, QuantScheme, ZeroPoints};

/// What a device is given of a quantized weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DeviceForm {
    pub(super) dtype: DType,
    pub(super) inputs: usize,
    pub(super) group: usize,
    /// Type of zero points.
    pub(super) zero_points: Option<DType>,
    pub(super) has_order: bool,
    pub(super) activations: ActivationQuant,
    /// Blocks that stay as the file has them; the rest is what they are otherwise.
    pub(super) blocks: Option<BlockFormat>,
}

impl DeviceForm {
    pub(super) fn of(spec: &PackedSpec, inputs: usize, activations: ActivationQuant) -> DeviceForm {
        let dtype = if spec.has_levels || spec.dtype == DType::F4E2M1FN { DType::I8 } else { spec.dtype };
        let zero_points = match (spec.has_minima, spec.has_zero_points) {
            (true, _) => Some(DType::F32),
            (false, true) => Some(DType::I8),
            (false, false) => None,
        };
        let group = common_divisor(spec.block.in_features.min(inputs), inputs);
        let has_order = spec.has_input_groups;
        DeviceForm { dtype, inputs, group, zero_points, has_order, activations, blocks: None }
    }

    /// The form that has room for both; `None` where there is none.
    pub(super) fn with(self, other: DeviceForm) -> Option<DeviceForm> {
        let dtype = match (self.dtype, other.dtype) {
            (one, two) if one == two => one,
            (one, two) if [one, two].iter().all(|dtype| dtype.is_integer() && *dtype != DType::U8) => DType::I8,
            _ => return None,
        };
        let zero_points = match (self.zero_points, other.zero_points) {
            (Some(DType::F32), _) | (_, Some(DType::F32)) => Some(DType::F32),
            (one, two) => one.or(two),
        };
        Some(DeviceForm {
            dtype,
            inputs: self.inputs,
            group: common_divisor(self.group, other.group),
            zero_points,
            has_order: self.has_order || other.has_order,
            activations: self.activations,
            blocks: self.blocks.filter(|format| other.blocks == Some(*format)),
        })
    }

    pub(super) fn scheme(&self) -> QuantScheme {
        QuantScheme {
            values: self.dtype,
            group: Some(self.group).filter(|group| *group < self.inputs),
            zero_points: if self.zero_points.is_some() { ZeroPoints::PerGroup } else { ZeroPoints::None },
            activations: self.activations,
        }
    }

    /// Bits of an element, with its share of scales and zero points.
    fn bits(&self) -> f64 {
        if let Some(format) = self.blocks {
            return 8.0 * format.bytes() as f64 / format.elements() as f64;
        }
        let of_group = DType::F32.bits() + self.zero_points.map_or(0, DType::bits);
        f64::from(self.dtype.bits()) + f64::from(of_group) / self.group.max(1) as f64
    }
}

/// What one layer of a weight, with all of its experts, becomes.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerForm {
    /// `None` where it is dense on the device.
    pub(super) packed: Option<DeviceForm>,
    /// Whether it is quantized in the files, and dense on the device.
    pub(super) is_dequantized: bool,
    /// Widths of codes in the files.
    pub(super) file_bits: BTreeSet<u32>,
}

impl LayerForm {
    /// A weight that is quantized in the files in a way that no form has.
    pub(super) fn dequantized() -> LayerForm {
        LayerForm { is_dequantized: true, ..LayerForm::default() }
    }

    pub(super) fn packed(form: DeviceForm, file_bits: u32) -> LayerForm {
        LayerForm { packed: Some(form), is_dequantized: false, file_bits: BTreeSet::from([file_bits]) }
    }

    /// The form of both together.
    pub(super) fn with(&self, other: &LayerForm) -> LayerForm {
        let packed = self.packed.zip(other.packed).and_then(|(one, two)| one.with(two));
        let was_packed = self.packed.or(other.packed).is_some();
        LayerForm {
            packed,
            is_dequantized: self.is_dequantized || other.is_dequantized || (was_packed && packed.is_none()),
            file_bits: &self.file_bits | &other.file_bits,
        }
    }

    /// The form of all together.
    pub(super) fn of_all<'a>(forms: impl IntoIterator<Item = &'a LayerForm>) -> LayerForm {
        let mut forms = forms.into_iter();
        let first = forms.next().cloned().unwrap_or_default();
        forms.fold(first, |all, form| all.with(form))
    }

    fn bits(&self, dense: DType) -> f64 {
        self.packed.map_or(f64::from(dense.bits()), |form| form.bits())
    }
}

/// The layers of a weight in a stack.
pub(super) struct StackedForms<'a> {
    /// Elements of a layer.
    pub(super) elements: usize,
    /// The type of dense layers.
    pub(super) dense: DType,
    pub(super) layers: &'a [LayerForm],
}

/// At which layers a stack of these weights is cut, so that every segment has one form, with at most so many segments. With more, those
/// neighbours share the form that has room for both whose bytes grow least.
pub(super) fn segment_starts(weights: &[StackedForms<'_>], most: usize) -> Vec<usize> {
    let layers = weights.iter().map(|weight| weight.layers.len()).max().unwrap_or(0);
    let differs = |at: &usize| {
        weights.iter().any(|weight| match weight.layers.get(at - 1..=*at) {
            Some([before, after]) => before.packed != after.packed,
            _ => false,
        })
    };
    let mut starts: Vec<usize> = std::iter::once(0).chain((1..layers).filter(differs)).collect();
    let end = |starts: &[usize], segment: usize| starts.get(segment + 1).copied().unwrap_or(layers);
    let form = |weight: &StackedForms<'_>, from: usize, to: usize| {
        LayerForm::of_all(weight.layers.get(from..to).unwrap_or_default()).bits(weight.dense)
    };
    // Bits more if a segment is joined with the one before it.
    let growth = |starts: &[usize], segment: usize| -> f64 {
        let (from, at, to) = (starts[segment - 1], starts[segment], end(starts, segment));
        let of = |weight: &StackedForms<'_>| {
            let joined = form(weight, from, to) * (to - from) as f64;
            let apart = form(weight, from, at) * (at - from) as f64 + form(weight, at, to) * (to - at) as f64;
            (joined - apart) * weight.elements as f64
        };
        weights.iter().map(of).sum()
    };
    let mut grows: Vec<f64> = (1..starts.len()).map(|segment| growth(&starts, segment)).collect();
    while starts.len() > most.max(1) {
        let cheapest = (0..grows.len()).min_by(|one, two| grows[*one].total_cmp(&grows[*two]));
        let Some(cheapest) = cheapest else { break };
        starts.remove(cheapest + 1);
        grows.remove(cheapest);
        // The joined segment has two neighbours.
        for segment in [cheapest, cheapest + 1].into_iter().filter(|segment| (1..starts.len()).contains(segment)) {
            grows[segment - 1] = growth(&starts, segment);
        }
    }
    starts.split_off(1.min(starts.len()))
}

fn common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(dtype: DType) -> LayerForm {
        let form = DeviceForm {
            dtype,
            inputs: 64,
            group: 32,
            zero_points: None,
            has_order: false,
            activations: ActivationQuant::None,
            blocks: None,
        };
        LayerForm::packed(form, dtype.bits())
    }

    /// Layers by a letter each: 4 and 8 bits, `d` is dense.
    fn forms(layers: &str) -> Vec<LayerForm> {
        let of = |letter: char| match letter {
            '4' => form(DType::I4),
            '8' => form(DType::I8),
            _ => LayerForm::default(),
        };
        layers.chars().map(of).collect()
    }

    fn starts(weights: &[&str], most: usize) -> Vec<usize> {
        let layers: Vec<Vec<LayerForm>> = weights.iter().map(|layers| forms(layers)).collect();
        let of = |layers| StackedForms { elements: 100, dense: DType::BF16, layers };
        segment_starts(&layers.iter().map(|layers| of(layers)).collect::<Vec<_>>(), most)
    }

    #[test]
    fn segments_begin_where_any_weight_changes() {
        assert!(starts(&["4444", "8888"], 8).is_empty());
        assert_eq!(starts(&["8444", "8888"], 8), [1]);
        assert_eq!(starts(&["8444", "4448", "dddd"], 8), [1, 3]);
        assert_eq!(starts(&["d44d"], 8), [1, 3]);
        assert!(starts(&[], 8).is_empty() && starts(&["", ""], 8).is_empty());
    }

    #[test]
    fn too_many_segments_join_where_it_costs_least() {
        // One layer of 4 bits in 8 costs less than three, and 8 bits less than dense.
        assert_eq!(starts(&["8848444d"], 4), [3, 4, 7]);
        assert_eq!(starts(&["88484444"], 2), [4]);
        assert_eq!(starts(&["d8d444"], 2), [3]);
        assert!(starts(&["8484"], 1).is_empty());
    }

    #[test]
    fn forms_of_one_segment_have_room_for_all() {
        let both = LayerForm::of_all(&forms("48"));
        assert_eq!(both.packed.map(|form| form.dtype), Some(DType::I8));
        assert_eq!(both.file_bits, BTreeSet::from([4, 8]));
        let in_blocks = |format| {
            let form = form(DType::I4);
            LayerForm { packed: form.packed.map(|packed| DeviceForm { blocks: Some(format), ..packed }), ..form }
        };
        let same = [BlockFormat::Q4K, BlockFormat::Q4K].map(in_blocks);
        assert_eq!(LayerForm::of_all(&same).packed.and_then(|form| form.blocks), Some(BlockFormat::Q4K));
        let others = [BlockFormat::Q4K, BlockFormat::Q6K].map(in_blocks);
        assert_eq!(LayerForm::of_all(&others).packed.map(|form| form.blocks), Some(None));
        let dense = LayerForm::of_all(&forms("4d"));
        assert!(dense.packed.is_none() && dense.is_dequantized);
        assert!(!LayerForm::of_all(&forms("dd")).is_dequantized);
    }
}
