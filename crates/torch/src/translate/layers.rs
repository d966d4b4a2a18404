//! Equal layers of a program, found by the numbers in the names of their parameters: they can run as one loop.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use crate::graph::{ExportedProgram, Graph, InputRole, Node, NodeArgument, SymInt};
use crate::translate::ops;

/// Layers of a program that do the same with parameters of their own, and run as one loop over stacked parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerLoop {
    /// The list that the layers are in, such as `transformer.h`.
    pub path: String,
    /// Their numbers there.
    pub numbers: Range<usize>,
    /// Tensors of which each layer has its own.
    pub stacked: Vec<StackedTensor>,
    /// Nodes of the first layer; the others follow without a gap.
    pub(crate) first: Range<usize>,
    /// Values that each layer takes from the one before.
    pub(crate) carried: Vec<CarriedValue>,
    /// Values of all layers that are read after the loop.
    pub(crate) kept: Vec<KeptValue>,
}

/// A tensor of which each layer has its own, as one tensor with an axis of layers first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackedTensor {
    /// As `transformer.h.0-11.ln_1.weight`.
    pub name: String,
    /// Names in the module, layer by layer.
    pub members: Vec<String>,
    /// The graph's name of the second layer's.
    pub(crate) of_body: String,
    /// Whether a layer may write to it.
    pub(crate) is_written: bool,
}

/// A value that goes from layer to layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CarriedValue {
    /// What the first layer takes; none where no layer reads it, and only the last one's is wanted.
    pub(crate) first: Option<String>,
    /// What the second layer takes.
    pub(crate) taken: Option<String>,
    /// What the second layer gives on.
    pub(crate) given: String,
    /// What the last layer gives.
    pub(crate) last: String,
}

/// A value of the second layer, and the names that all layers give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptValue {
    pub(crate) of_body: String,
    pub(crate) names: Vec<String>,
}

impl LayerLoop {
    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Never: a loop has at least two layers.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Nodes of all layers.
    pub(crate) fn nodes(&self) -> Range<usize> {
        self.first.start..self.first.start + self.first.len() * self.len()
    }

    /// Nodes of the second layer, which stands for all.
    pub(crate) fn body(&self) -> Range<usize> {
        self.first.end..self.first.end + self.first.len()
    }
}

impl ExportedProgram {
    /// Layers that do the same, as loops. `single` names tensors that must stay on their own, such as tied weights.
    pub fn layer_loops(&self, single: &BTreeSet<String>) -> Vec<LayerLoop> {
        let finder = Finder::new(self, single);
        let mut found: Vec<LayerLoop> = Vec::new();
        for (path, numbers) in finder.lists() {
            for layers in finder.runs(&path, &numbers) {
                let nodes = layers.nodes();
                let is_free = |other: &LayerLoop| {
                    let taken = other.nodes();
                    nodes.end <= taken.start || taken.end <= nodes.start
                };
                if found.iter().all(is_free) {
                    found.push(layers);
                }
            }
        }
        found.sort_by_key(|layers| layers.first.start);
        found
    }
}

/// Inputs that ops write to, by their names in the module.
pub(crate) fn written_inputs(program: &ExportedProgram) -> Vec<String> {
    let single = BTreeSet::new();
    let finder = Finder::new(program, &single);
    let written: BTreeSet<&str> = finder.writes.iter().flatten().copied().collect();
    written.into_iter().filter_map(|name| finder.own_name(name)).map(str::to_string).collect()
}

/// The name of a stack: the number in the names of its members becomes the range of numbers.
fn stacked_name(members: &[&str], numbers: &Range<usize>) -> Option<String> {
    let split: Vec<Vec<&str>> = members.iter().map(|name| name.split('.').collect()).collect();
    let first = split.first()?;
    let at = (0..first.len()).find(|at| {
        split.iter().zip(numbers.clone()).all(|(words, number)| {
            words.len() == first.len()
                && words[*at] == number.to_string()
                && words.iter().zip(first).enumerate().all(|(n, (a, b))| n == *at || a == b)
        })
    })?;
    let range = format!("{}-{}", numbers.start, numbers.end - 1);
    let words: Vec<&str> =
        first.iter().enumerate().map(|(n, word)| if n == at { range.as_str() } else { word }).collect();
    Some(words.join("."))
}

