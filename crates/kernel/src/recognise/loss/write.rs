//! Writes a loss that was understood as composites, and puts their results in place of what read the logits.

use std::collections::HashMap;

use hlo::{Attr, Attrs, Func, Keyword, OpId, OpKind, Region, Value};
use tensor::{DType, Spec};

use super::super::devices::Split;
use super::super::layout::{Label, Labels, Layout};
use super::super::on_devices::{OnDevices, Pass, passes};
use super::super::write::{Decompositions, Writer};
use super::LossForm;
use super::chunks::{Gradients, chunked};
use super::terms::{Along, Combination, Source, Term};
use super::walk::{LossSite, Stands, What};
use crate::call::{static_spec, tensor_type};
use crate::composites::{CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD};
use crate::error::Error;

/// Rows that kernels take at once.
const ROW_BLOCK: usize = 128;

/// Sizes of a loss, as kernels have it: the whole one, or the part of one device.
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
    /// Sizes, where labels have these; `None` where hidden states and weight differ in type.
    pub(super) fn of(func: &Func, site: &LossSite, labels: &Labels) -> Option<Sizes> {
        let spec = |value: Value| static_spec(func.ty(value));
        let (hidden, weight) = (spec(site.hidden.0)?, spec(site.weight.0)?);
        let size = |of: &[Label]| size_of(labels, &labels.leaves(of));
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
    devices: OnDevices<'b>,
    sizes: Sizes,
    /// Words of the whole vocabulary.
    vocab: usize,
    /// Labels of the rows that the loss is of.
    rows: Vec<Label>,
    form: LossForm,
    /// Losses and logsumexp as composites give them, and the pass that computes them.
    forward: Option<(Pass, [Value; 2])>,
    gradients: Vec<(Combination, Pass, Vec<Value>)>,
}

fn wrong() -> Error {
    Error::Internal("axes of a loss do not agree".into())
}

/// Writes a loss as kernels or chunks.
pub(super) fn write(
    func: &mut Func,
    region: Region,
    (site, sizes): (&LossSite, Sizes),
    split: Option<&Split>,
    form: LossForm,
    decompositions: &mut Decompositions,
) -> Result<Written, Error> {
    let items: Vec<_> =
        site.stands.iter().map(|stands| (vec![stands.value], needs(site, form, &stands.what))).collect();
    let passes = passes(func, &items);
    let mut order: Vec<usize> = (0..site.stands.len()).collect();
    order.sort_by_key(|&n| passes[n]);
    let writer = Writer::new(func, region);
    let devices = OnDevices::new(&writer, split, &site.labels);
    let vocab = size_of(&site.labels, &site.labels.leaves(&site.vocabulary));
    let rows = site.loss_rows();
    let mut this = LossWriter { writer, site, devices, sizes, vocab, rows, form, forward: None, gradients: Vec::new() };
    for n in order {
        this.devices.turn_to(&mut this.writer, passes[n]);
        this.stand(&site.stands[n], decompositions)?;
    }
    let replaced = this.devices.end(&mut this.writer)?;
    Ok(Written { replaced, new: this.writer.finish() })
}

/// Arrays that a value is computed from.
fn needs(site: &LossSite, form: LossForm, what: &What) -> Vec<Value> {
    let of = |combination: &Combination| -> Vec<Value> {
        let factors = combination.terms.iter().flat_map(|term| &term.factors);
        factors.map(|factor| factor.source.value).collect()
    };
    let mut needs: Vec<Value> = site.tokens.iter().map(|source| source.value).collect();
    if let What::Sum(all) | What::OfHidden(all) | What::OfWeight(all) = what {
        needs.extend(of(all));
    }
    // A sum of exponentials is 1 however large logits are.
    if reads_logits(what) {
        needs.extend([site.hidden.0, site.weight.0]);
        if let (LossForm::Chunks, Some(gradient)) = (form, site.gradient()) {
            needs.extend(of(gradient));
        }
    }
    needs
}

/// Whether a value is made of what composites give.
fn reads_logits(what: &What) -> bool {
    match what {
        What::Sum(sum) => sum.terms.iter().any(|term| matches!(term.along, Along::LogitHot(_) | Along::Logit)),
        What::Largest | What::OfHidden(_) | What::OfWeight(_) => true,
    }
}

impl LossSite {
    /// The gradient of logits that hidden states or the weight have.
    fn gradient(&self) -> Option<&Combination> {
        self.stands.iter().find_map(|stands| match &stands.what {
            What::OfHidden(of) | What::OfWeight(of) => Some(of),
            _ => None,
        })
    }
}

