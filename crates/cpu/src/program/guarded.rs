//! A run of a program in fenced memory, which finds what a kernel touches beyond what it declares. For tests.
#![allow(unsafe_code)]

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use tensor::Literal;

use super::{Kernel, Place, Program, Run, Selector, Slot, Step, Work};
use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::interpret::InterpreterOptions;
use crate::kernels::Cores;
use crate::kernels::machine::FlushDenormals;
use crate::memory::{ALIGN, Array, device_bytes, host_bytes};

/// What lies around an array.
const CANARY: u8 = 0xc5;
/// What an output holds before a kernel runs, the first and the second time.
const BEFORE: [u8; 2] = [0xa5, 0x5a];
const PAGE: usize = 4096;
static CANARIES: [u8; PAGE] = [CANARY; PAGE];

/// Memory between two pages that nobody may touch. The array ends as near to the second one as its alignment allows.
struct Fenced {
    /// The first page, and all bytes with both.
    map: NonNull<u8>,
    mapped: usize,
    /// Where the array begins, from the first page.
    start: usize,
    bytes: usize,
}

impl Fenced {
    fn new(bytes: usize, align: usize) -> Result<Fenced, Error> {
        let exhausted = || Error::Exhausted(format!("no fenced memory for {bytes} bytes"));
        let room = bytes.checked_add(ALIGN).and_then(|n| n.checked_next_multiple_of(PAGE)).ok_or_else(exhausted)?;
        let mapped = room.checked_add(2 * PAGE).ok_or_else(exhausted)?;
        // SAFETY: a new mapping at an address that the system chooses.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if map == libc::MAP_FAILED {
            return Err(exhausted());
        }
        let map = NonNull::new(map.cast::<u8>()).ok_or_else(exhausted)?;
        let start = (PAGE + room - bytes) / align * align;
        let fenced = Fenced { map, mapped, start, bytes };
        // SAFETY: the pages between the first and the last of the mapping.
        if unsafe { libc::mprotect(fenced.at(PAGE).cast(), room, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err(exhausted());
        }
        fenced.inside().fill(CANARY);
        Ok(fenced)
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.map.as_ptr().wrapping_add(offset)
    }

    fn pointer(&self) -> *mut u8 {
        self.at(self.start)
    }

    /// All that may be touched, with what is around the array.
    #[allow(clippy::mut_from_ref)]
    fn inside(&self) -> &mut [u8] {
        // SAFETY: mapped for reading and writing; only this thread uses it while no kernel runs, one borrow at a time.
        unsafe { std::slice::from_raw_parts_mut(self.at(PAGE), self.mapped - 2 * PAGE) }
    }

    #[allow(clippy::mut_from_ref)]
    fn array(&self) -> &mut [u8] {
        let start = self.start - PAGE;
        &mut self.inside()[start..start + self.bytes]
    }

    fn is_intact(&self) -> bool {
        let (inside, start) = (self.inside(), self.start - PAGE);
        // By the page, not by the byte: this is what a guarded run spends its time on.
        let is_canary = |bytes: &[u8]| bytes.chunks(PAGE).all(|part| *part == CANARIES[..part.len()]);
        is_canary(&inside[..start]) && is_canary(&inside[start + self.bytes..])
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nothing points there any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.mapped) };
    }
}

fn used(steps: &[Step], into: &mut BTreeSet<Slot>) {
    for step in steps {
        into.extend(step.inputs.iter().chain(&step.outputs));
        match &step.work {
            Work::Kernel(_) => {}
            Work::While(body) => {
                into.insert(body.answer);
                into.extend(body.rotate.iter().flat_map(|&(slot, next, _)| [slot, next]));
                used(&body.condition, into);
                used(&body.body, into);
            }
            Work::Case(case) => {
                into.insert(case.index);
                case.branches.iter().for_each(|branch| used(branch, into));
            }
        }
    }
}

