//! The kernel as MLIR text in the dialects the TPU compiler reads: func, arith, math, vector, scf, memref, tpu.

use std::fmt::Write;
use std::rc::Rc;

use tensor::{DType, Spec, encode_float};

use crate::ir::{
    BinaryOp, BlockId, Body, CompareOp, KernelOp, MatMulForm, MatmulPrecision, Number, Part, ReduceOp, RefId,
    Statement, Transfer, UnaryOp, ValueId,
};
use crate::kernel::{Buffers, Kernel, KernelCore, KernelMemory, Reference, ReferenceRole, Semantics};

impl Kernel {
    /// The kernel as the compiler reads it: a module with the body and one function for each index map.
    pub fn text(&self) -> String {
        let mut out = String::from("module {\n");
        Printer::new(self, &self.body, &mut out).main();
        let windows = self.arguments().into_iter().filter_map(|id| self.reference(id));
        let windows = windows.filter_map(|reference| Some((reference.memory, window(reference)?)));
        for (n, (_, window)) in windows.enumerate().filter(|(_, (memory, _))| *memory != KernelMemory::Hbm) {
            Printer::new(self, &window.map, &mut out).map(n);
        }
        out.push_str("}\n");
        out
    }
}

fn window(reference: &Reference) -> Option<&crate::kernel::BlockSpec> {
    match &reference.role {
        ReferenceRole::Input(window) | ReferenceRole::Output(window) => Some(window),
        _ => None,
    }
}

struct Printer<'a> {
    kernel: &'a Kernel,
    body: &'a Body,
    out: &'a mut String,
    /// Names of values.
    names: Rc<[String]>,
    fresh: u32,
}

const ZERO: &str = "%zero";

impl<'a> Printer<'a> {
    fn new(kernel: &'a Kernel, body: &'a Body, out: &'a mut String) -> Self {
        let mut names: Vec<String> = (0..body.values.len()).map(|n| format!("%v{n}")).collect();
        for statement in body.blocks.iter().flat_map(|block| &block.statements) {
            if let (KernelOp::ProgramId(axis), Some(result)) = (&statement.op, statement.results.first())
                && let Some(name) = names.get_mut(result.0 as usize)
            {
                *name = format!("%grid{axis}");
            }
        }
        Printer { kernel, body, out, names: names.into(), fresh: 0 }
    }

    fn namer(&self) -> impl Fn(ValueId) -> String + use<> {
        let names = self.names.clone();
        move |id| names.get(id.0 as usize).cloned().unwrap_or_default()
    }

    fn line(&mut self, depth: usize, text: std::fmt::Arguments<'_>) {
        let indent = depth * 2;
        // Writing into a string does not fail.
        let _ = writeln!(self.out, "{:indent$}{text}", "");
    }

    fn name(&mut self) -> String {
        self.fresh += 1;
        format!("%t{}", self.fresh)
    }

    fn ty(&self, value: ValueId) -> String {
        ty(self.body.ty(value))
    }

    fn grid_args(&self) -> Vec<String> {
        (0..self.kernel.grid.len()).map(|n| format!("%grid{n}: i32")).collect()
    }

    fn memory_arg(&self, id: RefId) -> Option<String> {
        Some(format!("{}: {}", memory_name(id), memref(self.kernel.reference(id)?)))
    }

