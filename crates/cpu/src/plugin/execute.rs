//! Launches: checking arguments, donating, running in the background, filling the outputs.
#![allow(unsafe_code)]

use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pjrt_sys::*;
use tensor::DType;

use crate::engine::PortType;
use crate::interpret::InterpreterOptions;
use crate::lower::Donation;
use crate::memory::Array;
use crate::recorder::{Site, Working};

use super::buffer::{Buffer, Shape, Slot, reserve};
use super::call::{Failure, entries, list, object};
use super::client::{Client, Device, Waiting};
use super::event::Event;
use super::executable::{Fixed, Loaded, OutputType, Program, number};
use super::ledger::Reservation;
use super::processes::Group;

/// A program whose last run was shorter than this runs on the thread that launches it where the device has nothing else to
/// do: handing it to another thread and waking that would take a good part of the time.
const SHORT_NANOS: u64 = 400_000;

/// A result that will be filled.
struct Output {
    memory: usize,
    slot: Arc<Slot>,
    /// `None` while the size is not known.
    reservation: Option<Reservation>,
}

/// Everything a launch needs when its turn comes.
struct Launch {
    client: Arc<Client>,
    program: Arc<Program>,
    /// `[device][argument]`.
    arguments: Vec<Vec<Arc<Slot>>>,
    /// Those of the first device, then of the next.
    outputs: Vec<Output>,
    done: Event,
    /// Where devices of other processes run it too.
    group: Option<Group>,
    /// Where the device's thread runs it.
    waiting: Option<Waiting>,
    /// By `[replica][partition]`.
    sites: Vec<Site>,
}

impl Launch {
    fn run(mut self) {
        let arguments = std::mem::take(&mut self.arguments);
        let (program, group) = (self.program.clone(), self.group.take());
        let sites = std::mem::take(&mut self.sites);
        let ran = catch_unwind(AssertUnwindSafe(move || compute(&program, group.as_ref(), arguments, &sites)));
        let outcome = ran.unwrap_or_else(|payload| Err(Failure::from_panic(&*payload)));
        // Before anyone is told, so that whoever was told finds the device idle.
        drop(self.waiting.take());
        let client = &self.client;
        let finished = match outcome {
            Ok(results) => {
                let mut finished = Ok(());
                for (output, array) in self.outputs.into_iter().zip(results.into_iter().flatten()) {
                    let reservation = match output.reservation {
                        Some(reservation) => Ok(reservation),
                        None => reserve(client, output.memory, array.dtype(), array.dims()),
                    };
                    if let Err(failure) = &reservation {
                        finished = Err(failure.clone());
                    }
                    output.slot.resolve(reservation.map(|reservation| (array, reservation)));
                }
                finished
            }
            Err(failure) => {
                for output in self.outputs {
                    output.slot.resolve(Err(failure.clone()));
                }
                Err(failure)
            }
        };
        self.done.set(finished);
    }
}

