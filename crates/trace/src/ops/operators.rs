//! `+ - * / %` and unary minus, between tensors and with numbers.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use crate::tensor::Tensor;

macro_rules! operators {
    ($($trait:ident $method:ident $name:ident;)*) => {
        $(
            impl $trait<&Tensor> for &Tensor {
                type Output = Tensor;
                #[track_caller]
                fn $method(self, rhs: &Tensor) -> Tensor {
                    self.$name(rhs)
                }
            }

            impl $trait<Tensor> for Tensor {
                type Output = Tensor;
                #[track_caller]
                fn $method(self, rhs: Tensor) -> Tensor {
                    Tensor::$name(&self, &rhs)
                }
            }

            impl $trait<&Tensor> for Tensor {
                type Output = Tensor;
                #[track_caller]
                fn $method(self, rhs: &Tensor) -> Tensor {
                    Tensor::$name(&self, rhs)
                }
            }

            impl $trait<Tensor> for &Tensor {
                type Output = Tensor;
                #[track_caller]
                fn $method(self, rhs: Tensor) -> Tensor {
                    self.$name(&rhs)
                }
            }

            impl $trait<f64> for &Tensor {
                type Output = Tensor;
                #[track_caller]
                fn $method(self, rhs: f64) -> Tensor {
                    self.$name(&self.scalar_like(rhs))
                }
            }

            impl $trait<f64> for Tensor {
                type Output = Tensor;
                #[track_caller]
                fn $method(self, rhs: f64) -> Tensor {
                    Tensor::$name(&self, &self.scalar_like(rhs))
                }
            }

            impl $trait<&Tensor> for f64 {
                type Output = Tensor;
                #[track_caller]
                fn $method(self, rhs: &Tensor) -> Tensor {
                    rhs.scalar_like(self).$name(rhs)
                }
            }

            impl $trait<Tensor> for f64 {
                type Output = Tensor;
                #[track_caller]
                fn $method(self, rhs: Tensor) -> Tensor {
                    rhs.scalar_like(self).$name(&rhs)
                }
            }
        )*
    };
}

operators! {
    Add add plus;
    Sub sub minus;
    Mul mul times;
    Div div over;
    Rem rem remainder;
}

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        self.negate()
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        self.negate()
    }
}