    fn main(&mut self) {
        let kernel = self.kernel;
        let arguments = kernel.arguments();
        let mut args = self.grid_args();
        args.extend(arguments.iter().filter_map(|&id| self.memory_arg(id)));
        let references: Vec<&Reference> = arguments.iter().filter_map(|&id| kernel.reference(id)).collect();
        let count = |pick: fn(&ReferenceRole) -> bool| references.iter().filter(|r| pick(&r.role)).count();
        let semantics = kernel.grid.iter().map(|axis| match axis.semantics {
            Semantics::Parallel => "#tpu.dimension_semantics<parallel>",
            Semantics::Arbitrary => "#tpu.dimension_semantics<arbitrary>",
            Semantics::Core => "#tpu.dimension_semantics<core_parallel>",
            Semantics::Subcore => "#tpu.dimension_semantics<subcore_parallel>",
        });
        let windows = references.iter().filter_map(|&r| window(r).map(|window| (r, window))).enumerate();
        let windows = windows.map(|(n, (reference, window))| {
            if reference.memory == KernelMemory::Hbm {
                let (from, to) =
                    (listed((0..kernel.grid.len()).map(|n| format!("d{n}"))), vec!["0"; window.array.rank()]);
                return format!("{{transform_indices = affine_map<({from}) -> ({})>}}", to.join(", "));
            }
            let mode = match window.buffers {
                Buffers::Two => "",
                Buffers::One => "pipeline_mode = #tpu.pipeline_mode<synchronous>, ",
            };
            let bounds = listed(reference.block.dims.iter());
            format!("{{{mode}transform_indices = @window_{n}, window_bounds = array<i64: {bounds}>}}")
        });
        let core = match kernel.core() {
            KernelCore::TensorCore => "tc",
            KernelCore::SparseCore => "sc_vector_subcore",
        };
        let attributes = [
            format!("dimension_semantics = [{}]", listed(semantics)),
            format!("iteration_bounds = array<i64: {}>", listed(kernel.grid.iter().map(|axis| axis.size))),
            format!("scalar_prefetch = {} : i64", count(|role| matches!(role, ReferenceRole::Prefetch))),
            format!("scratch_operands = {} : i64", count(|role| matches!(role, ReferenceRole::Scratch))),
            format!("tpu.core_type = #tpu.core_type<{core}>"),
            format!("window_params = [{}]", listed(windows)),
        ];
        let (name, args, attributes) = (symbol(&kernel.name), args.join(", "), attributes.join(", "));
        self.line(1, format_args!("func.func @{name}({args}) attributes {{{attributes}}} {{"));
        self.line(2, format_args!("{ZERO} = arith.constant 0 : index"));
        self.block(BlockId(0), 2);
        self.line(2, format_args!("return"));
        self.line(1, format_args!("}}"));
    }

    fn map(&mut self, n: usize) {
        let kernel = self.kernel;
        let mut args = self.grid_args();
        let prefetched = |id: &RefId| kernel.reference(*id).is_some_and(|r| matches!(r.role, ReferenceRole::Prefetch));
        args.extend(kernel.arguments().into_iter().filter(prefetched).filter_map(|id| self.memory_arg(id)));
        let (indices, v) = (&self.body.entry().yields, self.namer());
        let types = listed(indices.iter().map(|_| "i32"));
        let values = listed(indices.iter().map(|&id| v(id)));
        self.line(1, format_args!("func.func @window_{n}({}) -> ({types}) {{", args.join(", ")));
        self.block(BlockId(0), 2);
        self.line(2, format_args!("return {values} : {types}"));
        self.line(1, format_args!("}}"));
    }

    fn block(&mut self, id: BlockId, depth: usize) {
        let body = self.body;
        for statement in &body.block(id).statements {
            self.statement(statement, depth);
        }
    }

