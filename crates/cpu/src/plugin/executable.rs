//! Executables: compiling, what is known of a program, storing and loading it.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pjrt_sys::*;
use sha2::{Digest, Sha256};
use tensor::DType;

use crate::engine::{self, Compiled, Cpu, FreeShardings, PartitionRuns, PortType};
use crate::lower::Donation;
use crate::sharding::Sharding;

use super::buffer::{Shape, label};
use super::call::{Failure, bytes, entries, give_bytes, give_text, handles, object};
use super::client::{Client, MEMORY_KINDS};
use super::element;
use super::extensions::{Layout, LayoutList};
use super::named::{Named, NamedList};
use super::wire::{self, CompileOptions};

/// What a stored executable begins with; the number is the format's version.
const MAGIC: &[u8] = b"tpubridge-cpu-executable 1\n";

/// A compiled program and the answers to what callers ask about it.
pub(crate) struct Program {
    pub(super) compiled: Arc<Compiled>,
    /// What the last run took, in nanoseconds; the largest number before the first.
    pub(super) last_run: AtomicU64,
    /// By result.
    pub(super) outputs: Vec<OutputType>,
    pub(super) options: CompileOptions,
    option_bytes: Vec<u8>,
    source: Vec<u8>,
    pub(super) fingerprint: String,
    optimized: OnceLock<Result<String, Failure>>,
    output_types: Vec<PJRT_Buffer_Type>,
    output_dims: Vec<i64>,
    output_ranks: Vec<usize>,
    kinds: Vec<*const c_char>,
    kind_sizes: Vec<usize>,
    costs: NamedList,
    pub(super) parameter_shardings: Texts,
    pub(super) output_shardings: Texts,
    pub(super) parameter_layouts: LayoutList,
    pub(super) output_layouts: LayoutList,
}

// SAFETY: the pointers lead to constants or into the program's own vectors, which nobody writes.
unsafe impl Send for Program {}
// SAFETY: as for `Send`.
unsafe impl Sync for Program {}

/// What every launch needs to know of a result.
pub(crate) struct OutputType {
    pub(super) number: PJRT_Buffer_Type,
    /// `None` where the run tells.
    pub(super) fixed: Option<Fixed>,
}

/// What is known of a result whose sizes are.
pub(crate) struct Fixed {
    pub(super) shape: Arc<Shape>,
    pub(super) bytes: u64,
    /// How messages name it.
    pub(super) label: Arc<str>,
}

impl OutputType {
    fn new(port: &PortType) -> OutputType {
        let (dtype, dims): (DType, Option<Vec<usize>>) = match port {
            PortType::Array(dtype, dims) => (*dtype, dims.iter().copied().collect()),
            PortType::Token => (DType::Bool, Some(vec![0])),
        };
        let fixed = dims.zip(port.bytes()).map(|(dims, bytes)| Fixed {
            shape: Shape::new(&dims),
            bytes: bytes as u64,
            label: label(dtype, &dims),
        });
        OutputType { number: number(port), fixed }
    }
}

/// Byte strings as two C lists.
pub(crate) struct Texts {
    _owned: Vec<Vec<u8>>,
    pointers: Vec<*const c_char>,
    pub(super) sizes: Vec<usize>,
}

impl Texts {
    /// The list as C has it: null where it is empty, which clients take for "nothing is known".
    pub(super) fn pointer(&self) -> *const *const c_char {
        if self.pointers.is_empty() { std::ptr::null() } else { self.pointers.as_ptr() }
    }

    fn new(owned: Vec<Vec<u8>>) -> Texts {
        let pointers = owned.iter().map(|t| t.as_ptr().cast()).collect();
        let sizes = owned.iter().map(Vec::len).collect();
        Texts { _owned: owned, pointers, sizes }
    }
}

/// A program on devices of a client.
pub(crate) struct Loaded {
    pub(super) client: Arc<Client>,
    pub(super) program: Arc<Program>,
    /// By `[replica][partition]`.
    pub(super) device_ids: Vec<usize>,
    /// Those of this process, as places in `device_ids`.
    pub(super) local: Vec<usize>,
    device_list: Vec<*mut PJRT_Device>,
    logical: Vec<PJRT_LogicalDeviceIds>,
    deleted: AtomicBool,
}

