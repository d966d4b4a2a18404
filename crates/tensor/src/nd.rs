//! Literals from and to the arrays of the `ndarray` crate.

use ndarray::{Array, ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::values::Element;
use crate::{Literal, ValueError};

impl<T: Element, S: Data<Elem = T>, D: Dimension> From<&ArrayBase<S, D>> for Literal {
    fn from(array: &ArrayBase<S, D>) -> Literal {
        // `iter` walks in row-major order, whatever the strides are.
        let values: Vec<T> = array.iter().copied().collect();
        Literal::from_slice(&values, array.shape()).unwrap_or_else(|error| unreachable!("{error}"))
    }
}

impl<T: Element, D: Dimension> From<Array<T, D>> for Literal {
    fn from(array: Array<T, D>) -> Literal {
        Literal::from(&array)
    }
}

impl<T: Element> TryFrom<&Literal> for ArrayD<T> {
    type Error = ValueError;

    fn try_from(literal: &Literal) -> Result<ArrayD<T>, ValueError> {
        let values = literal.to_vec()?;
        let given = values.len();
        let wrong = |_| ValueError::Count { spec: literal.spec(), given };
        ArrayD::from_shape_vec(IxDyn(literal.dims()), values).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{ArrayD, array};

    use crate::Literal;

    #[test]
    fn arrays_survive_the_way_there_and_back() {
        let array = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let literal = Literal::from(&array);
        assert_eq!(literal, Literal::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]));
        assert_eq!(ArrayD::<f32>::try_from(&literal).unwrap(), array.clone().into_dyn());
        // A view with other strides is written in the order of its own indices.
        assert_eq!(Literal::from(&array.t()), Literal::from([[1.0f32, 4.0], [2.0, 5.0], [3.0, 6.0]]));
        assert!(ArrayD::<i32>::try_from(&literal).is_err());
    }
}
