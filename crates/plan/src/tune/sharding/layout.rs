//! Other ways to split the same program over the same devices: meshes of other sizes, weights and optimizer state over the axes of the
//! batch, tensor-parallel axes on other dimensions.

use compile::Program;
use compile::optimize::inlined_but_kernels;
use hlo::{Func, Type};

use super::annotated::{Annotated, AxisSpec, MeshAxes};
use crate::error::Error;
use crate::memory::{BufferClass, ProgramArgument, arguments};
use crate::search::flow::{Flow, Use, UseKind};
use crate::search::gather::{gather_where_read, sum_rows_in_place};
use crate::tune::change::{Attempt, Changed};

/// Weights smaller than this stay as they are: gathering them costs more in latency than they take in memory.
const SMALL_BYTES: u64 = 1 << 20;
/// Other meshes that are tried, nearest first.
const MOST_MESHES: usize = 6;
/// Groups of equal weights that are tried one by one, largest first.
const MOST_GROUPS: usize = 6;

/// Another way to split a program. It is made for one program, and applies to the same program at other sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) name: String,
    pub(super) reason: &'static str,
    /// The mesh of the program.
    from: MeshAxes,
    /// Devices along each axis.
    sizes: Vec<i64>,
    arguments: Vec<(usize, AxisSpec)>,
    results: Vec<(usize, AxisSpec)>,
    /// Axes over which the weights among the arguments are gathered where they are read.
    gathered: Vec<usize>,
}

impl Layout {
    /// The mesh of a program with this layout.
    pub(super) fn mesh(&self) -> MeshAxes {
        self.from.iter().zip(&self.sizes).map(|((name, _), size)| (name.clone(), *size)).collect()
    }
}

/// What layouts are made from.
pub(super) struct Ground {
    pub(super) annotated: Annotated,
    pub(super) arguments: Vec<ProgramArgument>,
    pub(super) types: Vec<Type>,
    outputs: Vec<Type>,
    /// Dimensions of each argument that loops step through: layers, never split.
    stepped: Vec<Vec<usize>>,
    /// Axes that split the batch.
    data: Vec<usize>,
}

impl Ground {
    pub(super) fn of(program: &Program, mesh: Option<&MeshAxes>) -> Result<Result<Ground, String>, Error> {
        let annotated = match Annotated::read(program, mesh) {
            Ok(annotated) => annotated,
            Err(reason) => return Ok(Err(reason)),
        };
        let inlined = inlined_but_kernels(program.verified())?;
        let Some(func) = inlined.entry() else { return Ok(Err("there is no entry function".into())) };
        let arguments = arguments(program.module());
        let inputs = arguments.iter().zip(&annotated.arguments).filter(|(argument, _)| !is_state(argument));
        let mut data: Vec<usize> = inputs.filter_map(|(_, spec)| spec.as_ref()).flatten().flatten().copied().collect();
        data.sort_unstable();
        data.dedup();
        let stepped = Flow::of(func).stepped;
        let (types, outputs) = (func.inputs.clone(), func.outputs.clone());
        Ok(Ok(Ground { annotated, arguments, types, outputs, stepped, data }))
    }