// SAFETY: `device_list` leads into the client, which `client` keeps.
unsafe impl Send for Loaded {}
// SAFETY: as for `Send`.
unsafe impl Sync for Loaded {}

handles! {
    PJRT_Executable => Program,
    PJRT_LoadedExecutable => Loaded,
}

impl Program {
    fn compile(
        cpu: &Arc<Cpu>,
        partitions: PartitionRuns,
        source: &[u8],
        option_bytes: &[u8],
    ) -> Result<Arc<Program>, Failure> {
        let options = CompileOptions::decode(option_bytes)?;
        let free = FreeShardings { arguments: &options.free_arguments, results: &options.free_results };
        let engine_options = engine::EngineOptions { spread: options.spread, free, partitions, ..Default::default() };
        let compiled = Compiled::compile(cpu, source, &engine_options)?;
        let mut hash = Sha256::new();
        hash.update((option_bytes.len() as u64).to_le_bytes());
        hash.update(option_bytes);
        hash.update(source);
        let fingerprint = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let results = compiled.results();
        let dims = |port: &PortType| match port {
            PortType::Array(_, dims) => dims.iter().map(|d| d.map_or(-1, |d| d as i64)).collect(),
            PortType::Token => Vec::new(),
        };
        let bytes = |ports: &[PortType]| ports.iter().map(|port| port.bytes().unwrap_or(0) as f64).sum::<f64>() as f32;
        let accessed = bytes(compiled.arguments()) + bytes(results);
        let costs = vec![
            ("flops".to_string(), Named::Float(hlo::cost::cost(compiled.module()).flops as f32)),
            ("bytes accessed".to_string(), Named::Float(accessed)),
        ];
        let num_ports = results.len().max(compiled.arguments().len());
        let serialized = |shardings: &[Sharding]| Texts::new(shardings.iter().map(wire::op_sharding).collect());
        let layouts =
            |ports: &[PortType]| LayoutList::new(ports.iter().map(|port| Layout::row_major(port.rank())).collect());
        Ok(Arc::new(Program {
            outputs: results.iter().map(OutputType::new).collect(),
            output_types: results.iter().map(number).collect(),
            output_dims: results.iter().flat_map(dims).collect(),
            output_ranks: results.iter().map(PortType::rank).collect(),
            kinds: vec![MEMORY_KINDS[0].as_ptr().cast(); num_ports],
            kind_sizes: vec![MEMORY_KINDS[0].len(); num_ports],
            costs: NamedList::new(costs),
            parameter_shardings: serialized(compiled.argument_shardings()),
            output_shardings: serialized(compiled.result_shardings()),
            parameter_layouts: layouts(compiled.arguments()),
            output_layouts: layouts(results),
            compiled: Arc::new(compiled),
            last_run: AtomicU64::new(u64::MAX),
            options,
            option_bytes: option_bytes.to_vec(),
            source: source.to_vec(),
            fingerprint,
            optimized: OnceLock::new(),
        }))
    }

    fn optimized(&self) -> Result<&str, Failure> {
        let print = || {
            let module = self.compiled.optimized()?;
            Ok(hlo::text::print(&module))
        };
        self.optimized.get_or_init(print).as_deref().map_err(Clone::clone)
    }

    fn serialize(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend((self.option_bytes.len() as u64).to_le_bytes());
        out.extend(&self.option_bytes);
        out.extend(&self.source);
        out
    }

    /// Reads what `serialize` wrote, with other options if there are some.
    fn deserialize(
        cpu: &Arc<Cpu>,
        partitions: PartitionRuns,
        stored: &[u8],
        overriding: &[u8],
    ) -> Result<Arc<Program>, Failure> {
        let bad = || Failure::invalid("these bytes are not an executable of this plugin and version");
        let (length, rest) =
            stored.strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk::<8>()).ok_or_else(bad)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| bad())?;
        let (options, source) = rest.split_at_checked(length).ok_or_else(bad)?;
        Program::compile(cpu, partitions, source, if overriding.is_empty() { options } else { overriding })
    }
}

/// The number of a port's element type.
pub(super) fn number(port: &PortType) -> PJRT_Buffer_Type {
    match port {
        PortType::Array(dtype, _) => element::number(*dtype),
        PortType::Token => PJRT_Buffer_Type_TOKEN,
    }
}

