//! Kernels for NVIDIA GPUs as programs of Triton, which XLA's GPU compiler compiles beside its own: the ops that kernels here need, written
//! as text of its `tt` dialect.

use std::fmt::Write;

use hlo::{Attr, Attrs, FuncBuilder, OpKind, Type, Value};
use tensor::{DType, Spec};

use crate::call::{aliases, layouts, static_spec, tensor_type};
use crate::error::Error;

/// What XLA's GPU compiler compiles as a program of Triton.
const TARGET: &str = "__gpu$xla.gpu.triton";

/// What a value of a program is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    I1,
    I32,
    I64,
    F32,
    Bf16,
    F16,
    /// The address of a number in the GPU's memory.
    Address(DType),
}

impl Element {
    pub(super) fn of(dtype: DType) -> Option<Element> {
        Some(match dtype {
            DType::I32 => Element::I32,
            DType::F32 => Element::F32,
            DType::BF16 => Element::Bf16,
            DType::F16 => Element::F16,
            _ => return None,
        })
    }

    fn text(self) -> String {
        match self {
            Element::I1 => "i1".into(),
            Element::I32 => "i32".into(),
            Element::I64 => "i64".into(),
            Element::F32 => "f32".into(),
            Element::Bf16 => "bf16".into(),
            Element::F16 => "f16".into(),
            Element::Address(dtype) => format!("!tt.ptr<{}>", dtype.name()),
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Element::F32 | Element::Bf16 | Element::F16)
    }
}

/// A value of a program: a number, or a tile of numbers; its sizes are powers of two.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    name: String,
    dims: Vec<usize>,
    element: Element,
}

impl Tile {
    fn ty(&self) -> String {
        type_text(&self.dims, self.element)
    }
}

fn type_text(dims: &[usize], element: Element) -> String {
    if dims.is_empty() {
        return element.text();
    }
    let sizes: String = dims.iter().map(|size| format!("{size}x")).collect();
    format!("tensor<{sizes}{}>", element.text())
}

/// Where a program runs: how many of it, and how many threads each has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    pub(super) grid: [usize; 3],
    pub(super) warps: usize,
    /// Loads that are under way while a loop computes.
    pub(super) stages: usize,
}

/// A program that is being written. All of its ops take numbers and tiles alike, and widen them to the larger of two.
#[derive(Debug)]
pub(super) struct Program {
    name: String,
    text: String,
    count: usize,
    arguments: Vec<String>,
}

impl Program {
    pub(super) fn new(name: &str) -> Program {
        Program { name: name.to_owned(), text: String::new(), count: 0, arguments: Vec::new() }
    }

    /// The address of the next operand, or, after those, of the next result.
    pub(super) fn argument(&mut self, dtype: DType) -> Tile {
        let name = format!("%a{}", self.arguments.len());
        let element = Element::Address(dtype);
        self.arguments.push(format!("{name}: {} {{tt.divisibility = 16 : i32}}", element.text()));
        Tile { name, dims: Vec::new(), element }
    }

    fn op(&mut self, op: &str, dims: &[usize], element: Element) -> Tile {
        let name = format!("%{}", self.count);
        self.count += 1;
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{name} = {op}");
        Tile { name, dims: dims.to_vec(), element }
    }

    /// The number of this program along an axis of the grid.
    pub(super) fn program_id(&mut self, axis: usize) -> Tile {
        let axis = ["x", "y", "z"].get(axis).copied().unwrap_or("x");
        self.op(&format!("tt.get_program_id {axis} : i32"), &[], Element::I32)
    }

    pub(super) fn int(&mut self, number: usize) -> Tile {
        self.op(&format!("arith.constant {number} : i32"), &[], Element::I32)
    }

    pub(super) fn float(&mut self, number: f32) -> Tile {
        self.op(&format!("arith.constant 0x{:08X} : f32", number.to_bits()), &[], Element::F32)
    }

    /// A tile of one number.
    pub(super) fn filled(&mut self, number: f32, dims: &[usize]) -> Tile {
        let number = self.float(number);
        self.spread(&number, dims)
    }