    /// Meshes and what is split over the axes of the batch.
    pub(super) fn layouts(&self) -> Vec<Layout> {
        let given = self.annotated.sizes();
        let mut all = Vec::new();
        let over = self.data.iter().filter_map(|axis| self.annotated.axes.get(*axis)).map(|(name, _)| name.as_str());
        let over = over.collect::<Vec<_>>().join(", ");
        for sizes in meshes(&given) {
            let is_given = sizes == given;
            let mut annotated = self.annotated.clone();
            annotated.axes.iter_mut().zip(&sizes).for_each(|(axis, size)| axis.1 = *size);
            let mesh = if is_given { String::new() } else { format!("mesh {}", annotated.mesh_name()) };
            let named = |what: &str| match (is_given, what) {
                (true, what) => what.to_string(),
                (false, "") => mesh.clone(),
                (false, what) => format!("{mesh}, {what}"),
            };
            let mut add = |name: String, reason, specs: Vec<(usize, AxisSpec)>, gathered: &[usize]| {
                if is_given && specs.is_empty() {
                    return;
                }
                let results = self.results_of(&specs);
                let gathered = gathered.to_vec();
                let (from, sizes) = (self.annotated.axes.clone(), sizes.clone());
                let layout = Layout { name, reason, from, sizes, arguments: specs, results, gathered };
                if self.divides(&annotated, &layout) {
                    all.push(layout);
                }
            };
            if !is_given {
                add(named(""), MESH, Vec::new(), &[]);
            }
            let state = |classes: &[BufferClass]| self.split_over_data(&annotated, classes);
            let (weights, moments) = (BufferClass::Parameters, BufferClass::OptimizerState);
            let fully = state(&[weights, moments]);
            if is_given {
                add(named(&format!("fully sharded over {over}")), FULLY, fully.clone(), &[]);
                add(named(&format!("weights whole along {over}")), REPLICATED, self.whole_along_data(), &[]);
                let weights = self.split_weights();
                add(named(&format!("weights split over {over} gathered where read")), GATHERED, weights, &self.data);
            }
            if !fully.is_empty() {
                let name = named(&format!("fully sharded over {over}, gathered where read"));
                add(name, GATHERED, fully, &self.data);
                add(named(&format!("optimizer state sharded over {over}")), MOMENTS, state(&[moments]), &[]);
            }
        }
        all
    }

    /// Each group of equal weights with a tensor-parallel axis on another dimension, or on none.
    pub(super) fn groups(&self) -> Vec<Layout> {
        let tensor = self.tensor_axes();
        let mut groups: Vec<(u64, &Type, AxisSpec, Vec<usize>)> = Vec::new();
        for (n, argument) in self.arguments.iter().enumerate().filter(|(_, argument)| is_state(argument)) {
            let Some(ty) = self.types.get(n) else { continue };
            let bytes = crate::search::argument_bytes(ty);
            let spec = self.spec(n);
            if bytes < SMALL_BYTES || argument.class == BufferClass::CarriedState {
                continue;
            }
            match groups.iter_mut().find(|group| group.1 == ty && group.2 == spec) {
                Some(group) => {
                    group.0 = group.0.saturating_add(bytes);
                    group.3.push(n);
                }
                None => groups.push((bytes, ty, spec, vec![n])),
            }
        }
        groups.sort_by_key(|group| (std::cmp::Reverse(group.0), group.3.clone()));
        let mut all = Vec::new();
        for (_, ty, spec, members) in groups.into_iter().take(MOST_GROUPS) {
            for &axis in &tensor {
                let without: AxisSpec =
                    spec.iter().map(|axes| axes.iter().copied().filter(|other| *other != axis).collect()).collect();
                let mut others = vec![without.clone()];
                for dim in (0..without.len()).filter(|dim| !self.is_stepped(members[0], *dim)) {
                    let mut other = without.clone();
                    other[dim].push(axis);
                    others.push(other);
                }
                for other in others.into_iter().filter(|other| *other != spec) {
                    if self.annotated.check(ty, &other).is_err() {
                        continue;
                    }
                    let arguments: Vec<(usize, AxisSpec)> = members.iter().map(|n| (*n, other.clone())).collect();
                    let spelled = |spec: &AxisSpec| self.annotated.partition_spec(spec);
                    all.push(Layout {
                        name: format!("{} arrays {ty}: {} for {}", members.len(), spelled(&other), spelled(&spec)),
                        reason: TENSOR,
                        from: self.annotated.axes.clone(),
                        sizes: self.annotated.sizes(),
                        results: self.results_of(&arguments),
                        arguments,
                        gathered: Vec::new(),
                    });
                }
            }
        }
        all
    }

    /// Axes that split weights and not the batch.
    pub(super) fn tensor_axes(&self) -> Vec<usize> {
        let specs = self.annotated.arguments.iter().zip(&self.arguments);
        let weights = specs.filter(|(_, argument)| argument.class == BufferClass::Parameters);
        let mut axes: Vec<usize> = weights.filter_map(|(spec, _)| spec.as_ref()).flatten().flatten().copied().collect();
        axes.sort_unstable();
        axes.dedup();
        axes.retain(|axis| !self.data.contains(axis) && self.annotated.parts(&[*axis]) > 1);
        axes
    }