impl Loaded {
    fn new(client: Arc<Client>, program: Arc<Program>) -> Result<Loaded, Failure> {
        let spread = program.compiled.spread();
        let ids = match &program.options.device_ids {
            Some(ids) => ids.clone(),
            None => (0..spread.num_devices() as i64).collect(),
        };
        let devices = ids.iter().map(|&id| client.device(id)).collect::<Result<Vec<_>, _>>()?;
        let device_ids: Vec<usize> = devices.iter().map(|device| device.index).collect();
        let mut sorted = device_ids.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Failure::invalid("a device occurs twice in the device assignment"));
        }
        let local: Vec<usize> = (0..devices.len()).filter(|&n| client.local.contains(&device_ids[n])).collect();
        if local.is_empty() {
            return Err(Failure::invalid(format!(
                "the program runs on devices {device_ids:?}, and this process has {:?}",
                client.local
            )));
        }
        let logical = local.iter().map(|&n| PJRT_LogicalDeviceIds {
            replica: (n / spread.num_partitions) as i32,
            partition: (n % spread.num_partitions) as i32,
        });
        Ok(Loaded {
            device_list: local.iter().map(|&n| devices[n].raw()).collect(),
            logical: logical.collect(),
            local,
            device_ids,
            client: client.clone(),
            program,
            deleted: AtomicBool::new(false),
        })
    }

    fn into_raw(self) -> *mut PJRT_LoadedExecutable {
        Box::into_raw(Box::new(self)).cast()
    }

    pub(super) fn check_live(&self) -> Result<(), Failure> {
        if self.deleted.load(Ordering::Acquire) {
            return Err(Failure::new(PJRT_Error_Code_FAILED_PRECONDITION, "the executable has been deleted"));
        }
        Ok(())
    }
}

fn into_raw(program: Arc<Program>) -> *mut PJRT_Executable {
    Arc::into_raw(program).cast_mut().cast()
}

/// Shares a handle's object.
///
/// # Safety
/// `raw` is null or came from `Arc::into_raw` of that type and was not released.
unsafe fn share<T>(raw: *const T) -> Result<Arc<T>, Failure> {
    if raw.is_null() {
        return Err(Failure::invalid("a handle is null"));
    }
    // SAFETY: by the contract above; the count is raised for the new owner.
    unsafe {
        Arc::increment_strong_count(raw);
        Ok(Arc::from_raw(raw))
    }
}

/// The code of a program the caller passes.
///
/// # Safety
/// `program` is null or points to a program as the C header describes it.
unsafe fn code<'a>(program: *const PJRT_Program) -> Result<&'a [u8], Failure> {
    // SAFETY: by the contract above.
    unsafe {
        let program = program.as_ref().ok_or_else(|| Failure::invalid("the program is null"))?;
        match bytes(program.format, program.format_size) {
            b"mlir" => Ok(bytes(program.code, program.code_size)),
            other => Err(Failure::unimplemented(format!(
                "programs of format {:?}; give mlir",
                String::from_utf8_lossy(other)
            ))),
        }
    }
}

