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

use super::buffer::{Buffer, Slot, label, reserve};
use super::call::{Failure, entries, list, object};
use super::client::{Client, Device, Waiting};
use super::event::Event;
use super::executable::{Loaded, Program, number};
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
    /// `[device][result]`.
    outputs: Vec<Vec<Output>>,
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
                for (output, array) in self.outputs.into_iter().flatten().zip(results.into_iter().flatten()) {
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
                for output in self.outputs.into_iter().flatten() {
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
        && arguments.iter().flatten().all(|slot| slot.event.outcome().is_some())
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
    buffer.number == PJRT_Buffer_Type_TOKEN || buffer.number == PJRT_Buffer_Type_PRED && buffer.dims() == [0]
}

fn check_argument(buffer: &Buffer, port: &PortType, n: usize, device: usize) -> Result<(), Failure> {
    let fits = match port {
        // The result of a program that returns a token may go where an array of no booleans is asked for.
        PortType::Array(DType::Bool, dims) if dims[..] == [Some(0)] => is_token(buffer),
        PortType::Array(_, dims) => {
            let have = buffer.dims();
            number(port) == buffer.number
                && have.len() == dims.len()
                && have.iter().zip(dims).all(|(have, want)| want.is_none_or(|want| want == *have))
        }
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

/// The outputs of one device, with memory for them. `given_bytes` come back when the launch begins.
fn outputs(
    client: &Arc<Client>,
    device: usize,
    results: &[PortType],
    given_bytes: u64,
) -> Result<Vec<Output>, Failure> {
    let device = &client.devices[device];
    let one = |port: &PortType| {
        let (dtype, dims): (DType, Option<Vec<usize>>) = match port {
            PortType::Array(dtype, dims) => (*dtype, dims.iter().copied().collect()),
            PortType::Token => (DType::Bool, Some(vec![0])),
        };
        let reservation = match (dims, port.bytes()) {
            (Some(dims), Some(bytes)) => Some(device.ledger.reserve(bytes as u64, given_bytes, label(dtype, &dims))?),
            _ => None,
        };
        Ok(Output { memory: device.default_memory(), slot: Slot::pending(), reservation })
    };
    results.iter().map(one).collect()
}

/// The buffer a caller gets for an output. Sizes that only the run tells are waited for.
fn output_buffer(client: &Arc<Client>, memory: usize, port: &PortType, slot: Arc<Slot>) -> Result<Buffer, Failure> {
    let dims = match port {
        PortType::Array(_, dims) => match dims.iter().copied().collect::<Option<Vec<usize>>>() {
            Some(dims) => dims,
            None => slot.wait()?.array.dims().to_vec(),
        },
        PortType::Token => vec![0],
    };
    Ok(Buffer::new(client.clone(), memory, number(port), &dims, slot))
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
        let mut slots = vec![Vec::with_capacity(args.num_args); ids.len()];
        let mut given: Vec<&Buffer> = Vec::new();
        let mut filled = Vec::with_capacity(ids.len());
        for (n, &device) in ids.iter().enumerate() {
            let buffers = lists.get(n).map_or(&[][..], |&buffers| list(buffers, args.num_args));
            if buffers.len() != args.num_args {
                return Err(Failure::invalid("a list of arguments is null"));
            }
            let mut given_bytes = 0;
            for (k, (&raw, port)) in buffers.iter().zip(compiled.arguments()).enumerate() {
                let buffer: &Buffer = object(raw)?;
                check_argument(buffer, port, k, device)?;
                slots[n].push(buffer.slot()?);
                if compiled.donated()[k] != Donation::Kept && !kept.contains(&(k as i64)) {
                    if buffers.iter().filter(|&&other| other == raw).count() > 1 {
                        return Err(Failure::invalid(format!("argument {k} is donated, but the same buffer is passed twice")));
                    }
                    given_bytes += buffer.device_bytes()? as u64;
                    given.push(buffer);
                }
            }
            filled.push(outputs(client, device, compiled.results(), given_bytes)?);
        }
        // Nothing fails from here on but the run itself.
        given.iter().for_each(|buffer| buffer.delete());
        let places: Vec<Vec<(usize, Arc<Slot>)>> =
            filled.iter().map(|list| list.iter().map(|output| (output.memory, output.slot.clone())).collect()).collect();
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
        for (n, place) in places.into_iter().enumerate() {
            let buffers = place.into_iter().zip(compiled.results());
            let buffers = buffers.map(|((memory, slot), port)| output_buffer(client, memory, port, slot));
            let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
            let into = if buffers.is_empty() { std::ptr::null_mut() } else { *args.output_lists.add(n) };
            for (k, buffer) in buffers.into_iter().enumerate() {
                into.add(k).write(buffer.into_raw());
            }
            if !args.device_complete_events.is_null() {
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