/// A value by its place: layer, node of the layer, number among the node's results.
type Place = (usize, usize, usize);

struct Finder<'p> {
    program: &'p ExportedProgram,
    graph: &'p Graph,
    single: &'p BTreeSet<String>,
    /// Roles of the graph's inputs.
    roles: HashMap<&'p str, &'p InputRole>,
    /// Nodes that read a value; the graph's results count as one after the last.
    readers: HashMap<&'p str, Vec<usize>>,
    /// The value whose storage a value may share.
    roots: HashMap<&'p str, &'p str>,
    /// Storages that a node may write to.
    writes: Vec<Vec<&'p str>>,
    /// First nodes of numbered modules: by their scope, or because they read a parameter of the module.
    starts: HashMap<String, usize>,
}

impl<'p> Finder<'p> {
    fn new(program: &'p ExportedProgram, single: &'p BTreeSet<String>) -> Finder<'p> {
        let graph = &program.graph;
        let named = graph.inputs.iter().zip(&program.inputs).filter_map(|(input, role)| match input {
            NodeArgument::Tensor(name) => Some((name.as_str(), role)),
            _ => None,
        });
        let mut readers: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut roots: HashMap<&str, &str> = HashMap::new();
        let mut writes = Vec::with_capacity(graph.nodes.len());
        for (n, node) in graph.nodes.iter().enumerate() {
            for name in node.inputs.iter().flat_map(|(_, argument)| names(argument)) {
                readers.entry(name).or_default().push(n);
            }
            let op = ops::Name::of(&node.target);
            let is_in_place = ops::find(&op).is_some_and(|(_, is_in_place)| is_in_place);
            let subject = node.inputs.first().and_then(|(_, argument)| names(argument).first().copied());
            let root = subject.map(|name| roots.get(name).copied().unwrap_or(name));
            if let Some(root) = root.filter(|_| is_in_place || ops::is_view(&op)) {
                for name in node.outputs.iter().flat_map(names) {
                    roots.insert(name, root);
                }
            }
            let mut written: Vec<&str> = root.filter(|_| is_in_place).into_iter().collect();
            if ops::writes_statistics(&op) {
                let statistics = node.inputs.iter().filter(|(name, _)| name.starts_with("running_"));
                written.extend(statistics.flat_map(|(_, argument)| names(argument)));
            }
            writes.push(written);
        }
        for name in graph.outputs.iter().flat_map(names) {
            readers.entry(name).or_default().push(graph.nodes.len());
        }
        let mut finder =
            Finder { program, graph, single, roles: named.collect(), readers, roots, writes, starts: HashMap::new() };
        for (n, node) in graph.nodes.iter().enumerate() {
            let read = node.inputs.iter().flat_map(|(_, argument)| names(argument));
            let read: Vec<&str> = read.filter_map(|name| finder.own_name(name)).collect();
            for place in read.into_iter().chain([node.scope.as_str()]) {
                let mut end = 0;
                for word in place.split('.') {
                    end += word.len();
                    if layer_number(word).is_some()
                        && let Some(layer) = place.get(..end).filter(|layer| !finder.starts.contains_key(*layer))
                    {
                        finder.starts.insert(layer.to_string(), n);
                    }
                    end += 1;
                }
            }
        }
        finder
    }

    fn root(&self, name: &'p str) -> &'p str {
        self.roots.get(name).copied().unwrap_or(name)
    }

    /// The name in the module of a parameter, buffer or constant.
    fn own_name(&self, input: &str) -> Option<&'p str> {
        match self.roles.get(input)? {
            InputRole::Parameter(name) | InputRole::Buffer(name) | InputRole::Constant(name) => Some(name),
            InputRole::User | InputRole::Nothing => None,
        }
    }

    /// Lists of modules, outer ones first: the path, and the numbers in it.
    fn lists(&self) -> Vec<(String, Vec<usize>)> {
        let mut lists: BTreeMap<(usize, String), BTreeSet<usize>> = BTreeMap::new();
        for role in &self.program.inputs {
            let (InputRole::Parameter(name) | InputRole::Buffer(name)) = role else { continue };
            let words: Vec<&str> = name.split('.').collect();
            for (at, word) in words.iter().enumerate().skip(1) {
                if let Some(number) = layer_number(word) {
                    lists.entry((at, words[..at].join("."))).or_default().insert(number);
                }
            }
        }
        lists.into_iter().map(|((_, path), numbers)| (path, numbers.into_iter().collect())).collect()
    }

    /// Runs of equal layers in a list.
    fn runs(&self, path: &str, numbers: &[usize]) -> Vec<LayerLoop> {
        if numbers.len() < 2 || numbers.len() > MAX_LAYERS {
            return Vec::new();
        }
        let starts: Option<Vec<usize>> =
            numbers.iter().map(|number| self.starts.get(&format!("{path}.{number}")).copied()).collect();
        let Some(starts) = starts else { return Vec::new() };
        let mut found = Vec::new();
        let mut at = 0;
        while at + 1 < starts.len() {
            let Some(length) = starts[at + 1].checked_sub(starts[at]).filter(|length| *length > 0) else { break };
            let segment = |n: usize| starts[n]..starts[n] + length;
            let follows = |n: usize| {
                numbers[n] == numbers[n - 1] + 1
                    && starts[n] == starts[n - 1] + length
                    && segment(n).end <= self.graph.nodes.len()
                    && self.is_alike(&segment(at), &segment(n))
            };
            let end = (at + 1..starts.len()).find(|n| !follows(*n)).unwrap_or(starts.len());
            // The ends of a run may read what the others do not.
            let tries = [(at, end), (at, end.saturating_sub(1)), (at + 1, end), (at + 1, end.saturating_sub(1))];
            let run = tries.into_iter().filter(|(first, end)| first + 2 <= *end).find_map(|(first, end)| {
                let range = numbers[first]..numbers[end - 1] + 1;
                Some((end, self.unified(path, range, segment(first))?))
            });
            at = match run {
                Some((end, layers)) => {
                    found.push(layers);
                    end
                }
                None => end.max(at + 1),
            };
        }
        found
    }

    /// Whether two runs of nodes have the same ops and numbers.
    fn is_alike(&self, a: &Range<usize>, b: &Range<usize>) -> bool {
        let pairs = self.graph.nodes[a.clone()].iter().zip(&self.graph.nodes[b.clone()]);
        pairs.into_iter().all(|(a, b)| is_alike(a, b))
    }

    /// The loop of layers whose nodes follow each other, if values flow alike in all of them.
    fn unified(&self, path: &str, numbers: Range<usize>, first: Range<usize>) -> Option<LayerLoop> {
        let (count, length) = (numbers.len(), first.len());
        let node = |layer: usize, n: usize| &self.graph.nodes[first.start + layer * length + n];
        let end = first.start + count * length;
        let mut places: HashMap<&str, Place> = HashMap::new();
        for layer in 0..count {
            for n in 0..length {
                for (result, name) in node(layer, n).outputs.iter().flat_map(names).enumerate() {
                    places.insert(name, (layer, n, result));
                }
            }
        }
        // What is read from outside a layer, with the names of all layers.
        let mut outer: BTreeSet<Vec<&str>> = BTreeSet::new();
        for n in 0..length {
            let reads: Vec<Vec<&str>> = (0..count)
                .map(|layer| node(layer, n).inputs.iter().flat_map(|(_, argument)| names(argument)).collect())
                .collect();
            for operand in 0..reads[0].len() {
                let column: Vec<&str> = reads.iter().map(|names| names[operand]).collect();
                let inner: Vec<Option<(usize, usize)>> = column
                    .iter()
                    .enumerate()
                    .map(|(layer, name)| places.get(name).filter(|place| place.0 == layer).map(|at| (at.1, at.2)))
                    .collect();
                match inner[0] {
                    Some(_) if inner.iter().all(|place| *place == inner[0]) => {}
                    None if inner.iter().all(Option::is_none) => drop(outer.insert(column)),
                    _ => return None,
                }
            }
            for layer in 1..count {
                self.gives_alike(node(0, n), node(layer, n))?;
            }
        }
        let name_at = |layer: usize, (n, result): (usize, usize)| {
            node(layer, n).outputs.iter().flat_map(names).nth(result).map(str::to_string)
        };
        let mut layers = LayerLoop {
            path: path.to_string(),
            numbers: numbers.clone(),
            stacked: Vec::new(),
            first: first.clone(),
            carried: Vec::new(),
            kept: Vec::new(),
        };
        let mut of_body = BTreeSet::new();
        let mut carried_places = BTreeSet::new();
        for column in &outer {
            // Two values that only the second layer gives the same name cannot be told apart.
            if !of_body.insert(column[1]) {
                return None;
            }
            if column.iter().all(|name| *name == column[0]) {
                continue;
            }
            if let Some(stacked) = self.stacked(column, &layers) {
                layers.stacked.push(stacked);
                continue;
            }
            let from: Vec<Option<&Place>> = column.iter().map(|name| places.get(name)).collect();
            let (_, n, result) = *from[1]?;
            let is_carried = from[0].is_none()
                && (1..count).all(|layer| from[layer] == Some(&(layer - 1, n, result)))
                && self.is_same_type(column[0], column[1])?;
            if !is_carried || !carried_places.insert((n, result)) {
                return None;
            }
            layers.carried.push(CarriedValue {
                first: Some(column[0].to_string()),
                taken: Some(column[1].to_string()),
                given: name_at(1, (n, result))?,
                last: name_at(count - 1, (n, result))?,
            });
        }
        // What is read after the loop.
        let mut after: BTreeMap<(usize, usize), BTreeSet<usize>> = BTreeMap::new();
        for (name, (layer, n, result)) in &places {
            let read = self.readers.get(name).into_iter().flatten();
            if read.into_iter().any(|reader| *reader >= end || *reader < first.start) {
                self.graph.tensors.get(*name)?;
                after.entry((*n, *result)).or_default().insert(*layer);
            }
        }
        for (place, of_layers) in after {
            let is_last_only = of_layers.iter().eq([count - 1].iter());
            if is_last_only && carried_places.contains(&place) {
                continue;
            }
            if is_last_only {
                let (given, last) = (name_at(1, place)?, name_at(count - 1, place)?);
                layers.carried.push(CarriedValue { first: None, taken: None, given, last });
                continue;
            }
            let names = (0..count).map(|layer| name_at(layer, place)).collect::<Option<Vec<_>>>()?;
            layers.kept.push(KeptValue { of_body: name_at(1, place)?, names });
        }
        self.may_write(&mut layers, &places)?;
        Some(layers)
    }

    /// Nodes with results of the same types and shapes.
    fn gives_alike(&self, a: &Node, b: &Node) -> Option<()> {
        let list = |node: &'_ Node| node.outputs.iter().flat_map(names).map(str::to_string).collect::<Vec<_>>();
        let (a, b) = (list(a), list(b));
        let same =
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| self.graph.tensors.get(a) == self.graph.tensors.get(b));
        same.then_some(())
    }

    fn is_same_type(&self, a: &str, b: &str) -> Option<bool> {
        let (a, b) = (self.graph.tensors.get(a)?, self.graph.tensors.get(b)?);
        Some((a.dtype, &a.sizes) == (b.dtype, &b.sizes))
    }

    /// A tensor of which each layer has its own and nobody else reads it.
    fn stacked(&self, column: &[&str], layers: &LayerLoop) -> Option<StackedTensor> {
        let LayerLoop { path, numbers, first, .. } = layers;
        let members: Vec<&str> = column.iter().map(|name| self.own_name(name)).collect::<Option<_>>()?;
        let name = match self.roles.get(column[0])? {
            // Constants are numbered through the whole program.
            InputRole::Constant(own) => format!("{path}.{}-{}.{own}", numbers.start, numbers.end - 1),
            _ => stacked_name(&members, numbers)?,
        };
        let kind = |name: &str| self.roles.get(name).map(|role| std::mem::discriminant(*role));
        let meta = |name: &str| self.graph.tensors.get(name);
        let is_alike = column.iter().all(|name| kind(name) == kind(column[0]) && meta(name) == meta(column[0]));
        let is_own = column.iter().enumerate().all(|(layer, name)| {
            let begin = first.start + layer * first.len();
            let of_layer = begin..begin + first.len();
            self.readers.get(name).into_iter().flatten().all(|reader| of_layer.contains(reader))
        });
        let is_free = members.iter().all(|name| !self.single.contains(*name));
        let members = members.into_iter().map(str::to_string).collect();
        let stacked = StackedTensor { name, members, of_body: column[1].to_string(), is_written: false };
        (is_alike && is_own && is_free).then_some(stacked)
    }

    /// Whether writes in the layers stay in them, but for buffers of their own, and no later write would be missed.
    fn may_write(&self, layers: &mut LayerLoop, places: &HashMap<&'p str, Place>) -> Option<()> {
        for root in self.writes[layers.body()].iter().flatten() {
            if places.get(root).is_some_and(|place| place.0 == 1) {
                continue;
            }
            let is_buffer = matches!(self.roles.get(root), Some(InputRole::Buffer(_)));
            let own = layers.stacked.iter_mut().find(|stacked| stacked.of_body == *root).filter(|_| is_buffer)?;
            own.is_written = true;
        }
        // Values that leave the loop have storages of their own from then on.
        let later: BTreeSet<&str> = self.writes[layers.nodes().end..].iter().flatten().copied().collect();
        let mut seen = BTreeSet::new();
        let given = layers.carried.iter().map(|value| &value.last);
        for name in given.chain(layers.kept.iter().flat_map(|value| &value.names)) {
            let (name, _) = places.get_key_value(name.as_str())?;
            let root = self.root(name);
            let is_shared = !seen.insert(root) || !places.contains_key(root);
            if is_shared && later.contains(root) {
                return None;
            }
        }
        Some(())
    }
}

