//! Writes a loss that was understood as composites, and puts their results in place of what read the logits.

use std::collections::HashMap;

use hlo::{Attr, Attrs, Func, Keyword, OpId, OpKind, Region, Value};
use tensor::{DType, Spec};

use super::super::layout::{Label, Labels};
use super::super::write::{Decompositions, Writer};
use super::LossForm;
use super::chunks::{Gradients, chunked};
use super::terms::{Along, Combination, Source, Term};
use super::walk::{LossSite, What};
use crate::call::{static_spec, tensor_type};
use crate::composites::{CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD};
use crate::error::Error;

/// Rows that kernels take at once.
const ROW_BLOCK: usize = 128;

/// Sizes of a loss, as kernels have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Of the logits, and in whole blocks.
    pub(super) rows: usize,
    pub(super) padded: usize,
    pub(super) depth: usize,
    pub(super) vocab: usize,
    pub(super) dtype: DType,
}

impl Sizes {
    /// Sizes; `None` where hidden states and weight differ in type.
    pub(super) fn of(func: &Func, site: &LossSite) -> Option<Sizes> {
        let spec = |value: Value| static_spec(func.ty(value));
        let (hidden, weight) = (spec(site.hidden.0)?, spec(site.weight.0)?);
        let size = |labels: &[Label]| {
            let leaves = site.labels.leaves(labels);
            leaves.iter().map(|&label| site.labels.size(label)).product::<usize>()
        };
        let rows = size(&site.rows);
        (hidden.dtype == weight.dtype).then_some(Sizes {
            rows,
            padded: rows.checked_next_multiple_of(ROW_BLOCK)?,
            depth: size(&site.depth),
            vocab: size(&site.vocabulary),
            dtype: hidden.dtype,
        })
    }

    /// What composites take: of the forward pass, or with what the backward pass takes beside.
    pub(super) fn operands(&self, has_gradients: bool) -> Vec<Spec> {
        let row = |dtype: DType| Spec::new(dtype, [1, self.padded]);
        let more = if has_gradients { 3 } else { 0 };
        let first = [
            Spec::new(self.dtype, [self.padded, self.depth]),
            Spec::new(self.dtype, [self.vocab, self.depth]),
            row(DType::I32),
        ];
        first.into_iter().chain((0..more).map(|_| row(DType::F32))).collect()
    }
}

/// A loss that was written.
pub(super) struct Written {
    /// What stands for which value now.
    pub(super) replaced: HashMap<Value, Value>,
    /// New ops, in no region yet.
    pub(super) new: Vec<OpId>,
}

struct LossWriter<'a, 'b> {
    writer: Writer<'a>,
    site: &'b LossSite,
    sizes: Sizes,
    /// Labels of the rows that the loss is of.
    rows: Vec<Label>,
    logsumexp: Value,
    losses: Value,
}