    /// 0, 1, 2, …
    pub(super) fn range(&mut self, size: usize) -> Tile {
        let dims = [size];
        let ty = type_text(&dims, Element::I32);
        self.op(&format!("tt.make_range {{end = {size} : i32, start = 0 : i32}} : {ty}"), &dims, Element::I32)
    }

    /// With a further axis of one.
    pub(super) fn expand(&mut self, tile: &Tile, axis: usize) -> Tile {
        let mut dims = tile.dims.clone();
        dims.insert(axis.min(dims.len()), 1);
        let to = type_text(&dims, tile.element);
        let op = format!("tt.expand_dims {} {{axis = {axis} : i32}} : {} -> {to}", tile.name, tile.ty());
        self.op(&op, &dims, tile.element)
    }

    fn spread(&mut self, tile: &Tile, dims: &[usize]) -> Tile {
        if tile.dims == dims {
            return tile.clone();
        }
        let op = if tile.dims.is_empty() { "tt.splat" } else { "tt.broadcast" };
        let to = type_text(dims, tile.element);
        self.op(&format!("{op} {} : {} -> {to}", tile.name, tile.ty()), dims, tile.element)
    }

    /// Both, of the sizes of the larger.
    fn alike(&mut self, a: &Tile, b: &Tile) -> (Tile, Tile) {
        let dims: Vec<usize> = match (a.dims.is_empty(), b.dims.is_empty()) {
            (true, _) => b.dims.clone(),
            (_, true) => a.dims.clone(),
            _ => a.dims.iter().zip(&b.dims).map(|(a, b)| *a.max(b)).collect(),
        };
        (self.spread(a, &dims), self.spread(b, &dims))
    }

    fn binary(&mut self, ints: &str, floats: &str, a: &Tile, b: &Tile) -> Tile {
        let (a, b) = self.alike(a, b);
        let op = if a.element.is_float() { floats } else { ints };
        self.op(&format!("{op} {}, {} : {}", a.name, b.name, a.ty()), &a.dims, a.element)
    }

    pub(super) fn add(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.binary("arith.addi", "arith.addf", a, b)
    }

    pub(super) fn sub(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.binary("arith.subi", "arith.subf", a, b)
    }

    pub(super) fn mul(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.binary("arith.muli", "arith.mulf", a, b)
    }

    pub(super) fn div(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.binary("arith.divsi", "arith.divf", a, b)
    }

    pub(super) fn rem(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.binary("arith.remsi", "arith.remf", a, b)
    }

    pub(super) fn min(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.binary("arith.minsi", "arith.minnumf", a, b)
    }

    pub(super) fn max(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.binary("arith.maxsi", "arith.maxnumf", a, b)
    }

    pub(super) fn and(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.binary("arith.andi", "arith.andi", a, b)
    }

    fn compare(&mut self, predicate: &str, a: &Tile, b: &Tile) -> Tile {
        let (a, b) = self.alike(a, b);
        let op = if a.element.is_float() { "arith.cmpf o" } else { "arith.cmpi s" };
        let op = op.strip_suffix('s').filter(|_| predicate == "eq").unwrap_or(op);
        self.op(&format!("{op}{predicate}, {}, {} : {}", a.name, b.name, a.ty()), &a.dims, Element::I1)
    }

    pub(super) fn less(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.compare("lt", a, b)
    }

    pub(super) fn less_equal(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.compare("le", a, b)
    }

    pub(super) fn equal(&mut self, a: &Tile, b: &Tile) -> Tile {
        self.compare("eq", a, b)
    }

    pub(super) fn select(&mut self, is: &Tile, yes: &Tile, no: &Tile) -> Tile {
        let (yes, no) = self.alike(yes, no);
        let (is, yes) = self.alike(is, &yes);
        let (_, no) = self.alike(&is, &no);
        let op = format!("arith.select {}, {}, {} : {}, {}", is.name, yes.name, no.name, is.ty(), yes.ty());
        self.op(&op, &yes.dims, yes.element)
    }

    pub(super) fn exp2(&mut self, a: &Tile) -> Tile {
        self.op(&format!("math.exp2 {} : {}", a.name, a.ty()), &a.dims, a.element)
    }

    pub(super) fn log2(&mut self, a: &Tile) -> Tile {
        self.op(&format!("math.log2 {} : {}", a.name, a.ty()), &a.dims, a.element)
    }

