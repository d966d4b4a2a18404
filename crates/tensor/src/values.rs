//! Literals from and to Rust values: scalars, slices, vectors and nested arrays.

use std::fmt;

use crate::{DType, Literal, Spec};

/// A Rust type that is an element type.
pub trait Element: Copy + 'static {
    /// The element type.
    const DTYPE: DType;

    /// Appends the bytes of a value.
    fn write(self, bytes: &mut Vec<u8>);

    /// The value of these bytes; `None` unless there are as many as the type has.
    fn read(bytes: &[u8]) -> Option<Self>;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),*) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;

            fn write(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Option<$rust> {
                Some(<$rust>::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}

elements!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self));
    }

    fn read(bytes: &[u8]) -> Option<bool> {
        Some(*bytes.first()? != 0)
    }
}

/// Why a value is no literal, or a literal no value of the wanted type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueError {
    /// The number of values does not fill the shape.
    Count {
        /// The wanted type and shape.
        spec: Spec,
        /// Values that were given.
        given: usize,
    },
    /// The literal has another element type.
    Type {
        /// What the literal is.
        literal: Spec,
        /// The type that was asked for.
        wanted: DType,
    },
    /// The literal is no scalar.
    NotScalar(Spec),
    /// Rows of a nested vector differ in length.
    Ragged {
        /// Values in the first row.
        first: usize,
        /// The row that differs.
        row: usize,
        /// Values in it.
        given: usize,
    },
    /// There is no conversion between these types.
    Cast {
        /// The literal's.
        from: DType,
        /// The wanted one.
        to: DType,
    },
}

impl ValueError {
    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            Self::Count { .. } => "give as many values as the product of the sizes".into(),
            Self::Type { literal, wanted } if literal.dtype.is_float() && wanted.is_float() => {
                format!("convert it first: `.cast(DType::{wanted:?})`")
            }
            Self::Type { literal, .. } => format!("read it as {}", literal.dtype),
            Self::NotScalar(_) => "read all values with `to_vec`".into(),
            Self::Ragged { .. } => "give every row the same length".into(),
            Self::Cast { .. } => "only floating-point types are converted here; convert others in a program".into(),
        }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { spec, given } => {
                write!(f, "{given} values do not fill {spec}, which has {}", spec.num_elements())
            }
            Self::Type { literal, wanted } => write!(f, "the literal is {literal}, not {wanted}"),
            Self::NotScalar(spec) => write!(f, "{spec} is no scalar: it has {} elements", spec.num_elements()),
            Self::Ragged { first, row, given } => {
                write!(f, "row {row} has {given} values, row 0 has {first}")
            }
            Self::Cast { from, to } => write!(f, "{from} is not converted to {to}"),
        }
    }
}

impl std::error::Error for ValueError {}

impl Literal {
    /// A literal of these values in row-major order; an error if they do not fill the shape.
    ///
    /// ```
    /// use tensor::Literal;
    ///
    /// let literal = Literal::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    /// assert_eq!(literal, Literal::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]));
    /// assert!(Literal::from_slice(&[1.0f32], [2, 3]).is_err());
    /// # Ok::<(), tensor::ValueError>(())
    /// ```
    pub fn from_slice<T: Element>(values: &[T], dims: impl Into<Vec<usize>>) -> Result<Literal, ValueError> {
        let spec = Spec::new(T::DTYPE, dims);
        let wrong = || ValueError::Count { spec: spec.clone(), given: values.len() };
        Literal::new(spec.dtype, spec.dims.clone(), written(values)).ok_or_else(wrong)
    }

    /// Type and shape.
    pub fn spec(&self) -> Spec {
        Spec::new(self.dtype(), self.dims())
    }

    /// All values in row-major order; an error if the literal has another element type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, ValueError> {
        if self.dtype() != T::DTYPE {
            return Err(ValueError::Type { literal: self.spec(), wanted: T::DTYPE });
        }
        Ok(self.bytes().chunks_exact(T::DTYPE.size_bytes()).filter_map(T::read).collect())
    }

    /// The value of a literal with one element.
    pub fn item<T: Element>(&self) -> Result<T, ValueError> {
        match self.to_vec()?[..] {
            [only] => Ok(only),
            _ => Err(ValueError::NotScalar(self.spec())),
        }
    }

    /// The same values in another shape of as many elements.
    pub fn reshape(self, dims: impl Into<Vec<usize>>) -> Result<Literal, ValueError> {
        let (spec, given) = (Spec::new(self.dtype(), dims), self.num_elements());
        Literal::new(spec.dtype, spec.dims.clone(), self.into_bytes()).ok_or(ValueError::Count { spec, given })
    }
}

