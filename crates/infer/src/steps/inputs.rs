//! What a step is told, on its way to the devices: states, rows, pages, and how tokens are chosen.

use nn::models::{GivenStates, LanguageModel};
use tensor::{Literal, Spec};
use trace::Tensor;

use super::{DecodeInput, DecodeRow, ModelSteps, NO_TOKEN, Prefill, PrefillInput, RowChoice, StepStates};
use crate::choose::{BiasRows, Choice, ChoiceRows, PenaltyRows};
use crate::error::Error;
use crate::request::SamplingOptions;
use crate::sizes::{CacheLayout, ChoiceShape};

impl<M: LanguageModel + 'static> ModelSteps<M> {
    /// How these rows choose.
    fn choice_rows(&self, rows: &[Option<RowChoice<'_>>], shape: ChoiceShape) -> Result<ChoiceRows, Error> {
        let count = [rows.len()];
        let f32s = |of: &dyn Fn(&SamplingOptions) -> f64, none: f64| {
            let all = rows.iter().map(|row| row.as_ref().map_or(none, |row| of(row.sampling)) as f32);
            self.send(&all.collect::<Vec<_>>(), &count)
        };
        let vocabulary = self.vocabulary;
        let top_k = rows.iter().map(|row| {
            let k = row.as_ref().and_then(|row| row.sampling.top_k).filter(|&k| k > 0);
            k.unwrap_or(vocabulary).min(vocabulary) as i32
        });
        let seeds = rows.iter().map(|row| row.as_ref().map_or(0, |row| row.sampling.seed));
        let penalties = (shape.history > 0).then(|| {
            let mut tokens = vec![NO_TOKEN; rows.len() * shape.history];
            for (row, place) in rows.iter().zip(tokens.chunks_mut(shape.history)) {
                let all = row.iter().flat_map(|row| row.prompt.iter().chain(row.generated));
                all.zip(place).for_each(|(&token, place)| *place = token as i32);
            }
            let prompts = rows.iter().map(|row| row.as_ref().map_or(0, |row| row.prompt.len() as i32));
            Ok::<_, Error>(PenaltyRows {
                repetition: f32s(&|sampling| sampling.repetition_penalty, 1.0)?,
                presence: f32s(&|sampling| sampling.presence_penalty, 0.0)?,
                frequency: f32s(&|sampling| sampling.frequency_penalty, 0.0)?,
                tokens: self.send(&tokens, &[rows.len(), shape.history])?,
                prompt: self.send(&prompts.collect::<Vec<_>>(), &count)?,
            })
        });
        let biases = (shape.biases > 0).then(|| {
            let mut tokens = vec![NO_TOKEN; rows.len() * shape.biases];
            let mut values = vec![0.0f32; tokens.len()];
            for (n, row) in rows.iter().enumerate() {
                let of_row = row.iter().flat_map(|row| &row.sampling.logit_bias).zip(n * shape.biases..);
                of_row.for_each(|((&token, &value), at)| (tokens[at], values[at]) = (token as i32, value));
            }
            let dims = [rows.len(), shape.biases];
            Ok::<_, Error>(BiasRows { tokens: self.send(&tokens, &dims)?, values: self.send(&values, &dims)? })
        });
        let allowed = shape.is_masked.then(|| {
            let words = vocabulary.div_ceil(u32::BITS as usize);
            let mut bits = vec![u32::MAX; rows.len() * words];
            for (row, place) in rows.iter().zip(bits.chunks_mut(words)) {
                if let Some(allowed) = row.as_ref().and_then(|row| row.allowed) {
                    place.iter_mut().zip(allowed).for_each(|(place, bits)| *place = *bits);
                }
            }
            self.send(&bits, &[rows.len(), words])
        });
        Ok(ChoiceRows {
            biases: biases.transpose()?,
            allowed: allowed.transpose()?,
            temperature: f32s(&|sampling| sampling.temperature, 0.0)?,
            top_k: self.send(&top_k.collect::<Vec<_>>(), &count)?,
            top_p: f32s(&|sampling| sampling.top_p, 1.0)?,
            min_p: f32s(&|sampling| sampling.min_p, 0.0)?,
            seed: self.send(&seeds.collect::<Vec<_>>(), &count)?,
            penalties: penalties.transpose()?,
        })
    }

    /// What a program has to do for these rows.
    pub(super) fn shape_of(&self, rows: &[Option<RowChoice<'_>>]) -> ChoiceShape {
        if !self.part.is_last() {
            return ChoiceShape::GREEDY;
        }
        let rows = || rows.iter().flatten();
        let choice = rows().map(|row| match row.sampling {
            sampling if sampling.temperature == 0.0 => Choice::Greedy,
            sampling if sampling.has_filters() => Choice::Filtered,
            _ => Choice::Drawn,
        });
        let with_penalties = rows().filter(|row| row.sampling.has_penalties());
        let history = with_penalties.map(|row| row.prompt.len() + row.generated.len()).max();
        let likeliest = rows().map(|row| row.sampling.log_probabilities).max().unwrap_or(0);
        let biases = rows().map(|row| row.sampling.logit_bias.len()).max().unwrap_or(0);
        ChoiceShape {
            choice: choice.max().unwrap_or(Choice::Greedy),
            history: history.map_or(0, |tokens| self.sizes.history(tokens)),
            likeliest: likeliest.next_power_of_two() * usize::from(likeliest > 0),
            biases: biases.next_power_of_two() * usize::from(biases > 0),
            is_masked: rows().any(|row| row.allowed.is_some()),
        }
    }

    /// Numbers of pages for a program that reads so many positions: those of each row, one after the other. Places without a page have
    /// any. `None` where there are no pages.
    fn table_numbers(&self, tables: &[&[u32]], context: usize) -> Option<(Vec<i32>, usize)> {
        let width = self.sizes.table(context)?;
        let mut numbers = vec![0; tables.len() * width];
        for (table, places) in tables.iter().zip(numbers.chunks_mut(width)) {
            table.iter().zip(places).for_each(|(&page, place)| *place = page as i32);
        }
        Some((numbers, width))
    }

    /// The pages of some rows on the device, `i32 [rows, pages]`.
    fn table(&self, tables: &[&[u32]], context: usize) -> Result<Option<Tensor>, Error> {
        let Some((numbers, width)) = self.table_numbers(tables, context) else { return Ok(None) };
        Ok(Some(self.send(&numbers, &[tables.len(), width])?))
    }

    /// [`Self::table`] of a decode step, which is sent only when it changes.
    pub(super) fn decode_table(&mut self, tables: &[&[u32]], context: usize) -> Result<Option<Tensor>, Error> {
        let Some((numbers, width)) = self.table_numbers(tables, context) else { return Ok(None) };
        let dims = [tables.len(), width];
        let table = match self.sent_table.take() {
            Some((before, table)) if before == numbers && table.dims() == dims => table,
            _ => self.send(&numbers, &dims)?,
        };
        self.sent_table = Some((numbers, table.clone()));
        Ok(Some(table))
    }

    pub(super) fn prefill_input(
        &self,
        prefill: &Prefill<'_>,
        shape: ChoiceShape,
        context: usize,
    ) -> Result<PrefillInput, Error> {
        let length = self.sizes.prefill(prefill.tokens.len());
        let states = match prefill.hidden {
            Some(states) => self.hidden_states(states, &[1, length, self.width])?,
            None => {
                let mut tokens: Vec<i32> = prefill.tokens.iter().map(|&token| token as i32).collect();
                tokens.resize(length, 0);
                StepStates::Tokens(self.send(&tokens, &[1, length])?)
            }
        };
        let scalar = |value: usize| self.send(&[value as i32], &[]);
        let given = prefill.given.as_ref().map(|given| {
            let (mut states, mut is_given) = (given.states.clone(), given.is_given.clone());
            states.resize(length * given.width, 0.0);
            is_given.resize(length, false);
            let states = self.send(&states, &[1, length, given.width])?;
            Ok::<_, Error>(GivenStates { states, is_given: self.send(&is_given, &[1, length])? })
        });
        Ok(PrefillInput {
            states,
            given: given.transpose()?,
            row: scalar(prefill.row)?,
            filled: scalar(prefill.filled)?,
            last: scalar(prefill.tokens.len().saturating_sub(1))?,
            choice: self.chosen_rows(&[Some(prefill.choice)], shape)?,
            table: self.table(&[prefill.table], context)?,
        })
    }

    /// Rows at their places.
    pub(super) fn decode_input(
        &self,
        rows: &[Option<DecodeRow<'_>>],
        shape: ChoiceShape,
    ) -> Result<DecodeInput, Error> {
        let count = [rows.len()];
        let is_active: Vec<bool> = rows.iter().map(Option::is_some).collect();
        let numbers = rows.iter().map(|row| row.map_or(self.sizes.rows, |row| row.row) as i32);
        let numbers = match self.sizes.layout {
            CacheLayout::Rows => None,
            CacheLayout::Pages { .. } => Some(self.send(&numbers.collect::<Vec<_>>(), &count)?),
        };
        let choices: Vec<_> = rows.iter().map(|row| row.map(|row| row.choice)).collect();
        let is_active = self.send(&is_active, &count)?;
        let choice = self.chosen_rows(&choices, shape)?;
        Ok(DecodeInput { rows: numbers, states: None, is_active, choice, table: None })
    }

    /// So many places without a row.
    pub(super) fn empty_decode_input(
        &self,
        count: usize,
        context: usize,
        shape: ChoiceShape,
    ) -> Result<DecodeInput, Error> {
        let table = self.table(&vec![&[][..]; count], context)?;
        let states = match (self.part.is_first(), self.part.is_last()) {
            (true, true) => None,
            (true, false) => Some(StepStates::Tokens(self.send(&vec![0i32; count], &[count, 1])?)),
            (false, _) => Some(StepStates::Hidden(self.no_states(&[count, 1, self.width]))),
        };
        Ok(DecodeInput { table, states, ..self.decode_input(&vec![None; count], shape)? })
    }

    /// What a decode step of a part of a model reads; `None` where the model is alone and has its last tokens on the device.
    pub(super) fn decode_states(
        &self,
        rows: &[Option<DecodeRow<'_>>],
        hidden: Option<&Literal>,
    ) -> Result<Option<StepStates>, Error> {
        if self.part.is_first() && self.part.is_last() {
            return Ok(None);
        }
        Ok(Some(match hidden {
            Some(states) => self.hidden_states(states, &[rows.len(), 1, self.width])?,
            None => {
                let tokens = rows.iter().map(|row| row.and_then(|row| row.token).unwrap_or(0) as i32);
                StepStates::Tokens(self.send(&tokens.collect::<Vec<_>>(), &[rows.len(), 1])?)
            }
        }))
    }

    /// What the part before made of a step, if it has these axes.
    fn hidden_states(&self, states: &Literal, dims: &[usize]) -> Result<StepStates, Error> {
        let dtype = self.model.options().precision.compute();
        if self.part.is_first() || states.dtype() != dtype || states.dims() != dims {
            return Err(Error::setting(
                format!("a stage was given {} {:?}, and expects {dtype} {dims:?}", states.dtype(), states.dims()),
                "run the same version of tpubridge on all hosts",
            ));
        }
        Ok(StepStates::Hidden(self.send_literal(states.clone())?))
    }

    /// States known by their shape, as the part before gives them.
    fn no_states(&self, dims: &[usize]) -> Tensor {
        Tensor::of(Spec::new(self.model.options().precision.compute(), dims.to_vec()))
    }

    /// The input of a prefill that is compiled beforehand.
    pub(super) fn empty_prefill_input(
        &self,
        prefill: &Prefill<'_>,
        shape: ChoiceShape,
        context: usize,
    ) -> Result<PrefillInput, Error> {
        let input = self.prefill_input(prefill, shape, context)?;
        let length = self.sizes.prefill(prefill.tokens.len());
        Ok(match self.part.is_first() {
            true => input,
            false => PrefillInput { states: StepStates::Hidden(self.no_states(&[1, length, self.width])), ..input },
        })
    }

    /// How these rows choose, where tokens are chosen here.
    fn chosen_rows(&self, rows: &[Option<RowChoice<'_>>], shape: ChoiceShape) -> Result<Option<ChoiceRows>, Error> {
        self.part.is_last().then(|| self.choice_rows(rows, shape)).transpose()
    }
}