impl LossWriter<'_, '_> {
    /// Puts something in place of a value.
    fn stand(&mut self, stands: &Stands, decompositions: &mut Decompositions) -> Result<(), Error> {
        let site = self.site;
        let (base, depth) = (site.labels.leaves(&site.rows), site.labels.leaves(&site.depth));
        let rows = vec![self.rows.clone()];
        let (value, order, summed) = match &stands.what {
            What::Largest => (self.logsumexp(decompositions)?, rows, Vec::new()),
            What::Sum(sum) => {
                if reads_logits(&stands.what) {
                    self.forward(decompositions)?;
                }
                (self.sum(&sum.terms).ok_or_else(wrong)?, rows, Vec::new())
            }
            What::OfHidden(of) => {
                let dx = self.gradient(of, 0, decompositions)?;
                let dx = self.writer.cut(dx, 0, 0..self.sizes.rows);
                (dx, vec![base, depth], self.devices.axes_of(&site.vocabulary))
            }
            What::OfWeight(of) => {
                let dw = self.gradient(of, 1, decompositions)?;
                (dw, vec![site.labels.leaves(&site.vocabulary), depth], self.devices.axes_of(&base))
            }
        };
        let labels = self.devices.labels();
        let dims: Vec<usize> = stands.layout.iter().map(|of| size_of(labels, &labels.leaves(of))).collect();
        let dtype = static_spec(self.writer.func.ty(stands.value)).ok_or_else(wrong)?.dtype;
        let like = Spec::new(dtype, dims);
        let value = self.writer.leaving(labels, value, &order, &stands.layout, &like).ok_or_else(wrong)?;
        self.devices.give(&mut self.writer, stands.value, (value, &stands.layout), &summed)
    }

    /// Hidden states and the weight, as composites take them.
    fn factors(&mut self) -> Result<[Value; 2], Error> {
        let site = self.site;
        let leaves = |of: &[Label]| site.labels.leaves(of);
        let mut entering = |source: &(Value, Layout), order: [Vec<Label>; 2]| {
            let own = self.devices.enter(&mut self.writer, source.0, &source.1)?;
            self.writer.entering(self.devices.labels(), &(own, source.1.clone()), &order).ok_or_else(wrong)
        };
        let hidden = entering(&site.hidden, [leaves(&site.rows), leaves(&site.depth)])?;
        let weight = entering(&site.weight, [leaves(&site.vocabulary), leaves(&site.depth)])?;
        Ok([self.writer.padded(hidden, 0, (0, self.sizes.padded - self.sizes.rows), 0), weight])
    }

    /// Losses and logsumexp as composites give them.
    fn forward(&mut self, decompositions: &mut Decompositions) -> Result<[Value; 2], Error> {
        if let Some((pass, values)) = self.forward {
            let [losses, logsumexp] = values.map(|value| self.devices.bring(&mut self.writer, (pass, value)));
            return Ok([losses?, logsumexp?]);
        }
        let site = self.site;
        let picked = site.stands.iter().find_map(|stands| match &stands.what {
            What::Sum(sum) => sum.terms.iter().find_map(|term| match term.along {
                Along::LogitHot(label) => Some(label),
                _ => None,
            }),
            _ => None,
        });
        let [hidden, weight] = self.factors()?;
        let operands = vec![hidden, weight, self.tokens(picked.unwrap_or(0))?];
        let pass = self.devices.pass();
        let results = match self.form {
            LossForm::Kernels => {
                let results = self.writer.composite(decompositions, CROSS_ENTROPY, operands, &Attrs::new())?;
                let [losses, logsumexp] = results[..] else { return Err(wrong()) };
                self.of_all_devices([losses, logsumexp])?
            }
            LossForm::Chunks => {
                let of = site.gradient();
                let results = self.in_chunks(of, operands, decompositions)?;
                let gradients = results.iter().skip(2).copied().collect();
                self.gradients.extend(of.map(|of| (of.clone(), pass, gradients)));
                let [losses, logsumexp, ..] = results[..] else { return Err(wrong()) };
                [losses, logsumexp]
            }
        };
        self.forward = Some((pass, results));
        Ok(results)
    }