    fn statement(&mut self, statement: &Statement, depth: usize) {
        let v = self.namer();
        let result = statement.results.first().copied().unwrap_or(ValueId(0));
        let (name, to) = (v(result), self.ty(result));
        let spec = self.body.ty(result).clone();
        match &statement.op {
            // An argument of the function, known by its name.
            KernelOp::ProgramId(_) => {}
            KernelOp::Constant(number) => {
                self.constant(&name, &constant(*number, &spec), &spec, depth);
            }
            KernelOp::Iota { axis } => {
                self.line(depth, format_args!("{name} = tpu.iota {{dimensions = array<i32: {axis}>}} : {to}"));
            }
            KernelOp::Unary(op, a) => self.unary(*op, *a, result, depth),
            KernelOp::Binary(op, a, b) => {
                let op = binary(*op, spec.dtype);
                self.line(depth, format_args!("{name} = {op} {}, {} : {to}", v(*a), v(*b)));
            }
            KernelOp::Compare(how, a, b) => {
                let from = self.ty(*a);
                let op = comparison(*how, self.body.ty(*a).dtype);
                self.line(depth, format_args!("{name} = {op}, {}, {} : {from}", v(*a), v(*b)));
            }
            KernelOp::Select(c, a, b) => {
                let (c_type, c) = (self.ty(*c), v(*c));
                let types = if c_type == "i1" { to } else { format!("{c_type}, {to}") };
                let (a, b) = (v(*a), v(*b));
                self.line(depth, format_args!("{name} = arith.select {c}, {a}, {b} : {types}"));
            }
            KernelOp::Cast(a) => self.cast(*a, result, depth),
            KernelOp::Broadcast(a) => {
                let from = self.ty(*a);
                self.line(depth, format_args!("{name} = vector.broadcast {} : {from} to {to}", v(*a)));
            }
            KernelOp::Repeat(a, times) => {
                let (from, copies, axis) = (self.ty(*a), *times as usize, spec.rank().saturating_sub(1));
                let (values, types) = (vec![v(*a); copies].join(", "), vec![from; copies].join(", "));
                self.line(depth, format_args!("{name} = tpu.concatenate {values} in {axis} : {types} -> {to}"));
            }
            KernelOp::Reshape(a) => {
                let from = self.ty(*a);
                self.line(depth, format_args!("{name} = vector.shape_cast {} : {from} to {to}", v(*a)));
            }
            KernelOp::Transpose(a) => {
                let from = self.ty(*a);
                self.line(depth, format_args!("{name} = tpu.transpose {}, [1, 0] : {from} -> {to}", v(*a)));
            }
            KernelOp::Reinterpret(a) => {
                let from = self.ty(*a);
                self.line(depth, format_args!("{name} = tpu.bitcast {} : {from} -> {to}", v(*a)));
            }
            KernelOp::Concatenate(parts) => {
                let values = listed(parts.iter().map(|&part| v(part)));
                let types = self.types(parts);
                self.line(depth, format_args!("{name} = tpu.concatenate {values} in 0 : {types} -> {to}"));
            }
            KernelOp::Rows(a, first) => {
                let (from, sizes) = (self.ty(*a), listed(spec.dims.iter()));
                self.line(
                    depth,
                    format_args!(
                        "{name} = \"vector.extract_strided_slice\"({}) <{{offsets = [{first}, 0], sizes = [{sizes}], \
                         strides = [1, 1]}}> : ({from}) -> {to}",
                        v(*a)
                    ),
                );
            }
            KernelOp::Reduce(how, a, axis) => self.reduce(*how, *a, *axis, result, depth),
            KernelOp::MatMul { lhs, rhs, form, precision } => {
                let zero = self.name();
                self.constant(&zero, &filled("0", &spec), &spec, depth);
                let (numbers, hint) = match form {
                    MatMulForm::Plain => ("[1], [0], [0], [1], [0, 0, 1, 1], [], []", false),
                    MatMulForm::TransposedRhs => ("[1], [1], [0], [0], [0, 0, 1, 0], [], []", false),
                    MatMulForm::TransposedLhs => ("[0], [0], [1], [1], [0, 1, 1, 1], [], []", true),
                };
                let precision = match precision {
                    MatmulPrecision::Default => "",
                    MatmulPrecision::Highest => "precision = #tpu.contract_precision<fp32>, ",
                };
                let (a, b) = (v(*lhs), v(*rhs));
                let types = format!("{}, {}, {to} -> {to}", self.ty(*lhs), self.ty(*rhs));
                self.line(
                    depth,
                    format_args!(
                        "{name} = tpu.matmul {a}, {b}, {zero} {{dimension_numbers = #tpu.dot_dimension_numbers<{numbers}>, \
                         {precision}transpose_lhs_hint = {hint}}} : {types}"
                    ),
                );
            }
            KernelOp::AssumeMultiple(a, number) => {
                self.line(depth, format_args!("{name} = tpu.assume_multiple {}, {number} : i32", v(*a)));
            }
            KernelOp::Load { from, at } => self.load(*from, at, result, depth),
            KernelOp::Store { to, at, value } => self.store(*to, at, *value, depth),
            KernelOp::Start(transfer) => self.transfer(transfer, Moment::Begin, depth),
            KernelOp::Await(transfer) => self.transfer(transfer, Moment::End, depth),
            KernelOp::If { condition, then, otherwise } => {
                let results = self.bound(&statement.results);
                let types = self.types(&statement.results);
                let arrow = if types.is_empty() { String::new() } else { format!(" -> ({types})") };
                self.line(depth, format_args!("{results}scf.if {}{arrow} {{", v(*condition)));
                self.yielding(*then, depth + 1);
                self.line(depth, format_args!("}} else {{"));
                self.yielding(*otherwise, depth + 1);
                self.line(depth, format_args!("}}"));
            }
            KernelOp::For { from, to, carried, body } => {
                let step = self.name();
                self.line(depth, format_args!("{step} = arith.constant 1 : i32"));
                let results = self.bound(&statement.results);
                let args = &self.body.block(*body).args;
                let count = args.first().copied().unwrap_or(ValueId(0));
                let pairs = args.iter().skip(1).zip(carried);
                let pairs = listed(pairs.map(|(&arg, &init)| format!("{} = {}", v(arg), v(init))));
                let types = self.types(&statement.results);
                let iter = if types.is_empty() { String::new() } else { format!(" iter_args({pairs}) -> ({types})") };
                let (count, from, to) = (v(count), v(*from), v(*to));
                self.line(depth, format_args!("{results}scf.for {count} = {from} to {to} step {step}{iter} : i32 {{"));
                self.yielding(*body, depth + 1);
                self.line(depth, format_args!("}}"));
            }
        }
    }