impl Program {
    /// Runs with every slot in fenced memory, and every kernel twice; the results.
    pub(crate) fn run_guarded(
        &self,
        arguments: &[Array],
        cores: &Cores,
        options: &InterpreterOptions,
    ) -> Result<Vec<Literal>, Error> {
        if arguments.iter().map(|array| array.storage().size()).ne(self.argument_bytes.iter().copied()) {
            return Err(Error::Arguments("the arguments have other sizes than the program's".into()));
        }
        let mut slots = BTreeSet::new();
        used(&self.steps, &mut slots);
        let mut fences: HashMap<Slot, Fenced> = HashMap::new();
        for &slot in &slots {
            let bytes = self.slot_bytes[slot.index()];
            let (align, from) = match self.slots[slot.index()] {
                // As near to the fence as a caller's array may lie.
                Place::Argument(n) => {
                    (arguments[n].dtype().size_bytes().next_power_of_two(), Some(arguments[n].storage().bytes()))
                }
                // In memory of its own here, so that its own end is guarded.
                Place::Part(n) => (arguments[n].dtype().size_bytes().next_power_of_two(), None),
                Place::OwnedArgument(n) => (ALIGN, Some(arguments[n].storage().bytes())),
                Place::Constant(n) => (ALIGN, Some(self.constants[n].bytes())),
                Place::Arena(_) | Place::Result(_) => (ALIGN, None),
            };
            let fence = Fenced::new(bytes, align)?;
            match from {
                Some(from) => fence.array().copy_from_slice(from),
                None => fence.array().fill(BEFORE[0]),
            }
            fences.insert(slot, fence);
        }
        let place = |n: usize| fences.get(&Slot(n as u32)).map_or(std::ptr::null_mut(), Fenced::pointer);
        let table = (0..self.slots.len()).map(place).collect();
        let run = Run { cores, options, process: None, module: &self.module, table, steps: 0, recorder: None };
        let by_address = fences.values().map(|fence| (fence.pointer() as usize, fence)).collect();
        let mut guard = Guard { run, fences: by_address };
        {
            let _flush = FlushDenormals::new();
            catch_unwind(AssertUnwindSafe(|| guard.block(&self.steps))).unwrap_or_else(|p| Err(Error::raised(p)))?;
        }
        for &slot in &slots {
            let before = match self.slots[slot.index()] {
                Place::Argument(n) => arguments[n].storage().bytes(),
                Place::Constant(n) => self.constants[n].bytes(),
                _ => continue,
            };
            if fences[&slot].array() != before {
                return Err(Error::Internal(format!("{:?} was overwritten", self.slots[slot.index()])));
            }
        }
        let result = |(n, port): (usize, &super::ResultPort)| {
            let wanted = port.argument.map_or(Place::Result(n), Place::OwnedArgument);
            let slot = slots.iter().find(|slot| self.slots[slot.index()] == wanted);
            let bytes = slot.map_or_else(Vec::new, |slot| guard.fence(*slot).array().to_vec());
            let count = port.dims.iter().product();
            Some(bytes)
                .filter(|bytes| device_bytes(port.dtype, &port.dims) == Some(bytes.len()))
                .and_then(|bytes| {
                    Literal::new(port.dtype, port.dims.as_slice(), host_bytes(port.dtype, count, &bytes).into_owned())
                })
                .ok_or_else(|| Error::Internal(format!("result {n} has no memory")))
        };
        self.results.iter().enumerate().map(result).collect()
    }
}

struct Guard<'r> {
    run: Run<'r>,
    fences: HashMap<usize, &'r Fenced>,
}