    /// Losses and logsumexp over the whole vocabulary, of those over the parts that devices have.
    fn of_all_devices(&mut self, [losses, logsumexp]: [Value; 2]) -> Result<[Value; 2], Error> {
        let axes = self.devices.axes_of(&self.site.vocabulary);
        if axes.is_empty() {
            return Ok([losses, logsumexp]);
        }
        let row = tensor_type(&static_spec(self.writer.func.ty(losses)).ok_or_else(wrong)?);
        let op = |this: &mut Self, kind: OpKind, operands: Vec<Value>| {
            let results = this.writer.op(kind, operands, Attrs::new(), vec![row.clone()]);
            results.first().copied().ok_or_else(wrong)
        };
        let largest = self.devices.all_reduced(&mut self.writer, logsumexp, &axes, OpKind::Maximum)?;
        let less = op(self, OpKind::Subtract, vec![logsumexp, largest])?;
        let share = op(self, OpKind::Exponential, vec![less])?;
        let picked = op(self, OpKind::Subtract, vec![logsumexp, losses])?;
        let sum = self.devices.all_reduced(&mut self.writer, share, &axes, OpKind::Add)?;
        let picked = self.devices.all_reduced(&mut self.writer, picked, &axes, OpKind::Add)?;
        let more = op(self, OpKind::Log, vec![sum])?;
        let all = op(self, OpKind::Add, vec![largest, more])?;
        Ok([op(self, OpKind::Subtract, vec![all, picked])?, all])
    }

    /// Losses and logsumexp of the rows that the loss is of, which are written.
    fn known_forward(&mut self) -> Option<[Value; 2]> {
        let (pass, values) = self.forward?;
        let [losses, logsumexp] = values.map(|value| self.devices.bring(&mut self.writer, (pass, value)).ok());
        Some([self.of_loss(losses?)?, self.of_loss(logsumexp?)?])
    }

    fn logsumexp(&mut self, decompositions: &mut Decompositions) -> Result<Value, Error> {
        let [_, logsumexp] = self.forward(decompositions)?;
        self.of_loss(logsumexp).ok_or_else(wrong)
    }

    /// The gradient of hidden states or of the weight, of a gradient of logits.
    fn gradient(&mut self, of: &Combination, n: usize, decompositions: &mut Decompositions) -> Result<Value, Error> {
        let [_, logsumexp] = self.forward(decompositions)?;
        let made = self.gradients.iter().find(|(other, ..)| other == of).map(|(_, pass, all)| (*pass, all.clone()));
        let (pass, all) = match made {
            Some(made) => made,
            None => {
                let [hidden, weight] = self.factors()?;
                let [tokens, share, taken] = self.of_gradient(of)?;
                let operands = vec![hidden, weight, tokens, logsumexp, share, taken];
                let all = self.writer.composite(decompositions, CROSS_ENTROPY_BACKWARD, operands, &Attrs::new())?;
                self.gradients.push((of.clone(), self.devices.pass(), all.clone()));
                (self.devices.pass(), all)
            }
        };
        let value = all.get(n).copied().ok_or_else(wrong)?;
        self.devices.bring(&mut self.writer, (pass, value))
    }

    fn flat(&self) -> Spec {
        Spec::new(DType::F32, [size_of(self.devices.labels(), &self.rows)])
    }