    /// A constant; booleans that are no vectors are written without their type.
    fn constant(&mut self, name: &str, literal: &str, spec: &Spec, depth: usize) {
        let ty = if spec.dims.is_empty() && spec.dtype.is_bool() { String::new() } else { format!(" : {}", ty(spec)) };
        self.line(depth, format_args!("{name} = arith.constant {literal}{ty}"));
    }

    fn types(&self, values: &[ValueId]) -> String {
        listed(values.iter().map(|&id| self.ty(id)))
    }

    /// The left side of an op of any number of results.
    fn bound(&self, results: &[ValueId]) -> String {
        let v = self.namer();
        if results.is_empty() { String::new() } else { format!("{} = ", listed(results.iter().map(|&id| v(id)))) }
    }

    fn yielding(&mut self, block: BlockId, depth: usize) {
        self.block(block, depth);
        let v = self.namer();
        let yields = &self.body.block(block).yields;
        if !yields.is_empty() {
            let (values, types) = (listed(yields.iter().map(|&id| v(id))), self.types(yields));
            self.line(depth, format_args!("scf.yield {values} : {types}"));
        }
    }

    fn unary(&mut self, op: UnaryOp, a: ValueId, result: ValueId, depth: usize) {
        let v = self.namer();
        let (name, a, to) = (v(result), v(a), self.ty(result));
        let spec = self.body.ty(result).clone();
        let op = match op {
            UnaryOp::Neg if spec.dtype.is_float() => "arith.negf",
            UnaryOp::Neg => {
                let zero = self.name();
                self.constant(&zero, &filled("0", &spec), &spec, depth);
                return self.line(depth, format_args!("{name} = arith.subi {zero}, {a} : {to}"));
            }
            UnaryOp::Not => {
                let truth = self.name();
                self.constant(&truth, &filled("true", &spec), &spec, depth);
                return self.line(depth, format_args!("{name} = arith.xori {a}, {truth} : {to}"));
            }
            UnaryOp::Exp => "math.exp",
            UnaryOp::Exp2 => "math.exp2",
            UnaryOp::Log => "math.log",
            UnaryOp::Rsqrt => "math.rsqrt",
            UnaryOp::Tanh => "math.tanh",
            UnaryOp::Abs => "math.absf",
        };
        self.line(depth, format_args!("{name} = {op} {a} : {to}"));
    }