    /// In 64 bits.
    pub(super) fn wide(&mut self, a: &Tile) -> Tile {
        let to = type_text(&a.dims, Element::I64);
        self.op(&format!("arith.extsi {} : {} to {to}", a.name, a.ty()), &a.dims, Element::I64)
    }

    /// `f32` in a type of floats.
    pub(super) fn narrowed(&mut self, a: &Tile, element: Element) -> Tile {
        if a.element == element {
            return a.clone();
        }
        let to = type_text(&a.dims, element);
        self.op(&format!("arith.truncf {} : {} to {to}", a.name, a.ty()), &a.dims, element)
    }

    /// Floats of 16 bits in `f32`.
    pub(super) fn widened(&mut self, a: &Tile) -> Tile {
        if a.element == Element::F32 {
            return a.clone();
        }
        let to = type_text(&a.dims, Element::F32);
        self.op(&format!("arith.extf {} : {} to {to}", a.name, a.ty()), &a.dims, Element::F32)
    }

    /// The largest number, or the sum, along an axis.
    fn reduce(&mut self, combine: &str, a: &Tile, axis: usize) -> Tile {
        let mut dims = a.dims.clone();
        dims.remove(axis);
        let (element, to) = (a.element.text(), type_text(&dims, a.element));
        let op = format!(
            "\"tt.reduce\"({}) <{{axis = {axis} : i32}}> ({{\n^bb0(%l: {element}, %r: {element}):\n%c = {combine} %l, %r : {element}\n\
             tt.reduce.return %c : {element}\n}}) : ({}) -> {to}",
            a.name,
            a.ty()
        );
        self.op(&op, &dims, a.element)
    }

    pub(super) fn largest(&mut self, a: &Tile, axis: usize) -> Tile {
        self.reduce("arith.maxnumf", a, axis)
    }

    pub(super) fn sum(&mut self, a: &Tile, axis: usize) -> Tile {
        self.reduce("arith.addf", a, axis)
    }

    /// A matrix with its axes exchanged.
    pub(super) fn transpose(&mut self, a: &Tile) -> Tile {
        let dims: Vec<usize> = a.dims.iter().rev().copied().collect();
        let to = type_text(&dims, a.element);
        self.op(&format!("tt.trans {} {{order = array<i32: 1, 0>}} : {} -> {to}", a.name, a.ty()), &dims, a.element)
    }

    /// `a · b + c`, in `f32`.
    pub(super) fn dot(&mut self, a: &Tile, b: &Tile, c: &Tile) -> Tile {
        let op = format!("tt.dot {}, {}, {} : {} * {} -> {}", a.name, b.name, c.name, a.ty(), b.ty(), c.ty());
        self.op(&op, &c.dims, c.element)
    }

    /// Addresses so many numbers further.
    pub(super) fn offset(&mut self, address: &Tile, by: &Tile) -> Tile {
        let (address, by) = self.alike(address, by);
        let op = format!("tt.addptr {}, {} : {}, {}", address.name, by.name, address.ty(), by.ty());
        self.op(&op, &address.dims, address.element)
    }

    fn loaded(address: &Tile) -> Element {
        match address.element {
            Element::Address(dtype) => Element::of(dtype).unwrap_or(Element::F32),
            other => other,
        }
    }

    /// What lies at an address.
    pub(super) fn load(&mut self, address: &Tile) -> Tile {
        let element = Program::loaded(address);
        self.op(&format!("tt.load {} : {}", address.name, address.ty()), &address.dims, element)
    }

    /// What lies at addresses, and 0 where a mask is not set.
    pub(super) fn load_where(&mut self, address: &Tile, mask: &Tile) -> Tile {
        let (address, mask) = self.alike(address, mask);
        let element = Program::loaded(&address);
        let ty = type_text(&address.dims, element);
        let zero = if element.is_float() { "0.0" } else { "0" };
        let other = match address.dims.is_empty() {
            true => self.op(&format!("arith.constant {zero} : {ty}"), &[], element),
            false => self.op(&format!("arith.constant dense<{zero}> : {ty}"), &address.dims, element),
        };
        let op = format!("tt.load {}, {}, {} : {}", address.name, mask.name, other.name, address.ty());
        self.op(&op, &address.dims, element)
    }