/// Writes a loss as kernels or chunks.
pub(super) fn write(
    func: &mut Func,
    region: Region,
    (site, sizes): (&LossSite, Sizes),
    form: LossForm,
    decompositions: &mut Decompositions,
) -> Result<Written, Error> {
    let wrong = || Error::Internal("axes of a loss do not agree".into());
    let labels = &site.labels;
    let (base, depth) = (labels.leaves(&site.rows), labels.leaves(&site.depth));
    let vocabulary = labels.leaves(&site.vocabulary);
    let mut writer = Writer::new(func, region);
    let by_row = [base.clone(), depth.clone()];
    let by_token = [vocabulary, depth];
    let hidden = writer.entering(labels, &site.hidden, &by_row).ok_or_else(wrong)?;
    let hidden = writer.padded(hidden, 0, (0, sizes.padded - sizes.rows), 0);
    let weight = writer.entering(labels, &site.weight, &by_token).ok_or_else(wrong)?;
    let mut this = LossWriter { writer, site, sizes, rows: site.loss_rows(), logsumexp: Value(0), losses: Value(0) };
    let picked = site.stands.iter().find_map(|stands| match &stands.what {
        What::Sum(sum) => sum.terms.iter().find_map(|term| match term.along {
            Along::LogitHot(label) => Some(label),
            _ => None,
        }),
        _ => None,
    });
    let tokens = this.tokens(picked.unwrap_or(0)).ok_or_else(wrong)?;
    let mut gradients: Vec<(Combination, Vec<Value>)> = Vec::new();
    let operands = vec![hidden, weight, tokens];
    let forward = match form {
        LossForm::Kernels => this.writer.composite(decompositions, CROSS_ENTROPY, operands, &Attrs::new())?,
        LossForm::Chunks => {
            let of = site.stands.iter().find_map(|stands| match &stands.what {
                What::OfHidden(of) | What::OfWeight(of) => Some(of),
                _ => None,
            });
            let results = this.in_chunks(of, operands, decompositions)?;
            gradients.extend(of.map(|of| (of.clone(), results.iter().skip(2).copied().collect())));
            results.into_iter().take(2).collect()
        }
    };
    let [losses, logsumexp] = forward[..] else { return Err(wrong()) };
    this.losses = this.of_loss(losses).ok_or_else(wrong)?;
    this.logsumexp = this.of_loss(logsumexp).ok_or_else(wrong)?;
    let mut replaced = HashMap::new();
    for stands in &site.stands {
        let like = static_spec(this.writer.func.ty(stands.value)).ok_or_else(wrong)?;
        let (value, order) = match &stands.what {
            What::Largest => (this.logsumexp, vec![this.rows.clone()]),
            What::Sum(sum) => (this.sum(&sum.terms).ok_or_else(wrong)?, vec![this.rows.clone()]),
            What::OfHidden(of) | What::OfWeight(of) => {
                let made = gradients.iter().position(|(other, _)| other == of);
                let at = match made {
                    Some(at) => at,
                    None => {
                        let inputs = [hidden, weight, logsumexp];
                        gradients.push((of.clone(), this.gradients(of, inputs, decompositions)?));
                        gradients.len() - 1
                    }
                };
                let [dx, dw] = gradients[at].1[..] else { return Err(wrong()) };
                match stands.what {
                    What::OfHidden(_) => (this.writer.cut(dx, 0, 0..sizes.rows), by_row.to_vec()),
                    _ => (dw, by_token.to_vec()),
                }
            }
        };
        let layout = &stands.layout;
        let value = this.writer.leaving(labels, value, &order, layout, &like).ok_or_else(wrong)?;
        replaced.insert(stands.value, value);
    }
    Ok(Written { replaced, new: this.writer.finish() })
}

impl LossWriter<'_, '_> {
    fn flat(&self) -> Spec {
        Spec::new(DType::F32, [size_of(&self.site.labels, &self.rows)])
    }

    /// Numbers of rows that the loss is of, as composites take them; rows that it leaves out get a number.
    fn of_all(&mut self, value: Value, instead: i32) -> Option<Value> {
        let labels = &self.site.labels;
        let mut value = value;
        if let Some(kept) = self.site.kept {
            let axis = self.rows.iter().position(|&label| label == kept.to)?;
            value = self.writer.reshaped(value, sizes_of(labels, &self.rows));
            let high = labels.size(kept.from).checked_sub(kept.limit)?;
            value = self.writer.padded(value, axis, (kept.start, high), instead);
        }
        value = self.writer.reshaped(value, vec![1, self.sizes.rows]);
        Some(self.writer.padded(value, 1, (0, self.sizes.padded - self.sizes.rows), instead))
    }

    /// What composites give, for the rows that the loss is of.
    fn of_loss(&mut self, value: Value) -> Option<Value> {
        let mut value = self.writer.cut(value, 1, 0..self.sizes.rows);
        if let Some(kept) = self.site.kept {
            let axis = self.rows.iter().position(|&label| label == kept.to)?;
            let all = self.site.labels.leaves(&self.site.rows);
            value = self.writer.reshaped(value, sizes_of(&self.site.labels, &all));
            value = self.writer.cut(value, axis, kept.start..kept.limit);
        }
        let count = size_of(&self.site.labels, &self.rows);
        Some(self.writer.reshaped(value, vec![count]))
    }