    /// One conversion, or two through `i32` or `f32`.
    fn cast(&mut self, a: ValueId, result: ValueId, depth: usize) {
        let v = self.namer();
        let (mut from, end) = (self.body.ty(a).clone(), self.body.ty(result).clone());
        let mut value = v(a);
        while from.dtype != end.dtype {
            let (op, next) = conversion(from.dtype, end.dtype);
            let to = Spec::new(next, from.dims.clone());
            let name = if next == end.dtype { v(result) } else { self.name() };
            if op == "arith.cmpi ne" {
                let zero = self.name();
                self.constant(&zero, &filled("0", &from), &from, depth);
                self.line(depth, format_args!("{name} = {op}, {value}, {zero} : {}", ty(&from)));
            } else {
                self.line(depth, format_args!("{name} = {op} {value} : {} to {}", ty(&from), ty(&to)));
            }
            (from, value) = (to, name);
        }
    }

    /// The reduction drops the axis; the result has it with size 1.
    fn reduce(&mut self, how: ReduceOp, a: ValueId, axis: u32, result: ValueId, depth: usize) {
        let v = self.namer();
        let from = self.body.ty(a).clone();
        let mut dims = from.dims.clone();
        dims.remove((axis as usize).min(dims.len().saturating_sub(1)));
        let dropped = Spec::new(from.dtype, dims);
        let (kind, start) = match (how, from.dtype.is_float()) {
            (ReduceOp::Sum, _) => ("add", "0"),
            (ReduceOp::Max, true) => ("maximumf", "0xFF800000"),
            (ReduceOp::Max, false) => ("maxsi", "-2147483648"),
        };
        let (initial, reduced) = (self.name(), self.name());
        let (to, dropped_type) = (self.ty(result), ty(&dropped));
        self.constant(&initial, &filled(start, &dropped), &dropped, depth);
        self.line(
            depth,
            format_args!(
                "{reduced} = vector.multi_reduction <{kind}>, {}, {initial} [{axis}] : {} to {dropped_type}",
                v(a),
                ty(&from)
            ),
        );
        self.line(depth, format_args!("{} = vector.shape_cast {reduced} : {dropped_type} to {to}", v(result)));
    }

    /// Indices of memory: zeros for the dimensions bodies do not see.
    fn indices(&mut self, reference: &Reference, at: &[ValueId], depth: usize) -> String {
        let v = self.namer();
        let hidden = reference.block.rank().saturating_sub(at.len());
        let mut indices = vec![ZERO.to_owned(); hidden];
        for &id in at {
            if self.is_zero(id) && reference.memory == KernelMemory::Vmem {
                indices.push(ZERO.to_owned());
                continue;
            }
            let index = self.name();
            self.line(depth, format_args!("{index} = arith.index_cast {} : i32 to index", v(id)));
            indices.push(index);
        }
        indices.join(", ")
    }

    fn is_zero(&self, value: ValueId) -> bool {
        let mut statements = self.body.blocks.iter().flat_map(|block| &block.statements);
        statements.any(|s| s.op == KernelOp::Constant(Number::Int(0)) && s.results.first() == Some(&value))
    }

    fn load(&mut self, from: RefId, at: &[ValueId], result: ValueId, depth: usize) {
        let Some(reference) = self.kernel.reference(from) else { return };
        let v = self.namer();
        let indices = self.indices(reference, at, depth);
        let (name, memory, kind) = (v(result), memory_name(from), memref(reference));
        if reference.memory == KernelMemory::Smem {
            return self.line(depth, format_args!("{name} = memref.load {memory}[{indices}] : {kind}"));
        }
        let seen = self.body.ty(result).clone();
        let whole = unsqueezed(&seen, reference.block.rank());
        let (seen_type, whole_type) = (ty(&seen), ty(&whole));
        if seen == whole {
            return self.line(depth, format_args!("{name} = vector.load {memory}[{indices}] : {kind}, {whole_type}"));
        }
        let loaded = self.name();
        self.line(depth, format_args!("{loaded} = vector.load {memory}[{indices}] : {kind}, {whole_type}"));
        self.line(depth, format_args!("{name} = vector.shape_cast {loaded} : {whole_type} to {seen_type}"));
    }