    pub(super) fn spec(&self, argument: usize) -> AxisSpec {
        let rank = self.types.get(argument).and_then(Type::as_tensor).map_or(0, |ty| ty.rank());
        self.annotated.arguments.get(argument).cloned().flatten().unwrap_or_else(|| vec![Vec::new(); rank])
    }

    fn is_stepped(&self, argument: usize, dim: usize) -> bool {
        self.stepped.get(argument).is_some_and(|dims| dims.contains(&dim))
    }

    /// Results that take the place of arguments are split as these.
    fn results_of(&self, specs: &[(usize, AxisSpec)]) -> Vec<(usize, AxisSpec)> {
        let of = |(n, spec): &(usize, AxisSpec)| {
            let result = self.arguments.get(*n)?.replaced_by?;
            (self.outputs.get(result) == self.types.get(*n)).then(|| (result, spec.clone()))
        };
        specs.iter().filter_map(of).collect()
    }

    /// Large arrays of some classes, split over the axes of the batch that they do not use yet: along a dimension that nothing splits
    /// if there is one, and the largest of these.
    fn split_over_data(&self, annotated: &Annotated, classes: &[BufferClass]) -> Vec<(usize, AxisSpec)> {
        let mut all = Vec::new();
        for (n, argument) in self.arguments.iter().enumerate() {
            let Some(tensor) = self.types.get(n).and_then(Type::as_tensor) else { continue };
            let bytes = self.types.get(n).map_or(0, crate::search::argument_bytes);
            if !classes.contains(&argument.class) || bytes < SMALL_BYTES {
                continue;
            }
            let mut spec = self.spec(n);
            let free: Vec<usize> =
                self.data.iter().copied().filter(|axis| !spec.iter().flatten().any(|used| used == axis)).collect();
            if annotated.parts(&free) < 2 || spec.len() != tensor.rank() {
                continue;
            }
            let fits = |dim: &usize| {
                let parts = annotated.parts(&spec[*dim]).saturating_mul(annotated.parts(&free));
                !self.is_stepped(n, *dim) && tensor.dims[*dim] % parts == 0
            };
            let best = (0..tensor.rank())
                .filter(fits)
                .max_by_key(|dim| (annotated.parts(&spec[*dim]) == 1, tensor.dims[*dim], std::cmp::Reverse(*dim)));
            if let Some(dim) = best {
                spec[dim].extend(free);
                all.push((n, spec));
            }
        }
        all
    }

    /// Weights that are split over the axes of the batch, as they are.
    fn split_weights(&self) -> Vec<(usize, AxisSpec)> {
        let is_weight = |n: &usize| self.arguments.get(*n).is_some_and(|it| it.class == BufferClass::Parameters);
        let all = (0..self.arguments.len()).filter(is_weight).map(|n| (n, self.spec(n)));
        all.filter(|(_, spec)| spec.iter().flatten().any(|axis| self.data.contains(axis))).collect()
    }

    /// Weights and their state without the axes of the batch.
    fn whole_along_data(&self) -> Vec<(usize, AxisSpec)> {
        let mut all = Vec::new();
        for (n, argument) in self.arguments.iter().enumerate() {
            let spec = self.spec(n);
            let uses = spec.iter().flatten().any(|axis| self.data.contains(axis));
            if uses && matches!(argument.class, BufferClass::Parameters | BufferClass::OptimizerState) {
                let without =
                    |axes: &Vec<usize>| axes.iter().copied().filter(|axis| !self.data.contains(axis)).collect();
                all.push((n, spec.iter().map(without).collect()));
            }
        }
        all
    }

    /// Whether all arguments and results split evenly.
    fn divides(&self, annotated: &Annotated, layout: &Layout) -> bool {
        let all = |types: &[Type], given: &[Option<AxisSpec>], new: &[(usize, AxisSpec)]| {
            types.iter().enumerate().all(|(n, ty)| {
                let new = new.iter().find(|(at, _)| *at == n).map(|(_, spec)| spec);
                let spec = new.or_else(|| given.get(n).and_then(Option::as_ref));
                spec.is_none_or(|spec| annotated.check(ty, spec).is_ok())
            })
        };
        all(&self.types, &self.annotated.arguments, &layout.arguments)
            && all(&self.outputs, &self.annotated.results, &layout.results)
    }
}

