//! Inputs of matmuls, recorded while a function is traced: what calibration looks at.

use std::cell::RefCell;

use trace::Tensor;

/// What a matmul with a recorded weight was given.
#[derive(Clone, Debug)]
pub struct RecordedInput {
    /// The name of the weight.
    pub name: String,
    /// `[..., in]`.
    pub input: Tensor,
}

thread_local! {
    /// Inputs of the functions that record, innermost last.
    static RECORDS: RefCell<Vec<Vec<RecordedInput>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f`, and gives the inputs of all matmuls with a [`Weight::Recorded`](crate::quant::Weight::Recorded) that it wrote, in
/// order. They are of the function that is being traced: matmuls inside loops cannot be recorded.
pub fn record_inputs<T>(f: impl FnOnce() -> T) -> (T, Vec<RecordedInput>) {
    RECORDS.with_borrow_mut(|records| records.push(Vec::new()));
    // Taken away even where `f` unwinds.
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            RECORDS.with_borrow_mut(|records| records.pop());
        }
    }
    let ended = Ended;
    let result = f();
    let recorded = RECORDS.with_borrow_mut(|records| records.last_mut().map(std::mem::take)).unwrap_or_default();
    drop(ended);
    (result, recorded)
}

pub(super) fn push(name: &str, input: &Tensor) {
    RECORDS.with_borrow_mut(|records| {
        if let Some(record) = records.last_mut() {
            record.push(RecordedInput { name: name.to_string(), input: input.clone() });
        }
    });
}