    /// Writes one number, or as many as there are addresses.
    pub(super) fn store(&mut self, address: &Tile, value: &Tile) {
        let value = self.spread(value, &address.dims);
        let _ = writeln!(self.text, "tt.store {}, {} : {}", address.name, value.name, address.ty());
    }

    /// Writes where a mask is set.
    pub(super) fn store_where(&mut self, address: &Tile, value: &Tile, mask: &Tile) {
        let (address, mask) = self.alike(address, mask);
        let value = self.spread(value, &address.dims);
        let _ = writeln!(self.text, "tt.store {}, {}, {} : {}", address.name, value.name, mask.name, address.ty());
    }

    /// A loop from a number to another, which carries values.
    pub(super) fn repeat<const N: usize>(
        &mut self,
        from: &Tile,
        to: &Tile,
        carried: [Tile; N],
        body: impl FnOnce(&mut Program, &Tile, [Tile; N]) -> [Tile; N],
    ) -> [Tile; N] {
        let one = self.int(1);
        let number = self.count;
        self.count += 1;
        let inner: [Tile; N] = std::array::from_fn(|n| Tile { name: format!("%i{number}_{n}"), ..carried[n].clone() });
        let types = carried.iter().map(Tile::ty).collect::<Vec<_>>().join(", ");
        let init: Vec<String> =
            inner.iter().zip(&carried).map(|(inner, c)| format!("{} = {}", inner.name, c.name)).collect();
        let step = Tile { name: format!("%n{number}"), dims: Vec::new(), element: Element::I32 };
        let _ = writeln!(
            self.text,
            "%r{number}:{N} = scf.for {} = {} to {} step {} iter_args({}) -> ({types}) : i32 {{",
            step.name,
            from.name,
            to.name,
            one.name,
            init.join(", ")
        );
        let next = body(self, &step, inner);
        let names: Vec<&str> = next.iter().map(|tile| tile.name.as_str()).collect();
        let _ = writeln!(self.text, "scf.yield {} : {types}\n}}", names.join(", "));
        std::array::from_fn(|n| Tile { name: format!("%r{number}#{n}"), ..carried[n].clone() })
    }

    /// The whole program.
    pub(super) fn text(&self) -> String {
        let Program { name, text, arguments, .. } = self;
        format!("module {{\ntt.func public @{name}({}) {{\n{text}tt.return\n}}\n}}\n", arguments.join(", "))
    }

    /// Calls it in a function: its operands are the first arguments, its results the others. `in_place` has pairs of an operand and the
    /// result that takes its place.
    pub(super) fn call<const N: usize>(
        &self,
        function: &mut FuncBuilder,
        launch: Launch,
        operands: &[Value],
        results: [Spec; N],
        in_place: &[(usize, usize)],
    ) -> Result<[Value; N], Error> {
        let [x, y, z] = launch.grid;
        let text = self.text().replace('\n', "\\0A").replace('"', "\\22");
        let config = format!(
            "{{debug = false, grid_x = {x} : i32, grid_y = {y} : i32, grid_z = {z} : i32, ir = \"{text}\", name = \"{}\", \
             num_stages = {} : i32, num_warps = {} : i32}}",
            self.name, launch.stages, launch.warps
        );
        let types: Vec<Type> = results.iter().map(tensor_type).collect();
        let given: Vec<Spec> = operands.iter().filter_map(|&value| static_spec(function.ty(value))).collect();
        let mut attrs = Attrs::new();
        attrs.set("call_target_name", Attr::string(TARGET));
        attrs.set("api_version", Attr::i32(1));
        attrs.set("backend_config", Attr::string(config.as_str()));
        attrs.set("operand_layouts", layouts(&given));
        attrs.set("result_layouts", layouts(&results));
        if !in_place.is_empty() {
            attrs.set("output_operand_aliases", aliases(in_place, N));
        }
        let broken = |violation: &dyn std::fmt::Debug| Error::Internal(format!("a call of a program: {violation:?}"));
        let made = function.op_with_types(OpKind::CustomCall, operands, attrs, &[], types).map_err(|v| broken(&v))?;
        <[Value; N]>::try_from(&made[..]).map_err(|_| broken(&"results"))
    }
}