entries! {
    fn PJRT_Client_Compile(args: PJRT_Client_Compile_Args) {
        let client = share(args.client.cast::<Client>())?;
        let options = bytes(args.compile_options, args.compile_options_size);
        let program = Program::compile(&client.cpu, client.partitions, code(args.program)?, options)?;
        args.executable = Loaded::new(client, program)?.into_raw();
        Ok(())
    }

    fn PJRT_Compile(args: PJRT_Compile_Args) {
        let cpu = Cpu::with_isa(None, Some(object(args.topology)?.isa))?;
        let options = bytes(args.compile_options, args.compile_options_size);
        let program = Program::compile(&cpu, PartitionRuns::default(), code(args.program)?, options)?;
        args.executable = into_raw(program);
        Ok(())
    }

    fn PJRT_Client_Load(args: PJRT_Client_Load_Args) {
        let client = share(args.client.cast::<Client>())?;
        let program = share(args.executable.cast::<Program>())?;
        args.loaded_executable = Loaded::new(client, program)?.into_raw();
        Ok(())
    }

    fn PJRT_Executable_DeserializeAndLoad(args: PJRT_Executable_DeserializeAndLoad_Args) {
        let client = share(args.client.cast::<Client>())?;
        let stored = bytes(args.serialized_executable, args.serialized_executable_size);
        let overriding = bytes(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size);
        let program = Program::deserialize(&client.cpu, client.partitions, stored, overriding)?;
        args.loaded_executable = Loaded::new(client, program)?.into_raw();
        Ok(())
    }

    fn PJRT_Executable_Destroy(args: PJRT_Executable_Destroy_Args) {
        if !args.executable.is_null() {
            drop(Arc::from_raw(args.executable.cast::<Program>()));
        }
        Ok(())
    }

    fn PJRT_Executable_Name(args: PJRT_Executable_Name_Args) {
        give_text!(args.executable_name, executable_name_size = object(args.executable)?.compiled.name())
    }

    fn PJRT_Executable_NumReplicas(args: PJRT_Executable_NumReplicas_Args) {
        args.num_replicas = object(args.executable)?.compiled.spread().num_replicas;
        Ok(())
    }

    fn PJRT_Executable_NumPartitions(args: PJRT_Executable_NumPartitions_Args) {
        args.num_partitions = object(args.executable)?.compiled.spread().num_partitions;
        Ok(())
    }

    fn PJRT_Executable_NumOutputs(args: PJRT_Executable_NumOutputs_Args) {
        args.num_outputs = object(args.executable)?.compiled.results().len();
        Ok(())
    }

    fn PJRT_Executable_SizeOfGeneratedCodeInBytes(args: PJRT_Executable_SizeOfGeneratedCodeInBytes_Args) {
        args.size_in_bytes = object(args.executable)?.source.len() as i64;
        Ok(())
    }

    fn PJRT_Executable_Fingerprint(args: PJRT_Executable_Fingerprint_Args) {
        give_text!(args.executable_fingerprint, executable_fingerprint_size = &object(args.executable)?.fingerprint)
    }

    fn PJRT_LoadedExecutable_Fingerprint(args: PJRT_LoadedExecutable_Fingerprint_Args) {
        let program = &object(args.executable)?.program;
        give_text!(args.executable_fingerprint, executable_fingerprint_size = &program.fingerprint)
    }

    fn PJRT_Executable_GetCostAnalysis(args: PJRT_Executable_GetCostAnalysis_Args) {
        let costs = &object(args.executable)?.costs;
        (args.properties, args.num_properties) = (costs.as_ptr(), costs.len());
        Ok(())
    }

    fn PJRT_Executable_GetCompiledMemoryStats(args: PJRT_Executable_GetCompiledMemoryStats_Args) {
        let program = object(args.executable)?;
        let compiled = &program.compiled;
        let total = |ports: &mut dyn Iterator<Item = &PortType>| ports.map(|port| port.bytes().unwrap_or(0) as i64).sum::<i64>();
        let arguments = total(&mut compiled.arguments().iter());
        let results = total(&mut compiled.results().iter());
        let given = compiled.arguments().iter().zip(compiled.donated()).filter(|(_, d)| matches!(d, Donation::GivenFor(_)));
        let alias = total(&mut given.map(|(port, _)| port));
        let temporary = compiled.temporary_bytes().map_or(0, |bytes| bytes as i64);
        let peak = arguments + results - alias + temporary;
        args.generated_code_size_in_bytes = program.source.len() as i64;
        args.argument_size_in_bytes = arguments;
        args.output_size_in_bytes = results;
        args.alias_size_in_bytes = alias;
        args.temp_size_in_bytes = temporary;
        args.host_generated_code_size_in_bytes = 0;
        args.host_argument_size_in_bytes = 0;
        args.host_output_size_in_bytes = 0;
        args.host_alias_size_in_bytes = 0;
        args.host_temp_size_in_bytes = 0;
        args.peak_memory_in_bytes = peak;
        args.total_size_in_bytes = peak;
        args.total_allocation_bytes = peak;
        args.indefinite_allocations = 0;
        args.peak_unpadded_heap_bytes = peak;
        Ok(())
    }

    fn PJRT_Executable_OptimizedProgram(args: PJRT_Executable_OptimizedProgram_Args) {
        let text = object(args.executable)?.optimized()?;
        let program = args.program.as_mut().ok_or_else(|| Failure::invalid("the program is null"))?;
        const FORMAT: &str = "mlir";
        (program.format, program.format_size) = (FORMAT.as_ptr().cast(), FORMAT.len());
        if !program.code.is_null() {
            if program.code_size < text.len() {
                return Err(Failure::invalid(format!("the program has {} bytes, the memory given only {}", text.len(), program.code_size)));
            }
            std::ptr::copy_nonoverlapping(text.as_ptr(), program.code.cast(), text.len());
        }
        program.code_size = text.len();
        Ok(())
    }

    fn PJRT_Executable_OutputElementTypes(args: PJRT_Executable_OutputElementTypes_Args) {
        let types = &object(args.executable)?.output_types;
        (args.output_types, args.num_output_types) = (types.as_ptr().cast_mut(), types.len());
        Ok(())
    }

    fn PJRT_Executable_OutputDimensions(args: PJRT_Executable_OutputDimensions_Args) {
        let program = object(args.executable)?;
        args.num_outputs = program.output_ranks.len();
        (args.dims, args.dim_sizes) = (program.output_dims.as_ptr(), program.output_ranks.as_ptr());
        Ok(())
    }

    fn PJRT_Executable_OutputMemoryKinds(args: PJRT_Executable_OutputMemoryKinds_Args) {
        let program = object(args.executable)?;
        args.num_outputs = program.compiled.results().len();
        (args.memory_kinds, args.memory_kind_sizes) = (program.kinds.as_ptr(), program.kind_sizes.as_ptr());
        Ok(())
    }

    fn PJRT_Executable_ParameterMemoryKinds(args: PJRT_Executable_ParameterMemoryKinds_Args) {
        let program = object(args.executable)?;
        args.num_parameters = program.compiled.arguments().len();
        (args.memory_kinds, args.memory_kind_sizes) = (program.kinds.as_ptr(), program.kind_sizes.as_ptr());
        Ok(())
    }

    fn PJRT_Executable_Serialize(args: PJRT_Executable_Serialize_Args) {
        let stored = object(args.executable)?.serialize();
        give_bytes!(args.serialized_executable, serialized_executable_deleter = stored)
    }

    fn PJRT_Executable_GetCompileOptions(args: PJRT_Executable_GetCompileOptions_Args) {
        let options = object(args.executable)?.option_bytes.clone();
        give_bytes!(args.serialized_compile_options, serialized_compile_options_deleter = options)
    }

    fn PJRT_LoadedExecutable_Destroy(args: PJRT_LoadedExecutable_Destroy_Args) {
        if !args.executable.is_null() {
            drop(Box::from_raw(args.executable.cast::<Loaded>()));
        }
        Ok(())
    }

    fn PJRT_LoadedExecutable_GetExecutable(args: PJRT_LoadedExecutable_GetExecutable_Args) {
        args.executable = into_raw(object(args.loaded_executable)?.program.clone());
        Ok(())
    }

    fn PJRT_LoadedExecutable_AddressableDevices(args: PJRT_LoadedExecutable_AddressableDevices_Args) {
        let devices = &object(args.executable)?.device_list;
        (args.addressable_devices, args.num_addressable_devices) = (devices.as_ptr(), devices.len());
        Ok(())
    }

    fn PJRT_LoadedExecutable_AddressableDeviceLogicalIds(args: PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args) {
        let logical = &object(args.executable)?.logical;
        args.addressable_device_logical_ids = logical.as_ptr().cast_mut();
        args.num_addressable_device_logical_ids = logical.len();
        Ok(())
    }

    fn PJRT_LoadedExecutable_GetDeviceAssignment(args: PJRT_LoadedExecutable_GetDeviceAssignment_Args) {
        let loaded = object(args.executable)?;
        let assignment = wire::device_assignment(loaded.program.compiled.spread(), &loaded.device_ids);
        give_bytes!(args.serialized_device_assignment, serialized_device_assignment_deleter = assignment)
    }

    fn PJRT_LoadedExecutable_Delete(args: PJRT_LoadedExecutable_Delete_Args) {
        object(args.executable)?.deleted.store(true, Ordering::Release);
        Ok(())
    }

    fn PJRT_LoadedExecutable_IsDeleted(args: PJRT_LoadedExecutable_IsDeleted_Args) {
        args.is_deleted = object(args.executable)?.deleted.load(Ordering::Acquire);
        Ok(())
    }
}