    /// An array with a number for some axes of the rows, as one list of all rows.
    fn spread(&mut self, source: &Source) -> Option<Value> {
        let labels = &self.site.labels;
        let have = labels.flat(&source.layout);
        let cut = self.writer.reshaped(source.value, sizes_of(labels, &have));
        let mut places: Vec<(usize, usize)> = Vec::with_capacity(have.len());
        for (n, label) in have.iter().enumerate() {
            places.push((self.rows.iter().position(|row| row == label)?, n));
        }
        places.sort_unstable();
        let order: Vec<usize> = places.iter().map(|&(_, n)| n).collect();
        let turned = self.writer.transposed(cut, &order);
        let to: Vec<i64> = places.iter().map(|&(to, _)| to as i64).collect();
        let spec = static_spec(self.writer.func.ty(turned))?;
        let wide = Spec::new(spec.dtype, sizes_of(labels, &self.rows));
        let all = if wide == spec {
            turned
        } else {
            let mut attrs = Attrs::new();
            attrs.set("broadcast_dimensions", Attr::i64s(to));
            self.writer.one(OpKind::BroadcastInDim, turned, attrs, &wide)
        };
        Some(self.writer.reshaped(all, vec![size_of(labels, &self.rows)]))
    }

    /// Labels of the rows that the loss is of; what is no token stays none.
    fn tokens_of_loss(&mut self, label: usize) -> Option<Value> {
        let source = self.site.tokens.get(label)?;
        let value = self.spread(source)?;
        let spec = static_spec(self.writer.func.ty(value))?;
        if spec.dtype == DType::I32 {
            return Some(value);
        }
        let scalar = Spec::new(spec.dtype, Vec::new());
        let number = |number: i64| number.to_le_bytes().get(..spec.dtype.size_bytes()).map(<[u8]>::to_vec);
        let low = if spec.dtype.is_signed_integer() { -1 } else { 0 };
        let last = i64::try_from(self.sizes.vocab).ok()?;
        let most = 8 * spec.dtype.size_bytes() as u32;
        if most <= 32 && !(most == 32 && spec.dtype.is_unsigned_integer()) {
            return Some(self.writer.converted(value, DType::I32));
        }
        let (low, high) = (self.writer.constant(&scalar, number(low)?), self.writer.constant(&scalar, number(last)?));
        let inside = self.writer.op(OpKind::Clamp, vec![low, value, high], Attrs::new(), vec![tensor_type(&spec)]);
        Some(self.writer.converted(*inside.first()?, DType::I32))
    }

    fn tokens(&mut self, label: usize) -> Option<Value> {
        let tokens = match self.site.tokens.is_empty() {
            false => self.tokens_of_loss(label)?,
            true => {
                let spec = Spec::new(DType::I32, self.flat().dims);
                self.writer.splat(&spec, &(-1i32).to_le_bytes())?
            }
        };
        self.of_all(tokens, -1)
    }

    fn number(&mut self, number: f64) -> Option<Value> {
        let flat = self.flat();
        self.writer.splat(&flat, &(number as f32).to_le_bytes())
    }

    fn two(&mut self, kind: OpKind, a: Value, b: Value) -> Option<Value> {
        let flat = tensor_type(&self.flat());
        self.writer.op(kind, vec![a, b], Attrs::new(), vec![flat]).first().copied()
    }

    /// 1 where a label is a token.
    fn is_token(&mut self, label: usize) -> Option<Value> {
        let tokens = self.tokens_of_loss(label)?;
        let ints = Spec::new(DType::I32, self.flat().dims);
        let truths = Spec::new(DType::Bool, self.flat().dims);
        let mut all = Vec::new();
        for (limit, direction) in [(0, Keyword::Ge), (i32::try_from(self.sizes.vocab).ok()?, Keyword::Lt)] {
            let limit = self.writer.splat(&ints, &limit.to_le_bytes())?;
            let mut attrs = Attrs::new();
            attrs.set("comparison_direction", Attr::Keyword(direction));
            all.extend(self.writer.op(OpKind::Compare, vec![tokens, limit], attrs, vec![tensor_type(&truths)]));
        }
        let both = self.writer.op(OpKind::And, all, Attrs::new(), vec![tensor_type(&truths)]);
        Some(self.writer.converted(*both.first()?, DType::F32))
    }

