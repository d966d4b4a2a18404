//! Attributes: compile-time values attached to ops, functions and modules.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use tensor::DType;

use crate::ir::dims::{
    ChannelHandle, ConvDims, DotAlgorithm, DotDims, GatherDims, InlineMesh, OutputOperandAlias, RaggedDotDims,
    ReplicaGroupMeshAxes, ResultAccuracy, ScatterDims,
};
use crate::ir::sdy::SdyAttr;
use crate::ir::{Dense, ElementType, Loc, Real, Type};

/// Attribute of an argument: the result that takes its memory.
pub const ALIAS: &str = "tf.aliasing_output";
/// Attribute of an argument: some result may take its memory.
pub const DONOR: &str = "jax.buffer_donor";

/// Bytes of a string attribute: usually text, but MLIR allows any bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ByteString(Arc<[u8]>);

impl ByteString {
    /// Wraps bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Self {
        ByteString(bytes.as_ref().into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if the bytes are UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Debug for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// An attribute value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attr {
    /// Presence is the value.
    Unit,
    /// `true` or `false`.
    Bool(bool),
    /// Integer with its type; the bit pattern for `ui64`.
    Int(i64, ElementType),
    /// Real number with its type.
    Float(Real, ElementType),
    /// String.
    Str(ByteString),
    /// `@name`.
    Symbol(Arc<str>),
    /// `[a, b]`.
    Array(Arc<[Attr]>),
    /// `{name = value}`.
    Dict(Arc<Attrs>),
    /// A type.
    Type(Type),
    /// `dense<…> : tensor<…>`.
    Dense(Arc<Dense>),
    /// `array<i64: …>`; floats as bit patterns.
    DenseArray(DType, Arc<[i64]>),
    /// One word of a StableHLO or CHLO enumeration.
    Keyword(Keyword),
    /// `#stablehlo.dot<…>`.
    Dot(Arc<DotDims>),
    /// `#chlo.ragged_dot<…>`.
    RaggedDot(Arc<RaggedDotDims>),
    /// `#stablehlo.gather<…>`.
    Gather(Arc<GatherDims>),
    /// `#stablehlo.scatter<…>`.
    Scatter(Arc<ScatterDims>),
    /// `#stablehlo.conv<…>`.
    Conv(Arc<ConvDims>),
    /// `#stablehlo.dot_algorithm<…>`.
    DotAlgorithm(Arc<DotAlgorithm>),
    /// `#stablehlo.channel_handle<…>`.
    Channel(ChannelHandle),
    /// `#stablehlo.output_operand_alias<…>`.
    OutputAlias(Arc<OutputOperandAlias>),
    /// `#stablehlo.result_accuracy<…>`.
    ResultAccuracy(Arc<ResultAccuracy>),
    /// `#stablehlo.bounds<…>`: upper bounds of dynamic dimensions ([`DYNAMIC`](crate::DYNAMIC) for none).
    Bounds(Arc<[i64]>),
    /// `#stablehlo.replica_group_mesh_axes<…>`.
    MeshAxes(Arc<ReplicaGroupMeshAxes>),
    /// `#stablehlo.mesh<…>`.
    Mesh(Arc<InlineMesh>),
    /// An attribute of the Shardy dialect.
    Sdy(Arc<SdyAttr>),
    /// A location used as an attribute.
    Loc(Loc),
    /// An attribute of a dialect we do not model, kept as its text (with the leading `#`).
    Opaque(Arc<str>),
}

impl Attr {
    /// A string attribute.
    pub fn string(text: impl AsRef<[u8]>) -> Attr {
        Attr::Str(ByteString::new(text))
    }

    /// `N : i64`.
    pub fn i64(value: i64) -> Attr {
        Attr::Int(value, ElementType::Plain(DType::I64))
    }

    /// `N : i32`.
    pub fn i32(value: i32) -> Attr {
        Attr::Int(i64::from(value), ElementType::Plain(DType::I32))
    }

    /// `array<i64: …>`.
    pub fn i64s(values: impl Into<Vec<i64>>) -> Attr {
        Attr::DenseArray(DType::I64, values.into().into())
    }

    /// The integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Attr::Int(value, _) => Some(*value),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Attr::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The text of a string, if it is a UTF-8 string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Attr::Str(text) => text.as_str(),
            _ => None,
        }
    }

    /// The integers of `array<i64: …>`.
    pub fn as_i64s(&self) -> Option<&[i64]> {
        match self {
            Attr::DenseArray(DType::I64, values) => Some(values),
            _ => None,
        }
    }

    /// The keyword, if it is one.
    pub fn as_keyword(&self) -> Option<Keyword> {
        match self {
            Attr::Keyword(keyword) => Some(*keyword),
            _ => None,
        }
    }
}

/// The name of an attribute: static when an op defines it, owned otherwise.
pub type AttrName = Cow<'static, str>;