    /// Numbers of rows that the loss is of, as composites take them; rows that it leaves out get a number.
    fn of_all(&mut self, value: Value, instead: i32) -> Option<Value> {
        let labels = self.devices.labels();
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
            value = self.writer.reshaped(value, sizes_of(self.devices.labels(), &all));
            value = self.writer.cut(value, axis, kept.start..kept.limit);
        }
        let count = size_of(self.devices.labels(), &self.rows);
        Some(self.writer.reshaped(value, vec![count]))
    }

    /// An array with a number for some axes of the rows, as one list of all rows.
    fn spread(&mut self, source: &Source) -> Option<Value> {
        let own = self.devices.enter(&mut self.writer, source.value, &source.layout).ok()?;
        let labels = self.devices.labels();
        let have = labels.flat(&source.layout);
        let cut = self.writer.reshaped(own, sizes_of(labels, &have));
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
        let last = i64::try_from(self.vocab).ok()?;
        let most = 8 * spec.dtype.size_bytes() as u32;
        if most <= 32 && !(most == 32 && spec.dtype.is_unsigned_integer()) {
            return Some(self.writer.converted(value, DType::I32));
        }
        let (low, high) = (self.writer.constant(&scalar, number(low)?), self.writer.constant(&scalar, number(last)?));
        let inside = self.writer.op(OpKind::Clamp, vec![low, value, high], Attrs::new(), vec![tensor_type(&spec)]);
        Some(self.writer.converted(*inside.first()?, DType::I32))
    }

    /// Labels as composites take them: those of the part of the vocabulary that this device has.
    fn tokens(&mut self, label: usize) -> Result<Value, Error> {
        let spec = Spec::new(DType::I32, self.flat().dims);
        let none = self.writer.splat(&spec, &(-1i32).to_le_bytes()).ok_or_else(wrong)?;
        let mut tokens = match self.site.tokens.is_empty() {
            false => self.tokens_of_loss(label).ok_or_else(wrong)?,
            true => none,
        };
        let vocabulary = self.site.labels.leaves(&self.site.vocabulary);
        if let ([vocabulary], false) = (&vocabulary[..], self.devices.axes_of(&vocabulary).is_empty()) {
            let first = self.devices.first_of(&mut self.writer, *vocabulary)?;
            let firsts = self.writer.broadcast(first, &[], spec.dims.clone());
            let own = self.writer.op(OpKind::Subtract, vec![tokens, firsts], Attrs::new(), vec![tensor_type(&spec)]);
            let own = *own.first().ok_or_else(wrong)?;
            let is_own = self.is_below(own, self.sizes.vocab).ok_or_else(wrong)?;
            let chosen = vec![is_own, own, none];
            let results = self.writer.op(OpKind::Select, chosen, Attrs::new(), vec![tensor_type(&spec)]);
            tokens = *results.first().ok_or_else(wrong)?;
        }
        self.of_all(tokens, -1).ok_or_else(wrong)
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
        let is_token = self.is_below(tokens, self.vocab)?;
        Some(self.writer.converted(is_token, DType::F32))
    }

    /// Whether numbers are at least 0 and below another.
    fn is_below(&mut self, tokens: Value, limit: usize) -> Option<Value> {
        let ints = Spec::new(DType::I32, self.flat().dims);
        let truths = Spec::new(DType::Bool, self.flat().dims);
        let mut all = Vec::new();
        for (limit, direction) in [(0, Keyword::Ge), (i32::try_from(limit).ok()?, Keyword::Lt)] {
            let limit = self.writer.splat(&ints, &limit.to_le_bytes())?;
            let mut attrs = Attrs::new();
            attrs.set("comparison_direction", Attr::Keyword(direction));
            all.extend(self.writer.op(OpKind::Compare, vec![tokens, limit], attrs, vec![tensor_type(&truths)]));
        }
        let both = self.writer.op(OpKind::And, all, Attrs::new(), vec![tensor_type(&truths)]);
        both.first().copied()
    }

    /// The numbers of rows of terms, summed along the vocabulary.
    fn sum(&mut self, terms: &[Term]) -> Option<Value> {
        let mut sum: Option<Value> = None;
        for term in terms {
            let along = match term.along {
                Along::One => Some(self.number(self.vocab as f64)?),
                Along::Exponential(_) => None,
                Along::Hot(label) => Some(self.is_token(label)?),
                Along::LogitHot(_) => {
                    let [losses, logsumexp] = self.known_forward()?;
                    Some(self.two(OpKind::Subtract, logsumexp, losses)?)
                }
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

    /// Labels, the factor of the probabilities and what is taken away at the label, of a gradient of logits.
    fn of_gradient(&mut self, of: &Combination) -> Result<[Value; 3], Error> {
        let (shares, at_label): (Vec<Term>, Vec<Term>) =
            of.terms.iter().cloned().partition(|term| matches!(term.along, Along::Exponential(_)));
        let share = self.sum(&shares).ok_or_else(wrong)?;
        // Numbers at labels that are no tokens count nothing in the kernels either.
        let at_label: Vec<Term> = at_label
            .into_iter()
            .map(|term| Term { along: Along::Exponential(0), number: -term.number, ..term })
            .collect();
        let taken = self.sum(&at_label).ok_or_else(wrong)?;
        let tokens = self.tokens(of.labels().next().unwrap_or(0))?;
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
        let axes = self.devices.axes_of(&self.site.vocabulary);
        let mut sums = || self.devices.collective(&axes);
        let among = sums().zip(sums()).zip(sums()).map(|((largest, sum), picked)| [largest, sum, picked]);
        let function = chunked(&self.sizes, self.site.logits, (gradients, among.as_ref()), &name)?;
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