    /// The numbers of rows of terms, summed along the vocabulary.
    fn sum(&mut self, terms: &[Term]) -> Option<Value> {
        let mut sum: Option<Value> = None;
        for term in terms {
            let along = match term.along {
                Along::One => Some(self.number(self.sizes.vocab as f64)?),
                Along::Exponential(_) => None,
                Along::Hot(label) => Some(self.is_token(label)?),
                Along::LogitHot(_) => Some(self.two(OpKind::Subtract, self.logsumexp, self.losses)?),
                Along::Logit => return None,
            };
            let term = self.times(term, along)?;
            sum = Some(match sum {
                Some(so_far) => self.two(OpKind::Add, so_far, term)?,
                None => term,
            });
        }
        match sum {
            Some(sum) => Some(sum),
            None => self.number(0.0),
        }
    }

    /// The numbers of rows of a term, times another.
    fn times(&mut self, term: &Term, other: Option<Value>) -> Option<Value> {
        let mut product = other;
        for factor in &term.factors {
            let value = self.spread(&factor.source)?;
            let value = self.writer.converted(value, DType::F32);
            product = Some(match (product, factor.is_inverse) {
                (Some(so_far), false) => self.two(OpKind::Multiply, so_far, value)?,
                (Some(so_far), true) => self.two(OpKind::Divide, so_far, value)?,
                (None, false) => value,
                (None, true) => {
                    let one = self.number(1.0)?;
                    self.two(OpKind::Divide, one, value)?
                }
            });
        }
        match product {
            Some(product) if term.number == 1.0 => Some(product),
            Some(product) => {
                let number = self.number(term.number)?;
                self.two(OpKind::Multiply, product, number)
            }
            None => self.number(term.number),
        }
    }

    /// Gradients of hidden states and weight, of a gradient of logits.
    fn gradients(
        &mut self,
        of: &Combination,
        [hidden, weight, logsumexp]: [Value; 3],
        decompositions: &mut Decompositions,
    ) -> Result<Vec<Value>, Error> {
        let [tokens, share, taken] = self.of_gradient(of)?;
        let operands = vec![hidden, weight, tokens, logsumexp, share, taken];
        self.writer.composite(decompositions, CROSS_ENTROPY_BACKWARD, operands, &Attrs::new())
    }

    /// Labels, the factor of the probabilities and what is taken away at the label, of a gradient of logits.
    fn of_gradient(&mut self, of: &Combination) -> Result<[Value; 3], Error> {
        let wrong = || Error::Internal("a gradient of logits has other terms".into());
        let (shares, at_label): (Vec<Term>, Vec<Term>) =
            of.terms.iter().cloned().partition(|term| matches!(term.along, Along::Exponential(_)));
        let share = self.sum(&shares).ok_or_else(wrong)?;
        // Numbers at labels that are no tokens count nothing in the kernels either.
        let at_label: Vec<Term> = at_label
            .into_iter()
            .map(|term| Term { along: Along::Exponential(0), number: -term.number, ..term })
            .collect();
        let taken = self.sum(&at_label).ok_or_else(wrong)?;
        let tokens = self.tokens(of.labels().next().unwrap_or(0)).ok_or_else(wrong)?;
        let share = self.of_all(share, 0).ok_or_else(wrong)?;
        let taken = self.of_all(taken, 0).ok_or_else(wrong)?;
        Ok([tokens, share, taken])
    }

    /// Losses, logsumexp and, where there are any, both gradients, computed in chunks of rows.
    fn in_chunks(
        &mut self,
        of: Option<&Combination>,
        mut operands: Vec<Value>,
        decompositions: &mut Decompositions,
    ) -> Result<Vec<Value>, Error> {
        let mut gradients = Gradients::Neither;
        if let Some(of) = of {
            operands.extend(self.of_gradient(of)?);
            gradients = Gradients::Both;
        }
        let name = format!("chunked_cross_entropy.{}", decompositions.functions.len());
        let function = chunked(&self.sizes, self.site.logits, gradients, &name)?;
        let mut attrs = Attrs::new();
        attrs.set("callee", Attr::Symbol(function.name.clone()));
        let results = self.writer.op(OpKind::FuncCall, operands, attrs, function.outputs.clone());
        decompositions.functions.push(function);
        Ok(results)
    }
}

fn sizes_of(labels: &Labels, of: &[Label]) -> Vec<usize> {
    of.iter().map(|&label| labels.size(label)).collect()
}

fn size_of(labels: &Labels, of: &[Label]) -> usize {
    sizes_of(labels, of).iter().product()
}