/// Attributes by name, kept sorted so that equality and printing do not depend on the order of writing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attrs(Vec<(AttrName, Attr)>);

impl Attrs {
    /// No attributes.
    pub const fn new() -> Self {
        Attrs(Vec::new())
    }

    /// The attribute of that name.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.position(name).ok().map(|at| &self.0[at].1)
    }

    /// Sets or replaces an attribute; returns what stood there.
    pub fn set(&mut self, name: impl Into<AttrName>, value: Attr) -> Option<Attr> {
        let name = name.into();
        match self.position(&name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (name, value));
                None
            }
        }
    }

    /// Removes an attribute.
    pub fn remove(&mut self, name: &str) -> Option<Attr> {
        self.position(name).ok().map(|at| self.0.remove(at).1)
    }

    /// Names and values in name order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Attr)> {
        self.0.iter().map(|(name, attr)| (name.as_ref(), attr))
    }

    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(have, _)| have.as_ref().cmp(name))
    }
}

impl FromIterator<(AttrName, Attr)> for Attrs {
    fn from_iter<I: IntoIterator<Item = (AttrName, Attr)>>(iter: I) -> Self {
        let mut attrs = Attrs::new();
        for (name, value) in iter {
            attrs.set(name, value);
        }
        attrs
    }
}

macro_rules! keywords {
    ($($set:ident $mnemonic:literal { $($variant:ident $word:literal = $value:literal,)* })*) => {
        /// The enumerations of the specification that appear as attributes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum KeywordSet { $(#[doc = concat!("`", $mnemonic, "`.")] $set,)* }

        /// One word of one enumeration.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Keyword { $($(#[doc = concat!("`", $mnemonic, " ", $word, "`.")] $variant,)*)* }

        impl KeywordSet {
            /// Every enumeration.
            pub const ALL: &'static [KeywordSet] = &[$(KeywordSet::$set,)*];

            /// The name MLIR prints before the word, as in `#stablehlo<comparison_direction LT>`.
            pub const fn mnemonic(self) -> &'static str {
                match self { $(KeywordSet::$set => $mnemonic,)* }
            }

            /// The words of the enumeration.
            pub const fn words(self) -> &'static [Keyword] {
                match self { $(KeywordSet::$set => &[$(Keyword::$variant,)*],)* }
            }

            /// The keyword a word names.
            pub fn parse(self, word: &str) -> Option<Keyword> {
                self.words().iter().copied().find(|k| k.word() == word)
            }

            /// The keyword of an integer value, as bytecode stores it.
            pub fn from_value(self, value: u64) -> Option<Keyword> {
                self.words().iter().copied().find(|k| u64::from(k.value()) == value)
            }
        }

        impl Keyword {
            /// The spelling.
            pub const fn word(self) -> &'static str {
                match self { $($(Keyword::$variant => $word,)*)* }
            }

            /// The integer value that bytecode stores.
            pub const fn value(self) -> u32 {
                match self { $($(Keyword::$variant => $value,)*)* }
            }

            /// The enumeration it belongs to.
            pub const fn set(self) -> KeywordSet {
                match self { $($(Keyword::$variant => KeywordSet::$set,)*)* }
            }
        }
    };
}

keywords! {
    Precision "precision" { PrecisionDefault "DEFAULT" = 0, PrecisionHigh "HIGH" = 1, PrecisionHighest "HIGHEST" = 2, }
    ResultAccuracyMode "result_accuracy_mode" {
        AccuracyDefault "DEFAULT" = 0, AccuracyHighest "HIGHEST" = 1, AccuracyTolerance "TOLERANCE" = 2,
    }
    FftType "fft_type" { Fft "FFT" = 0, Ifft "IFFT" = 1, Rfft "RFFT" = 2, Irfft "IRFFT" = 3, }
    ComparisonDirection "comparison_direction" {
        Eq "EQ" = 0, Ne "NE" = 1, Ge "GE" = 2, Gt "GT" = 3, Le "LE" = 4, Lt "LT" = 5,
    }
    ComparisonType "comparison_type" {
        CompareNoType "NOTYPE" = 0, CompareFloat "FLOAT" = 1, CompareTotalOrder "TOTALORDER" = 2,
        CompareSigned "SIGNED" = 3, CompareUnsigned "UNSIGNED" = 4,
    }
    Transpose "transpose" {
        TransposeInvalid "TRANSPOSE_INVALID" = 0, NoTranspose "NO_TRANSPOSE" = 1, Transposed "TRANSPOSE" = 2,
        Adjoint "ADJOINT" = 3,
    }
    RngDistribution "rng_distribution" { Uniform "UNIFORM" = 1, Normal "NORMAL" = 2, }
    RngAlgorithm "rng_algorithm" { RngDefault "DEFAULT" = 0, ThreeFry "THREE_FRY" = 1, Philox "PHILOX" = 2, }
}