impl<'r> Guard<'r> {
    /// The memory a slot has now: loops exchange it.
    fn fence(&self, slot: Slot) -> &'r Fenced {
        self.fences[&(self.run.table[slot.index()] as usize)]
    }

    fn block(&mut self, steps: &[Step]) -> Result<(), Error> {
        for step in steps {
            self.run.poll()?;
            match &step.work {
                Work::Kernel(kernel) => self.kernel(step, &**kernel)?,
                Work::While(body) => {
                    let mut is_swapped = false;
                    loop {
                        self.block(&body.condition)?;
                        if self.fence(body.answer).array()[0] == 0 {
                            break;
                        }
                        self.block(&body.body)?;
                        self.run.poll()?;
                        for (slot, next, _) in &body.rotate {
                            self.run.table.swap(slot.index(), next.index());
                        }
                        is_swapped = !is_swapped;
                    }
                    if is_swapped {
                        for (slot, next, bytes) in &body.rotate {
                            self.run.table.swap(slot.index(), next.index());
                            let from = self.fence(*next).array()[..*bytes].to_vec();
                            self.fence(*slot).array()[..*bytes].copy_from_slice(&from);
                        }
                    }
                }
                Work::Case(case) => {
                    let at = self.fence(case.index).array();
                    let last = case.branches.len() - 1;
                    let taken = match case.selector {
                        Selector::Boolean => usize::from(at[0] == 0),
                        Selector::Index => {
                            let index = i32::from_ne_bytes([at[0], at[1], at[2], at[3]]);
                            usize::try_from(index).unwrap_or(last).min(last)
                        }
                    };
                    self.block(&case.branches[taken])?;
                }
            }
        }
        Ok(())
    }

    fn kernel(&mut self, step: &Step, kernel: &dyn Kernel) -> Result<(), Error> {
        let name = kernel.name();
        let fail = |what: String| Error::Internal(format!("{name}: {what}"));
        let footprint = kernel.footprint().ok_or_else(|| fail("has no footprint".into()))?;
        let inputs: Vec<&Fenced> = step.inputs.iter().map(|slot| self.fence(*slot)).collect();
        let outputs: Vec<&Fenced> = step.outputs.iter().map(|slot| self.fence(*slot)).collect();
        let Footprint { reads, writes } = &footprint;
        let is_same = |a: &Fenced, b: &Fenced| std::ptr::eq(a, b);
        // What the outputs hold before is seen only where they are inputs too, or combined with.
        let is_fresh = |n: usize| {
            !matches!(writes[n], Written::Within(_)) && !inputs.iter().any(|input| is_same(input, outputs[n]))
        };
        let before: Vec<Vec<u8>> = outputs.iter().map(|output| output.array().to_vec()).collect();
        // Kernels that draw, or wait for others, run once.
        let times = if kernel.is_deep() { 1 } else { 2 };
        let mut first: Vec<Vec<u8>> = Vec::new();
        for (round, &fill) in BEFORE.iter().enumerate().take(times) {
            for (n, output) in outputs.iter().enumerate() {
                if is_fresh(n) {
                    output.array().fill(fill);
                } else {
                    output.array().copy_from_slice(&before[n]);
                }
            }
            // The second time, what is not said to be read is something else.
            let mut poisoned: Vec<(&Fenced, usize)> = Vec::new();
            for input in inputs.iter().filter(|_| round == 1) {
                let same = inputs.iter().zip(reads).filter(|(other, _)| is_same(other, input));
                let read = same.map(|(_, &bytes)| bytes).max().unwrap_or(0);
                let is_output = outputs.iter().any(|output| is_same(output, input));
                if !is_output && !poisoned.iter().any(|(other, _)| is_same(other, input)) {
                    poisoned.push((input, read));
                }
            }
            let flip = || {
                poisoned
                    .iter()
                    .for_each(|(fence, from)| fence.array()[*from..].iter_mut().for_each(|byte| *byte ^= 0xff))
            };
            flip();
            let read: Vec<*const u8> = inputs.iter().map(|input| input.pointer().cast_const()).collect();
            let written: Vec<*mut u8> = outputs.iter().map(|output| output.pointer()).collect();
            // SAFETY: the program was checked; each slot is memory of its own.
            unsafe { kernel.run(&read, &written, &mut self.run)? };
            flip();
            if let Some(n) = inputs.iter().chain(&outputs).position(|fence| !fence.is_intact()) {
                return Err(fail(format!("wrote beside array {n} of its inputs and outputs")));
            }
            for (n, output) in outputs.iter().enumerate() {
                match (round, writes[n]) {
                    (0, _) => first.push(output.array().to_vec()),
                    (_, Written::Packed(_)) => {}
                    _ if *output.array() == *first[n] => {}
                    _ => {
                        let differ = |at: &usize| output.array()[*at] != first[n][*at];
                        if let Some(at) = (0..output.bytes).find(differ) {
                            return Err(fail(format!("byte {at} of output {n} is not its own work")));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