    fn store(&mut self, to: RefId, at: &[ValueId], value: ValueId, depth: usize) {
        let Some(reference) = self.kernel.reference(to) else { return };
        let v = self.namer();
        let indices = self.indices(reference, at, depth);
        let (mut name, memory, kind) = (v(value), memory_name(to), memref(reference));
        if reference.memory == KernelMemory::Smem {
            return self.line(depth, format_args!("memref.store {name}, {memory}[{indices}] : {kind}"));
        }
        let seen = self.body.ty(value).clone();
        let whole = unsqueezed(&seen, reference.block.rank());
        if seen != whole {
            let shaped = self.name();
            self.line(depth, format_args!("{shaped} = vector.shape_cast {name} : {} to {}", ty(&seen), ty(&whole)));
            name = shaped;
        }
        self.line(
            depth,
            format_args!(
                "tpu.vector_store {memory}[{indices}], {name} {{strides = array<i32>}} : {kind}, {},",
                ty(&whole)
            ),
        );
    }
}

/// Which end of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Begin,
    End,
}

impl Printer<'_> {
    /// A part of memory: its name, and its type.
    fn part(&mut self, part: &Part, depth: usize) -> (String, String) {
        let Some(reference) = self.kernel.reference(part.memory) else { return Default::default() };
        let v = self.namer();
        let whole = &reference.block;
        let (sliced, squeezed) = (unsqueezed(&Spec::new(whole.dtype, part.dims.clone()), whole.rank()), &part.dims);
        let at = listed(part.at.iter().map(|&id| v(id)));
        let (memory, from) = (memory_name(part.memory), memref(reference));
        let typed = |dims: &[usize]| memref_of(reference.memory, &Spec::new(whole.dtype, dims));
        let (name, ty) = (self.name(), typed(&sliced.dims));
        self.line(depth, format_args!("{name} = tpu.memref_slice {memory}[{at}] : {from} -> {ty}"));
        if sliced.dims == *squeezed {
            return (name, ty);
        }
        let (narrow, to) = (self.name(), typed(squeezed));
        self.line(depth, format_args!("{narrow} = tpu.memref_squeeze {name} : {ty} -> {to}"));
        (narrow, to)
    }

    fn transfer(&mut self, transfer: &Transfer, moment: Moment, depth: usize) {
        let (from, from_type) = self.part(&transfer.from, depth);
        let (to, to_type) = self.part(&transfer.to, depth);
        let rows = transfer.rows.as_ref().filter(|_| moment == Moment::Begin).map(|rows| self.part(rows, depth));
        let (semaphore, kind) = self.part(&transfer.semaphore, depth);
        let semaphore = format!("semaphore({semaphore} : {kind})");
        let (source, target) = (format!("({from} : {from_type})"), format!("({to} : {to_type})"));
        let text = match (moment, &transfer.rows, rows) {
            (Moment::Begin, _, Some((rows, ty))) => {
                format!("tpu.enqueue_indirect_dma source{source} target{target} offsets({rows} : {ty}) {semaphore}")
            }
            (Moment::Begin, ..) => format!("tpu.enqueue_dma source{source} target{target} target_{semaphore}"),
            (Moment::End, Some(_), _) => format!("tpu.wait_indirect_dma {semaphore} src{source} dst{target}"),
            (Moment::End, None, _) => format!("tpu.wait_dma2 {semaphore} src{source} dst{target}"),
        };
        self.line(depth, format_args!("{text}"));
    }
}

fn memory_name(id: RefId) -> String {
    format!("%memory{}", id.0)
}

/// A name MLIR takes without quotes.
pub(crate) fn symbol(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') { name } else { format!("_{name}") }
}