/// Most layers of a list that are looked at, and the largest number of one.
const MAX_LAYERS: usize = 4096;

/// The number of a layer that a word of a path is.
fn layer_number(word: &str) -> Option<usize> {
    let number = word.parse::<usize>().ok().filter(|number| *number < MAX_LAYERS)?;
    (number.to_string() == word).then_some(number)
}

/// Names that an argument reads, or a result gives.
fn names(argument: &NodeArgument) -> Vec<&str> {
    fn of_int(value: &SymInt) -> Option<&str> {
        match value {
            SymInt::Name(name) => Some(name),
            SymInt::Value(_) => None,
        }
    }
    match argument {
        NodeArgument::Tensor(name) | NodeArgument::Named(name) => vec![name],
        NodeArgument::Tensors(names) => names.iter().flatten().map(String::as_str).collect(),
        NodeArgument::Int(value) => of_int(value).into_iter().collect(),
        NodeArgument::Ints(values) => values.iter().filter_map(of_int).collect(),
        _ => Vec::new(),
    }
}

/// Whether two nodes are the same op with the same numbers, whatever they read.
fn is_alike(a: &Node, b: &Node) -> bool {
    let is_same = |(a, b): (&(String, NodeArgument), &(String, NodeArgument))| a.0 == b.0 && is_same_form(&a.1, &b.1);
    a.target == b.target
        && a.inputs.len() == b.inputs.len()
        && a.inputs.iter().zip(&b.inputs).all(is_same)
        && a.outputs.len() == b.outputs.len()
        && a.outputs.iter().zip(&b.outputs).all(|(a, b)| is_same_form(a, b))
}