/// Waits for the arguments and runs the program. Donated arguments are freed before the results are handed out.
fn compute(
    program: &Program,
    group: Option<&Group>,
    arguments: Vec<Vec<Arc<Slot>>>,
    sites: &[Site],
) -> Result<Vec<Vec<Array>>, Failure> {
    let array = |slot: &Arc<Slot>| slot.wait().map(|data| data.array.clone());
    let lists = arguments.iter().map(|list| list.iter().map(array).collect()).collect::<Result<Vec<_>, Failure>>();
    drop(arguments);
    let run = |lists| {
        let started = Instant::now();
        let results = program.compiled.run_at(lists, &InterpreterOptions::default(), sites)?;
        program.last_run.store(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(results)
    };
    match group {
        None => run(lists?),
        Some(group) => group.run(&program.fingerprint, &program.compiled, lists, run),
    }
}

/// Whether a launch is over sooner on the calling thread: nothing to wait for, and little to do.
fn is_short(program: &Program, device: &Device, arguments: &[Vec<Arc<Slot>>]) -> bool {
    program.last_run.load(Ordering::Relaxed) < SHORT_NANOS
        && program.compiled.is_flat()
        && device.is_idle()
        && arguments.iter().flatten().all(|slot| slot.event.is_done())
}

/// Which arguments the caller does not give away in this launch.
///
/// # Safety
/// `options` is null or points to options that begin with their size.
unsafe fn kept<'a>(options: *const PJRT_ExecuteOptions) -> &'a [i64] {
    // SAFETY: by the contract above; an older caller's options may end before the list.
    unsafe {
        let end = offset_of!(PJRT_ExecuteOptions, num_non_donatable_input_indices) + size_of::<usize>();
        if options.is_null() || options.cast::<usize>().read() < end {
            return &[];
        }
        list((*options).non_donatable_input_indices, (*options).num_non_donatable_input_indices)
    }
}

/// Whether a buffer has no data but its order: a token, or the array of no booleans that JAX passes for one.
fn is_token(buffer: &Buffer) -> bool {
    buffer.number == PJRT_Buffer_Type_TOKEN || buffer.number == PJRT_Buffer_Type_PRED && buffer.has_dims(&[Some(0)])
}

fn check_argument(buffer: &Buffer, port: &PortType, n: usize, device: usize) -> Result<(), Failure> {
    let fits = match port {
        // The result of a program that returns a token may go where an array of no booleans is asked for.
        PortType::Array(DType::Bool, dims) if dims[..] == [Some(0)] => is_token(buffer),
        PortType::Array(_, dims) => number(port) == buffer.number && buffer.has_dims(dims),
        PortType::Token => is_token(buffer),
    };
    if !fits {
        return Err(Failure::invalid(format!(
            "argument {n} is a buffer of element type {} and sizes {:?}, but the program takes {port:?}",
            buffer.number,
            buffer.dims()
        )));
    }
    if buffer.device() != device {
        return Err(Failure::invalid(format!(
            "argument {n} is on device {}, but the program runs on device {device}",
            buffer.device()
        )));
    }
    Ok(())
}

/// Adds the outputs of one device, with memory for them. `given_bytes` come back when the launch begins.
fn add_outputs(
    client: &Arc<Client>,
    device: usize,
    types: &[OutputType],
    given_bytes: u64,
    outputs: &mut Vec<Output>,
) -> Result<(), Failure> {
    let device = &client.devices[device];
    for output in types {
        let reserve = |fixed: &Fixed| device.ledger.reserve(fixed.bytes, given_bytes, fixed.label.clone());
        let reservation = output.fixed.as_ref().map(reserve).transpose()?;
        outputs.push(Output { memory: device.default_memory(), slot: Slot::pending(), reservation });
    }
    Ok(())
}

/// The buffer a caller gets for an output. Sizes that only the run tells are waited for.
fn output_buffer(client: &Arc<Client>, memory: usize, output: &OutputType, slot: Arc<Slot>) -> Result<Buffer, Failure> {
    let shape = match &output.fixed {
        Some(fixed) => fixed.shape.clone(),
        None => Shape::new(slot.wait()?.array.dims()),
    };
    Ok(Buffer::with_shape(client.clone(), memory, output.number, shape, slot))
}

/// The devices of a launch: those of the program, or the one the caller names.
///
/// # Safety
/// `device` is null or a device of this plugin.
unsafe fn devices(loaded: &Loaded, device: *const PJRT_Device, num_devices: usize) -> Result<Vec<usize>, Failure> {
    let ids = if device.is_null() {
        loaded.local.iter().map(|&n| loaded.device_ids[n]).collect()
    } else if loaded.device_ids.len() > 1 {
        return Err(Failure::unimplemented("launching a program of several devices on one of them"));
    } else {
        // SAFETY: by the contract above.
        vec![unsafe { object(device) }?.index]
    };
    if ids.len() != num_devices {
        return Err(Failure::invalid(format!(
            "argument lists for {num_devices} devices, but the program runs on {} of this process",
            ids.len()
        )));
    }
    Ok(ids)
}

/// Where each device of a launch is, for whoever records it.
fn sites(loaded: &Loaded, ids: &[usize], launch: u32) -> Vec<Site> {
    let place = |id: &usize| Site { device: ids.contains(id).then_some(*id as u32), launch };
    let all = if loaded.device_ids.len() > 1 { &loaded.device_ids[..] } else { ids };
    all.iter().map(place).collect()
}

entries! {
    fn PJRT_LoadedExecutable_Execute(args: PJRT_LoadedExecutable_Execute_Args) {
        let loaded = object(args.executable)?;
        loaded.check_live()?;
        let (_working, number) = Working::execute();
        let compiled = &loaded.program.compiled;
        let client = &loaded.client;
        let ids = devices(loaded, args.execute_device, args.num_devices)?;
        if args.num_args != compiled.arguments().len() {
            return Err(Failure::invalid(format!("{} arguments, but the program takes {}", args.num_args, compiled.arguments().len())));
        }
        let kept = kept(args.options);
        let lists = list(args.argument_lists, if args.num_args == 0 { 0 } else { ids.len() });
        let mut slots: Vec<Vec<Arc<Slot>>> = Vec::with_capacity(ids.len());
        let mut given: Vec<&Buffer> = Vec::new();
        let types = &loaded.program.outputs;
        let mut filled = Vec::with_capacity(ids.len() * types.len());
        for (n, &device) in ids.iter().enumerate() {
            let buffers = lists.get(n).map_or(&[][..], |&buffers| list(buffers, args.num_args));
            if buffers.len() != args.num_args {
                return Err(Failure::invalid("a list of arguments is null"));
            }
            let mut given_bytes = 0;
            let mut taken = Vec::with_capacity(args.num_args);
            for (k, (&raw, port)) in buffers.iter().zip(compiled.arguments()).enumerate() {
                let buffer: &Buffer = object(raw)?;
                check_argument(buffer, port, k, device)?;
                taken.push(buffer.slot()?);
                if compiled.donated()[k] != Donation::Kept && !kept.contains(&(k as i64)) {
                    if buffers.iter().filter(|&&other| other == raw).count() > 1 {
                        return Err(Failure::invalid(format!("argument {k} is donated, but the same buffer is passed twice")));
                    }
                    given_bytes += buffer.device_bytes()? as u64;
                    given.push(buffer);
                }
            }
            slots.push(taken);
            add_outputs(client, device, types, given_bytes, &mut filled)?;
        }
        // Nothing fails from here on but the run itself.
        given.iter().for_each(|buffer| buffer.delete());
        let places: Vec<(usize, Arc<Slot>)> = filled.iter().map(|output| (output.memory, output.slot.clone())).collect();
        let done = Event::pending();
        let mut launch = Launch {
            client: client.clone(),
            program: loaded.program.clone(),
            arguments: slots,
            outputs: filled,
            done: done.clone(),
            group: Group::new(client, &loaded.device_ids, &loaded.local),
            waiting: None,
            sites: sites(loaded, &ids, number),
        };
        // Programs of several processes take turns in one queue: they must come in the same order everywhere.
        let device = &client.devices[if launch.group.is_some() { client.local.start } else { ids[0] }];
        if is_short(&loaded.program, device, &launch.arguments) {
            launch.run();
        } else {
            launch.waiting = Some(device.waiting());
            device.enqueue(Box::new(move || launch.run()))?;
        }
        let buffers = places.into_iter().zip(types.iter().cycle());
        let buffers = buffers.map(|((memory, slot), output)| output_buffer(client, memory, output, slot));
        // All of them before any is handed out: what fails hands out none.
        let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
        for (n, buffer) in buffers.into_iter().enumerate() {
            (*args.output_lists.add(n / types.len())).add(n % types.len()).write(buffer.into_raw());
        }
        if !args.device_complete_events.is_null() {
            for n in 0..ids.len() {
                args.device_complete_events.add(n).write(done.clone().into_raw());
            }
        }
        Ok(())
    }

    fn PJRT_ExecuteContext_Create(args: PJRT_ExecuteContext_Create_Args) {
        args.context = Box::into_raw(Box::new(0u8)).cast();
        Ok(())
    }

    fn PJRT_ExecuteContext_Destroy(args: PJRT_ExecuteContext_Destroy_Args) {
        if !args.context.is_null() {
            drop(Box::from_raw(args.context.cast::<u8>()));
        }
        Ok(())
    }
}