const MESH: &str = "fewer devices along an axis send less over it, and more over the other one";
const FULLY: &str =
    "weights and optimizer state that several devices hold whole are split, and gathered when needed (FSDP)";
const GATHERED: &str = "a constraint where a matmul reads a weight that is split over the axes of the batch: the weight moves, not the batch";
const MOMENTS: &str = "each device updates a part of the weights, so gradients are scattered, not copied (ZeRO-1)";
const REPLICATED: &str = "weights that are whole need no gathering (data parallelism)";
const TENSOR: &str = "another dimension decides which results are sums over devices, and which arrays are gathered";

fn is_state(argument: &ProgramArgument) -> bool {
    argument.class != BufferClass::Inputs
}

/// Meshes of as many devices along the same axes, the given one first, then by how far they are from it.
fn meshes(given: &[i64]) -> Vec<Vec<i64>> {
    let devices = given.iter().copied().fold(1, i64::saturating_mul);
    let mut all: Vec<Vec<i64>> = vec![Vec::new()];
    for place in 0..given.len() {
        let mut next = Vec::new();
        for sizes in all {
            let rest = devices / sizes.iter().product::<i64>().max(1);
            let choices: Vec<i64> = match place + 1 == given.len() {
                true => vec![rest],
                false => (1..=rest).filter(|size| rest % size == 0).collect(),
            };
            next.extend(choices.into_iter().map(|size| [sizes.as_slice(), &[size]].concat()));
        }
        next.truncate(4096);
        all = next;
    }
    let distance = |sizes: &Vec<i64>| -> f64 {
        sizes.iter().zip(given).map(|(a, b)| ((*a as f64).ln() - (*b as f64).ln()).abs()).sum()
    };
    all.sort_by(|a, b| distance(a).total_cmp(&distance(b)).then_with(|| a.cmp(b)));
    all.truncate(MOST_MESHES + 1);
    all
}

/// A program with another layout.
pub(super) fn apply(program: &Program, layout: &Layout) -> Attempt {
    let mut annotated = match Annotated::read(program, Some(&layout.from)) {
        Ok(annotated) => annotated,
        Err(reason) => return Ok(Err(reason)),
    };
    if annotated.axes.len() != layout.sizes.len() {
        return Ok(Err("the mesh has other axes".into()));
    }
    let classes = arguments(program.module());
    let module =
        if layout.gathered.is_empty() { program.verified().clone() } else { inlined_but_kernels(program.verified())? };
    let mut module = module.into_inner();
    if annotated.sizes() != layout.sizes
        && let Err(reason) = annotated.resize(&mut module, &layout.sizes)
    {
        return Ok(Err(reason));
    }
    let name = module.entry().map(|func| func.name.clone());
    let Some(func) = module.funcs.iter_mut().find(|func| Some(&func.name) == name.as_ref()) else {
        return Ok(Err("there is no entry function".into()));
    };
    let (inputs, outputs) = (func.inputs.len(), func.outputs.len());
    func.input_attrs.resize_with(inputs, Default::default);
    func.output_attrs.resize_with(outputs, Default::default);
    if let Err(reason) = set(func, &annotated, layout) {
        return Ok(Err(reason));
    }
    if !layout.gathered.is_empty() {
        let flow = Flow::of(func);
        let constraint = |argument: usize, dims: &[Option<usize>]| {
            let (_, spec) = layout.arguments.iter().find(|(n, _)| *n == argument)?;
            if classes.get(argument)?.class != BufferClass::Parameters {
                return None;
            }
            let kept =
                |axes: &Vec<usize>| axes.iter().copied().filter(|axis| !layout.gathered.contains(axis)).collect();
            let of = |dim: &Option<usize>| dim.and_then(|dim| spec.get(dim)).map_or_else(Vec::new, kept);
            Some(annotated.constraint(&dims.iter().map(of).collect()))
        };
        gather_where_read(func, &flow, constraint);
        let looked_up: Vec<&Use> = flow.uses.iter().filter(|site| site.kind == UseKind::LookUp).collect();
        sum_rows_in_place(func, &looked_up, constraint);
        func.renumber();
    }
    let is_new = |(n, spec): &&(usize, AxisSpec)| annotated.arguments.get(*n).cloned().flatten().as_ref() != Some(spec);
    let changed = layout.arguments.iter().filter(is_new).count();
    let mut detail = format!("{changed} arguments are split in another way");
    if !layout.gathered.is_empty() {
        detail.push_str(", weights gathered by with_sharding_constraint where matmuls and look-ups read them");
    }
    if layout.arguments.is_empty() {
        detail = "all shardings stay as they are, over a mesh of other sizes".into();
    }
    Ok(Ok(Changed { program: Program::from_module(hlo::verify(module)?), detail }))
}