fn is_same_form(a: &NodeArgument, b: &NodeArgument) -> bool {
    let of_int = |(a, b): (&SymInt, &SymInt)| match (a, b) {
        (SymInt::Value(a), SymInt::Value(b)) => a == b,
        (SymInt::Name(_), SymInt::Name(_)) => true,
        _ => false,
    };
    match (a, b) {
        (NodeArgument::None, NodeArgument::None)
        | (NodeArgument::Placement, NodeArgument::Placement)
        | (NodeArgument::Tensor(_), NodeArgument::Tensor(_))
        | (NodeArgument::Named(_), NodeArgument::Named(_)) => true,
        (NodeArgument::Tensors(a), NodeArgument::Tensors(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_some() == b.is_some())
        }
        (NodeArgument::Int(a), NodeArgument::Int(b)) => of_int((a, b)),
        (NodeArgument::Ints(a), NodeArgument::Ints(b)) => a.len() == b.len() && a.iter().zip(b).all(of_int),
        (NodeArgument::Float(a), NodeArgument::Float(b)) => a.to_bits() == b.to_bits(),
        (NodeArgument::Floats(a), NodeArgument::Floats(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
        }
        (NodeArgument::Bool(a), NodeArgument::Bool(b)) => a == b,
        (NodeArgument::Bools(a), NodeArgument::Bools(b)) => a == b,
        (NodeArgument::Text(a), NodeArgument::Text(b)) => a == b,
        (NodeArgument::Type(a), NodeArgument::Type(b)) => a == b,
        // Graphs in graphs are not compared.
        _ => false,
    }
}