fn written<T: Element>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * T::DTYPE.size_bytes());
    values.iter().for_each(|value| value.write(&mut bytes));
    bytes
}

/// A literal whose bytes fit by construction.
fn fitting<T: Element>(values: &[T], dims: impl Into<Vec<usize>>) -> Literal {
    Literal::from_slice(values, dims).unwrap_or_else(|error| unreachable!("{error}"))
}

impl<T: Element> From<T> for Literal {
    fn from(value: T) -> Literal {
        fitting(&[value], [])
    }
}

impl<T: Element> From<&[T]> for Literal {
    fn from(values: &[T]) -> Literal {
        fitting(values, [values.len()])
    }
}

impl<T: Element> From<Vec<T>> for Literal {
    fn from(values: Vec<T>) -> Literal {
        Literal::from(&values[..])
    }
}

impl<T: Element> From<&Vec<T>> for Literal {
    fn from(values: &Vec<T>) -> Literal {
        Literal::from(&values[..])
    }
}

impl<T: Element, const N: usize> From<[T; N]> for Literal {
    fn from(values: [T; N]) -> Literal {
        Literal::from(&values[..])
    }
}

impl<T: Element, const N: usize, const M: usize> From<[[T; N]; M]> for Literal {
    fn from(values: [[T; N]; M]) -> Literal {
        fitting(values.as_flattened(), [M, N])
    }
}

impl<T: Element, const N: usize, const M: usize, const L: usize> From<[[[T; N]; M]; L]> for Literal {
    fn from(values: [[[T; N]; M]; L]) -> Literal {
        fitting(values.as_flattened().as_flattened(), [L, M, N])
    }
}

impl From<&Literal> for Literal {
    fn from(literal: &Literal) -> Literal {
        literal.clone()
    }
}

impl<T: Element> TryFrom<Vec<Vec<T>>> for Literal {
    type Error = ValueError;

    fn try_from(rows: Vec<Vec<T>>) -> Result<Literal, ValueError> {
        let first = rows.first().map_or(0, Vec::len);
        match rows.iter().position(|row| row.len() != first) {
            Some(row) => Err(ValueError::Ragged { first, row, given: rows[row].len() }),
            None => Ok(fitting(&rows.concat(), [rows.len(), first])),
        }
    }
}

impl<T: Element> TryFrom<&Literal> for Vec<T> {
    type Error = ValueError;

    fn try_from(literal: &Literal) -> Result<Vec<T>, ValueError> {
        literal.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_way_there_and_back() {
        assert_eq!(Literal::from(2.5f64).item::<f64>(), Ok(2.5));
        assert_eq!(Literal::from([true, false]).to_vec::<bool>().unwrap(), [true, false]);
        assert_eq!(Literal::from(vec![-1i8, 7]).to_vec::<i8>().unwrap(), [-1, 7]);
        let cube = Literal::from([[[1u32, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]]);
        assert_eq!(cube.dims(), [3, 2, 2]);
        assert_eq!(Vec::<u32>::try_from(&cube).unwrap(), (1..=12).collect::<Vec<_>>());
        assert_eq!(Literal::try_from(vec![vec![1i64, 2], vec![3, 4]]).unwrap(), Literal::from([[1i64, 2], [3, 4]]));
        assert_eq!(Literal::from([1.0f32, 2.0]).reshape([2, 1]).unwrap().dims(), [2, 1]);
        let empty: [f32; 0] = [];
        assert_eq!(Literal::from(empty).dims(), [0]);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let told = |error: ValueError| format!("{error}; {}", error.remedy());
        assert_eq!(
            told(Literal::from_slice(&[1.0f32, 2.0], [2, 3]).unwrap_err()),
            "2 values do not fill f32[2,3], which has 6; give as many values as the product of the sizes"
        );
        let half = Literal::from([1.0f32, 2.0]).cast(DType::BF16).unwrap();
        assert_eq!(
            told(half.to_vec::<f32>().unwrap_err()),
            "the literal is bf16[2], not f32; convert it first: `.cast(DType::F32)`"
        );
        assert_eq!(told(half.to_vec::<i32>().unwrap_err()), "the literal is bf16[2], not i32; read it as bf16");
        assert_eq!(
            told(Literal::from([1u8, 2]).item::<u8>().unwrap_err()),
            "ui8[2] is no scalar: it has 2 elements; read all values with `to_vec`"
        );
        assert_eq!(
            told(Literal::try_from(vec![vec![1i32], vec![2, 3]]).unwrap_err()),
            "row 1 has 2 values, row 0 has 1; give every row the same length"
        );
        assert!(told(Literal::from(1i32).cast(DType::F32).unwrap_err()).starts_with("i32 is not converted to f32"));
    }
}
