//! A matrix of vectors out of codebooks: what AQLM and VPTQ checkpoints become.

use tensor::{DType, Literal, decode_float, encode_float};

use crate::error::Error;
use crate::quant::refusal::Refusal;

/// Most elements of a vector: else a few indices could stand for any number of elements.
const MAX_VECTOR: usize = 256;

/// Vectors that indices name.
#[derive(Clone, Debug, PartialEq)]
pub struct Codebook {
    /// Number of vectors.
    pub entries: usize,
    /// The vectors one after the other, each by rows of the matrix, then columns.
    pub values: Vec<f32>,
}

/// A matrix `[out_features, in_features]` in which every small block is a sum of vectors, one out of each codebook.
///
/// An element is `sum * output scale * input scale + input bias`, what is missing left out.
#[derive(Clone, Debug, PartialEq)]
pub struct CodebookMatrix {
    pub(crate) out_features: usize,
    pub(crate) in_features: usize,
    /// Rows and columns of a vector.
    pub(crate) vector: (usize, usize),
    pub(crate) codebooks: Vec<Codebook>,
    /// By blocks of rows, by blocks of columns, by codebook. The last block of rows may reach over the end.
    pub(crate) indices: Vec<u16>,
    /// One for each block of rows.
    pub(crate) output_scales: Option<Vec<f32>>,
    /// One for each input, and what is added to it.
    pub(crate) input_scales: Option<(Vec<f32>, Vec<f32>)>,
    /// The input of each column of indices.
    pub(crate) input_order: Option<Vec<u32>>,
    pub(crate) dense: DType,
}

impl CodebookMatrix {
    /// Outputs: rows.
    pub fn out_features(&self) -> usize {
        self.out_features
    }

    /// Inputs: columns.
    pub fn in_features(&self) -> usize {
        self.in_features
    }

    /// Rows and columns of a vector.
    pub fn vector(&self) -> (usize, usize) {
        self.vector
    }

    /// The codebooks whose vectors are added.
    pub fn codebooks(&self) -> &[Codebook] {
        &self.codebooks
    }

    /// Indices by blocks of rows, then by blocks of columns, then by codebook.
    pub fn indices(&self) -> &[u16] {
        &self.indices
    }

    /// Scales of blocks of rows.
    pub fn output_scales(&self) -> Option<&[f32]> {
        self.output_scales.as_deref()
    }

    /// Scales of inputs, and what is added.
    pub fn input_scales(&self) -> Option<(&[f32], &[f32])> {
        self.input_scales.as_ref().map(|(scales, biases)| (scales.as_slice(), biases.as_slice()))
    }

    /// The input that each column of indices is of, where it is another than its place.
    pub fn input_order(&self) -> Option<&[u32]> {
        self.input_order.as_deref()
    }

    /// The float type that the format's own tool dequantizes to.
    pub fn dense(&self) -> DType {
        self.dense
    }

    /// All elements row by row, rounded after each step to the type of the format's own tool.
    pub fn dequantize(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.out_features * self.in_features];
        let (down, across) = self.vector;
        let column_blocks = self.in_features / across;
        let count = self.codebooks.len();
        for row in 0..self.out_features {
            for column in 0..self.in_features {
                let block = row / down * column_blocks + column / across;
                let place = row % down * across + column % across;
                let each = self.indices[block * count..][..count].iter().zip(&self.codebooks);
                let sum = each.map(|(index, book)| book.values[usize::from(*index) * down * across + place]).sum();
                let mut value = self.rounded(sum);
                if let Some(scales) = &self.output_scales {
                    value = self.rounded(value * scales[row / down]);
                }
                let input = self.input_order.as_ref().map_or(column, |order| order[column] as usize);
                if let Some((scales, biases)) = &self.input_scales {
                    value = self.rounded(self.rounded(value * scales[input]) + biases[input]);
                }
                values[row * self.in_features + input] = value;
            }
        }
        values
    }

    /// All elements as a tensor `[out_features, in_features]` of a float type.
    pub fn to_literal(&self, dtype: DType) -> Result<Literal, Error> {
        let dims = [self.out_features, self.in_features];
        let literal = Literal::from_slice(&self.dequantize(), dims).and_then(|literal| literal.cast(dtype));
        literal.map_err(|_| Refusal::new(format!("it cannot become {dtype}"), "ask for a float type").of_matrix())
    }

    fn rounded(&self, value: f32) -> f32 {
        if self.dense == DType::F32 {
            return value;
        }
        let bits = encode_float(self.dense, value.into());
        bits.and_then(|bits| decode_float(self.dense, bits)).map_or(value, |value| value as f32)
    }

    /// Itself, if all of it fits together.
    pub(crate) fn checked(self) -> Result<CodebookMatrix, Refusal> {
        let wrong = |message: String| Err(Refusal::damaged(message));
        let (down, across) = self.vector;
        let (rows, columns) = (self.out_features, self.in_features);
        if rows == 0 || columns == 0 || down == 0 || across == 0 || !columns.is_multiple_of(across) {
            return wrong(format!("vectors of {down}x{across} do not divide a matrix of [{rows}, {columns}]"));
        }
        if down.checked_mul(across).is_none_or(|size| size > MAX_VECTOR) {
            return wrong(format!("vectors of {down}x{across} have more than {MAX_VECTOR} elements"));
        }
        if rows.checked_mul(columns).is_none() || self.codebooks.is_empty() {
            return wrong(format!("a matrix of [{rows}, {columns}] has {} codebooks", self.codebooks.len()));
        }
        let row_blocks = rows.div_ceil(down);
        let count = row_blocks.checked_mul(columns / across).and_then(|all| all.checked_mul(self.codebooks.len()));
        if count != Some(self.indices.len()) {
            return wrong(format!(
                "it has {} indices for [{row_blocks}, {}] vectors",
                self.indices.len(),
                columns / across
            ));
        }
        for (number, book) in self.codebooks.iter().enumerate() {
            let size = down.checked_mul(across).and_then(|size| size.checked_mul(book.entries));
            if book.entries == 0 || size != Some(book.values.len()) {
                return wrong(format!(
                    "codebook {number} of {} vectors has {} values",
                    book.entries,
                    book.values.len()
                ));
            }
            if book.values.iter().any(|value| !value.is_finite()) {
                return wrong(format!("codebook {number} has values that are not finite"));
            }
            let of_book = self.indices.iter().skip(number).step_by(self.codebooks.len());
            if let Some(index) = of_book.copied().find(|index| usize::from(*index) >= book.entries) {
                return wrong(format!("index {index} is beyond the {} vectors of codebook {number}", book.entries));
            }
        }
        let is_list = |list: &[f32], size: usize| list.len() == size && list.iter().all(|value| value.is_finite());
        if self.output_scales.as_ref().is_some_and(|scales| !is_list(scales, row_blocks)) {
            return wrong("its scales of outputs are too few, too many or not finite".into());
        }
        if let Some((scales, biases)) = &self.input_scales
            && !(is_list(scales, columns) && is_list(biases, columns))
        {
            return wrong("its scales of inputs are too few, too many or not finite".into());
        }
        if let Some(order) = &self.input_order {
            let mut seen = vec![false; columns];
            for input in order {
                match seen.get_mut(*input as usize) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return wrong(format!("its order of inputs has input {input} twice, or there is none")),
                }
            }
            if order.len() != columns {
                return wrong(format!("its order of inputs has {} of {columns}", order.len()));
            }
        }
        Ok(self)
    }
}