/// Writes the shardings of arguments and results.
fn set(func: &mut Func, annotated: &Annotated, layout: &Layout) -> Result<(), String> {
    let other = || "the program has other arguments".to_string();
    for (n, spec) in &layout.arguments {
        annotated.check(func.inputs.get(*n).ok_or_else(other)?, spec)?;
        annotated.set(&mut func.input_attrs[*n], spec);
    }
    for (n, spec) in &layout.results {
        annotated.check(func.outputs.get(*n).ok_or_else(other)?, spec)?;
        annotated.set(&mut func.output_attrs[*n], spec);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use runtime::Backend;
    use runtime::config::{Config, Mode, Target};
    use runtime::optimize::compare_programs;
    use tensor::Literal;

    use super::*;

    /// A training step of two layers on 2 × 4 devices, split as in Megatron, as JAX exports it for either partitioner.
    const STEPS: [&str; 2] = [
        include_str!("../../../tests/data/megatron_step.mlir"),
        include_str!("../../../tests/data/megatron_step_gspmd.mlir"),
    ];

    fn read(text: &str) -> (Program, Ground) {
        let program = Program::read(text.as_bytes().to_vec()).unwrap();
        let ground = Ground::of(&program, None).unwrap().unwrap_or_else(|reason| panic!("{reason}"));
        (program, ground)
    }

    fn applied(program: &Program, layout: &Layout) -> Program {
        apply(program, layout).unwrap().unwrap_or_else(|reason| panic!("{}: {reason}", layout.name)).program
    }

    #[test]
    fn both_partitioners_give_the_same_layouts() {
        let names = |text: &str| -> Vec<String> {
            let ground = read(text).1;
            ground.layouts().into_iter().chain(ground.groups()).map(|layout| layout.name).collect()
        };
        let shardy = names(STEPS[0]);
        let gspmd = names(STEPS[1]);
        let renamed = |name: &String| {
            let words =
                [("data=", "x="), ("model=", "y="), ("over data", "over x"), ("'model'", "'y'"), ("'data'", "'x'")];
            words.iter().fold(name.clone(), |name, (from, to)| name.replace(from, to))
        };
        assert_eq!(shardy.iter().map(renamed).collect::<Vec<_>>(), gspmd);
        for expected in [
            "fully sharded over data",
            "fully sharded over data, gathered where read",
            "optimizer state sharded over data",
            "mesh data=4 model=2",
            "mesh data=8 model=1",
            "mesh data=1 model=8",
            "mesh data=8 model=1, fully sharded over data, gathered where read",
        ] {
            assert!(shardy.iter().any(|name| name == expected), "{expected}: {shardy:?}");
        }
        // A weight and its momentum move together: to whole, or to the other dimension.
        assert!(
            shardy.iter().any(|name| name == "2 arrays tensor<512x1024xf32>: P('model') for P(None, 'model')"),
            "{shardy:?}"
        );
    }

    #[test]
    fn shardings_are_written_as_the_partitioner_reads_them() {
        for (text, expected) in STEPS.iter().zip([
            "tensor<512x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {\"model\"}]>}",
            "tensor<512x1024xf32> {mhlo.sharding = \"{devices=[2,4]<=[8]}\"}",
        ]) {
            let (program, ground) = read(text);
            let layouts = ground.layouts();
            let of = |name: &str| layouts.iter().find(|layout| layout.name.starts_with(name)).unwrap();
            let printed = hlo::text::print(applied(&program, of("fully sharded")).module());
            assert_eq!(printed.matches(expected).count(), 2, "{printed}");
            let gathered = hlo::text::print(applied(&program, &layouts[1]).module());
            let constraints =
                |text: &str| text.matches("sdy.sharding_constraint").count() + text.matches("@Sharding(").count();
            // Two weights are read by three matmuls: one is read only forward, or only backward.
            assert!(constraints(&gathered) >= constraints(text) + 2, "{gathered}");
            let (before, after) = (program.clone(), applied(&program, of("mesh")));
            let (mesh, changed) = super::super::changes(&before, &after, Some(&of("mesh").mesh()));
            assert!(mesh.is_some() && changed.is_empty(), "{mesh:?} {changed:?}");
            let (mesh, changed) = super::super::changes(&before, &applied(&program, of("fully sharded")), None);
            assert!(mesh.is_none() && changed.len() == 4, "{changed:?}");
            assert!(changed[0].before.starts_with("P(None, '") && changed[0].result == Some(0), "{changed:?}");
        }
    }

    #[test]
    fn every_layout_gives_the_same_results() {
        let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
        for text in STEPS {
            // Layouts are those of the large program; the smaller one runs.
            let ground = read(text).1;
            let small = text.replace("1024", "64").replace("512", "32");
            let program = Program::read(small.into_bytes()).unwrap();
            let sample = |(seed, ty): (usize, &Type)| {
                let dims: Vec<usize> = ty.as_tensor().unwrap().dims.iter().map(|&size| size as usize).collect();
                let numbers =
                    (0..dims.iter().product()).map(|n: usize| 0.1 * ((n * 7 + seed * 13) as f32 * 0.37).sin());
                Arc::new(Literal::from_slice(&numbers.collect::<Vec<f32>>(), dims).unwrap())
            };
            let samples: Vec<Arc<Literal>> =
                program.module().entry().unwrap().inputs.iter().enumerate().map(sample).collect();
            for layout in ground.layouts().into_iter().chain(ground.groups()) {
                let after = applied(&program, &layout);
                let moved = compare_programs(&backend, &program, &after, &samples).unwrap();
                let is_equal = moved.iter().all(|result| result.is_finite && result.deviation <= 1e-4);
                assert!(is_equal && !moved.is_empty(), "{}: {moved:?}", layout.name);
            }
        }
    }

    #[test]
    fn what_does_not_divide_is_no_layout() {
        // 64 rows of a batch are split over at most 64 devices; weights of 511 columns over none.
        let odd =
            STEPS[0].replace("512x1024", "512x1022").replace("1024x512", "1022x512").replace("64x1024", "64x1022");
        let odd = odd.replace("{\"model\"}", "{}").replace("[{}, {}]>}, %arg1", "[{\"model\"}, {}]>}, %arg1");
        let (_, ground) = read(&odd);
        for layout in ground.layouts().iter().chain(&ground.groups()) {
            assert!(ground.divides(&ground.annotated, layout) || layout.sizes != [2, 4], "{}", layout.name);
        }
        let other = read(STEPS[0]).1.layouts();
        let program = Program::read(odd.into_bytes()).unwrap();
        let refused =
            apply(&program, other.iter().find(|layout| layout.name == "fully sharded over data").unwrap()).unwrap();
        assert!(refused.err().is_some_and(|reason| reason.contains("no multiple")), "1022 columns over 4");
    }

    #[test]
    fn meshes_are_ordered_by_distance() {
        assert_eq!(meshes(&[2, 4]), [[2, 4], [1, 8], [4, 2], [8, 1]]);
        assert_eq!(meshes(&[8]), [[8]]);
        let many = meshes(&[16, 4, 4]);
        assert_eq!((many.len(), many[0].as_slice()), (MOST_MESHES + 1, &[16, 4, 4][..]));
        assert!(many.iter().all(|sizes| sizes.iter().product::<i64>() == 256));
    }
}