fn listed<T: ToString>(items: impl Iterator<Item = T>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

fn shaped(spec: &Spec) -> String {
    let dims: String = spec.dims.iter().map(|d| format!("{d}x")).collect();
    format!("{dims}{}", spec.dtype.name())
}

fn ty(spec: &Spec) -> String {
    if spec.dims.is_empty() { spec.dtype.name().to_owned() } else { format!("vector<{}>", shaped(spec)) }
}

fn memref(reference: &Reference) -> String {
    memref_of(reference.memory, &reference.block)
}

fn memref_of(memory: KernelMemory, spec: &Spec) -> String {
    let dims: String = spec.dims.iter().map(|d| format!("{d}x")).collect();
    let (element, space) = match memory {
        KernelMemory::Vmem => (spec.dtype.name(), "vmem"),
        KernelMemory::Smem => (spec.dtype.name(), "smem"),
        KernelMemory::Hbm => (spec.dtype.name(), "hbm"),
        KernelMemory::Semaphore => ("!tpu.dma_semaphore", "semaphore_mem"),
    };
    format!("memref<{dims}{element}, #tpu.memory_space<{space}>>")
}

fn unsqueezed(seen: &Spec, rank: usize) -> Spec {
    let mut dims = vec![1; rank.saturating_sub(seen.rank())];
    dims.extend(&seen.dims);
    Spec::new(seen.dtype, dims)
}

/// One number over a shape; `0` is written as the type wants it.
fn filled(number: &str, spec: &Spec) -> String {
    let number = match number {
        "0" if spec.dtype.is_float() => "0.0",
        other => other,
    };
    if spec.dims.is_empty() { number.to_owned() } else { format!("dense<{number}>") }
}

fn constant(number: Number, spec: &Spec) -> String {
    let text = match number {
        Number::Int(value) if spec.dtype.is_bool() => if value == 0 { "false" } else { "true" }.to_owned(),
        Number::Int(value) => value.to_string(),
        Number::Float(value) => float(value, spec.dtype),
    };
    filled(&text, spec)
}

/// Digits where they are short and exact, else the bits.
fn float(value: f32, dtype: DType) -> String {
    let digits = format!("{value:?}");
    let is_plain = value.is_finite() && digits.contains('.') && !digits.contains('e');
    if is_plain && dtype == DType::F32 {
        return digits;
    }
    let bits = encode_float(dtype, f64::from(value)).unwrap_or(0);
    let width = dtype.bits() as usize / 4;
    format!("0x{bits:0width$X}")
}

fn binary(op: BinaryOp, dtype: DType) -> &'static str {
    let is_float = dtype.is_float();
    let pick = |float: &'static str, int: &'static str| if is_float { float } else { int };
    match op {
        BinaryOp::Add => pick("arith.addf", "arith.addi"),
        BinaryOp::Sub => pick("arith.subf", "arith.subi"),
        BinaryOp::Mul => pick("arith.mulf", "arith.muli"),
        BinaryOp::Div => pick("arith.divf", "arith.divsi"),
        BinaryOp::Rem => "arith.remsi",
        BinaryOp::Max => pick("arith.maximumf", "arith.maxsi"),
        BinaryOp::Min => pick("arith.minimumf", "arith.minsi"),
        BinaryOp::And => "arith.andi",
        BinaryOp::Or => "arith.ori",
        BinaryOp::Xor => "arith.xori",
        BinaryOp::ShiftRight => "arith.shrui",
    }
}

fn comparison(how: CompareOp, dtype: DType) -> &'static str {
    let pick = |float: &'static str, int: &'static str| if dtype.is_float() { float } else { int };
    match how {
        CompareOp::Eq => pick("arith.cmpf oeq", "arith.cmpi eq"),
        CompareOp::Ne => pick("arith.cmpf une", "arith.cmpi ne"),
        CompareOp::Lt => pick("arith.cmpf olt", "arith.cmpi slt"),
        CompareOp::Le => pick("arith.cmpf ole", "arith.cmpi sle"),
        CompareOp::Gt => pick("arith.cmpf ogt", "arith.cmpi sgt"),
        CompareOp::Ge => pick("arith.cmpf oge", "arith.cmpi sge"),
    }
}

/// The next step from one type towards another, and the type it leads to.
fn conversion(from: DType, to: DType) -> (&'static str, DType) {
    match (from, to) {
        (DType::F32, DType::BF16) => ("arith.truncf", DType::BF16),
        (DType::BF16 | DType::F8E4M3FN | DType::F8E5M2, _) => ("arith.extf", DType::F32),
        (DType::F32, _) => ("arith.fptosi", DType::I32),
        (DType::I8 | DType::I4, _) => ("arith.extsi", DType::I32),
        (DType::Bool, _) => ("arith.extui", DType::I32),
        (_, DType::I8) => ("arith.trunci", DType::I8),
        (_, DType::Bool) => ("arith.cmpi ne", DType::Bool),
        _ => ("arith.sitofp", DType::F32),
    }
}
