//! Programs that are compiled before requests come: for every length of a prompt, every number of rows and every context.

use std::sync::atomic::AtomicBool;

use nn::models::LanguageModel;
use tensor::{DType, Spec};
use trace::Tensor;

use super::{DecodeInput, DecodeShape, ModelSteps, Prefill, PrefillShape, RowChoice, Steps, VerifyInput, no_draft};
use crate::choose::Choice;
use crate::draft::DraftRows;
use crate::error::Error;
use crate::images::GivenChunk;
use crate::request::SamplingOptions;
use crate::sizes::{CacheLayout, ChoiceShape};

impl<M: LanguageModel + 'static> ModelSteps<M> {
    /// Compiles what requests of any length need, whatever the number of rows that are decoded.
    pub(super) fn compile_all(&mut self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), Error> {
        let go_on = AtomicBool::new(false);
        let (drafts, sizes) = (self.num_drafts(), self.sizes);
        let (contexts, lengths, batches) = (sizes.all_contexts(drafts), sizes.prefills(), sizes.all_decode_rows());
        let choices: &[Choice] = match self.part.is_last() {
            true => &[Choice::Greedy, Choice::Drawn, Choice::Filtered],
            false => &[Choice::Greedy],
        };
        let shapes = choices.iter().map(|&choice| ChoiceShape { choice, ..ChoiceShape::GREEDY });
        let all = shapes.len() * contexts.len() * (lengths.len() + batches.len());
        let mut done = 0;
        let sampling = SamplingOptions::default();
        let row = || RowChoice { sampling: &sampling, prompt: &[], generated: &[], allowed: None };
        let rows = self.rows()?;
        for shape in shapes {
            for &context in &contexts {
                // A prefill has more than half as many tokens as it computes.
                for &length in lengths.iter().filter(|&&length| sizes.context(length / 2 + 1) <= context) {
                    let tokens = vec![0; length];
                    let prefill = |given| Prefill {
                        row: 0,
                        filled: 0,
                        tokens: &tokens,
                        given,
                        table: &[],
                        choice: row(),
                        hidden: None,
                    };
                    if let Some(width) = self.given_width.filter(|_| self.part.is_first()) {
                        let states = vec![0.0; length * width];
                        let given = GivenChunk { states, is_given: vec![false; length], width };
                        let input = self.empty_prefill_input(&prefill(Some(given)), shape, context)?;
                        let input = (rows.clone(), self.model.clone(), input);
                        let shape = PrefillShape { context, choice: shape, has_given: true };
                        self.prefill_program(shape).prepare(&input, &go_on)?;
                    }
                    let input = self.empty_prefill_input(&prefill(None), shape, context)?;
                    let input = (rows.clone(), self.model.clone(), input);
                    if let Some(drafter) = &mut self.drafter {
                        drafter.warm_up_prefill(input.2.for_draft()?, context)?;
                    }
                    let shape = PrefillShape { context, choice: shape, has_given: false };
                    self.prefill_program(shape).prepare(&input, &go_on)?;
                    done += 1;
                    progress(done, all);
                }
                for &count in &batches {
                    let input = self.empty_decode_input(count, context, shape)?;
                    let decode = DecodeShape { rows: count, context, choice: shape, drafts };
                    match &mut self.drafter {
                        None => {
                            let input = (rows.clone(), self.model.clone(), input);
                            self.decode_program(decode).prepare(&input, &go_on)?;
                        }
                        Some(drafter) => {
                            let DecodeInput { rows: places, is_active, choice, table, .. } = input.clone();
                            let choice = choice.ok_or_else(no_draft)?;
                            let (token, filled) = (rows.token.clone(), rows.filled.clone());
                            let of_draft = DraftRows { rows: places, token, filled, is_active, choice, table };
                            drafter.warm_up_draft(of_draft, count, context, shape, drafts)?;
                            let drafted = Tensor::of(Spec::new(DType::I32, [count, drafts]));
                            let input = VerifyInput { rows: input, drafts: drafted };
                            let input = (rows.clone(), self.model.clone(), input);
                            self.verify_program(decode).prepare(&input, &go_on)?;
                        }
                    }
                    done += 1;
                    progress(done, all);
                }
            }
        }
        if let CacheLayout::Pages { page_size, .. } = self.sizes.layout {
            let page = self.send(&[0i32], &[])?;
            if let Some(drafter) = &mut self.drafter {
                drafter.warm_up_copy(&page, &page, page_size)?;
            }
            self.copy_program(page_size).prepare(&(rows.clone(), page.clone(), page.clone()), &go_on)?;
            if !self.on_host.is_empty() {
                let values = self.page_to_host(rows.clone(), page.clone())?;
                let content = self.page_of(&rows.cache, &values)?;
                self.write_page_program().prepare(&(rows.clone(), page, content), &go_on)?;
            }
        }
        self.rows = Some(rows);
        progress(all, all);
        Ok(())
    }
}
