//! Reads one instruction as profiles write it: its HLO text with the shapes of its operands, and nothing of what it calls.

use crate::attributes::Attributes;
use crate::module::{Computation, ComputationId, HloModule, Instruction, InstructionId};
use crate::opcode::Opcode;
use crate::proto;
use crate::replica_groups::ReplicaGroups;
use crate::shape::Shape;
use crate::{Error, PrimitiveType};
use std::collections::HashMap;

/// Text at most, and tuples within tuples.
const LONGEST: usize = 1 << 20;
const MOST_OPERANDS: usize = 1 << 12;
const DEEPEST: u32 = 16;
const AT: &str = "text of an instruction";

impl HloModule {
    /// A program of one instruction: `%name = shape opcode(shape %operand, ...), attribute=value, ...`. Operands are
    /// parameters. The inside of a fusion is not in the text: it reads its operands and writes its result whole.
    /// Attributes that follow a cut are left out.
    ///
    /// ```
    /// let text = "%copy.1 = f32[8,128]{1,0:T(8,128)} copy(f32[8,128]{1,0:T(8,128)S(1)} %a)";
    /// let module = xla::HloModule::from_instruction_text(text).unwrap();
    /// let copy = module.instruction(module.find("copy.1").unwrap());
    /// assert_eq!(copy.shape().byte_size(), 4096);
    /// ```
    pub fn from_instruction_text(text: &str) -> Result<HloModule, Error> {
        if text.len() > LONGEST {
            return Err(Error::malformed(AT, "it is too long"));
        }
        let mut reader = TextReader { rest: text.trim() };
        reader.rest = reader.rest.strip_prefix("ROOT ").unwrap_or(reader.rest);
        let name = reader.name()?;
        reader.expect("=")?;
        let shape = reader.shape(0)?;
        let opcode = Opcode::from_name(reader.word()?);
        reader.expect("(")?;
        let mut operands = Vec::new();
        while !reader.eat(")") {
            if operands.len() >= MOST_OPERANDS {
                return Err(Error::malformed(AT, "too many operands"));
            }
            reader.skip_comment();
            let shape = reader.shape(0)?;
            operands.push((reader.name()?, shape));
            reader.eat(",");
        }
        let attributes = read_attributes(&opcode, reader.rest);
        let module = build(name, opcode, shape, operands, attributes, backend_config(reader.rest));
        module.instructions.iter().try_for_each(crate::read::check_arity)?;
        Ok(module)
    }
}

/// Puts parameters, the instruction, and an opaque inside of a fusion together.
fn build(
    name: String,
    opcode: Opcode,
    shape: Shape,
    operands: Vec<(String, Shape)>,
    attributes: Attributes,
    backend_config: &[u8],
) -> HloModule {
    let mut instructions: Vec<Instruction> = Vec::new();
    let mut by_name: HashMap<Box<str>, InstructionId> = HashMap::new();
    let mut push = |instruction: Instruction, by_name: &mut HashMap<Box<str>, InstructionId>| {
        let id = InstructionId(instructions.len() as u32);
        by_name.insert(instruction.name.clone(), id);
        instructions.push(instruction);
        id
    };
    let (entry, fused) = (ComputationId(0), ComputationId(1));
    let is_fusion = opcode == Opcode::Fusion;
    let mut parameters = Vec::new();
    for (index, (operand, shape)) in operands.iter().enumerate() {
        let mut parameter = plain(operand, Opcode::Parameter, shape.clone(), entry, &[]);
        parameter.attributes =
            Some(Box::new(Attributes { parameter_number: Some(index as u32), ..Attributes::default() }));
        parameters.push(push(parameter, &mut by_name));
    }
    let mut instruction = plain(&name, opcode, shape.clone(), entry, &parameters);
    instruction.attributes = Some(Box::new(attributes));
    instruction.backend_config = backend_config.into();
    if is_fusion {
        instruction.called = [fused].into();
    }
    let root = push(instruction, &mut by_name);
    let computation = |name: &str, parameters: Vec<InstructionId>, root: InstructionId, is_fusion: bool| Computation {
        name: name.into(),
        instructions: parameters.iter().copied().chain([root]).collect(),
        schedule: None,
        parameters,
        root,
        is_fusion,
        execution_thread: String::new(),
        callers: if is_fusion { vec![InstructionId(operands.len() as u32)] } else { Vec::new() },
    };
    let mut computations = vec![computation("entry", parameters, root, false)];
    if is_fusion {
        let mut inner = Vec::new();
        for (index, (_, shape)) in operands.iter().enumerate() {
            let mut parameter = plain(&format!("fused.{index}"), Opcode::Parameter, shape.clone(), fused, &[]);
            parameter.attributes =
                Some(Box::new(Attributes { parameter_number: Some(index as u32), ..Attributes::default() }));
            inner.push(push(parameter, &mut by_name));
        }
        let root = push(plain("fused", Opcode::Other("unknown".into()), shape, fused, &inner), &mut by_name);
        computations.push(computation("fused", inner, root, true));
    }
    // Its own name wins where an operand has the same one.
    by_name.insert(name.as_str().into(), root);
    HloModule {
        name,
        computations,
        instructions,
        entry,
        num_replicas: 1,
        num_partitions: 1,
        is_scheduled: false,
        aliases: Vec::new(),
        frontend_attributes: Vec::new(),
        stack_frames: proto::StackFrameIndex::default(),
        entry_layout: None,
        by_name,
        by_proto_id: HashMap::new(),
    }
}

fn plain(
    name: &str,
    opcode: Opcode,
    shape: Shape,
    computation: ComputationId,
    operands: &[InstructionId],
) -> Instruction {
    Instruction {
        name: name.into(),
        opcode,
        shape,
        computation,
        operands: operands.into(),
        control_predecessors: [].into(),
        called: [].into(),
        metadata: None,
        backend_config: std::sync::Arc::from([]),
        attributes: None,
    }
}

/// What the estimate asks for; the rest stays where it is.
fn read_attributes(opcode: &Opcode, text: &str) -> Attributes {
    let mut attributes = Attributes::default();
    if let Some(target) = value(text, "custom_call_target=\"") {
        attributes.custom_call_target = target.split('"').next().unwrap_or_default().into();
    }
    if let Some(kind) = value(text, "kind=") {
        attributes.fusion_kind = kind.split([',', ' ']).next().unwrap_or_default().into();
    }
    attributes.use_global_device_ids = text.contains("use_global_device_ids=true");
    if let Some(groups) = value(text, "replica_groups=") {
        attributes.replica_groups = replica_groups(groups);
    }
    if let Some(pairs) = value(text, "source_target_pairs=") {
        attributes.source_target_pairs =
            lists(pairs).into_iter().filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect();
    }
    if *opcode == Opcode::Dot {
        let dims = |key: &str| value(text, key).map(|list| numbers(list, '}')).unwrap_or_default();
        attributes.dot = Some(crate::DotDimensionNumbers {
            lhs_contracting_dimensions: dims("lhs_contracting_dims={"),
            rhs_contracting_dimensions: dims("rhs_contracting_dims={"),
            lhs_batch_dimensions: dims("lhs_batch_dims={"),
            rhs_batch_dimensions: dims("rhs_batch_dims={"),
        });
    }
    attributes
}

/// `backend_config={...}` with the braces; nothing where it is cut.
fn backend_config(text: &str) -> &[u8] {
    let Some(config) = value(text, "backend_config=").filter(|config| config.starts_with('{')) else { return &[] };
    let (mut depth, mut is_string, mut is_escaped) = (0_u32, false, false);
    for (at, byte) in config.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' if !is_string => depth += 1,
            b'}' if !is_string => {
                depth -= 1;
                if depth == 0 {
                    return &config.as_bytes()[..=at];
                }
            }
            _ => {}
        }
    }
    &[]
}

/// What follows a key that begins an attribute.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let at = text.match_indices(key).find(|(at, _)| matches!(text[..*at].chars().last(), Some(' ' | ',')))?.0;
    Some(&text[at + key.len()..])
}

/// `{{0,1},{2,3}}` or `[4,2]<=[2,4]T(1,0)`.
fn replica_groups(text: &str) -> Option<ReplicaGroups> {
    if text.starts_with('{') {
        let groups = lists(text);
        return (!groups.is_empty()).then_some(ReplicaGroups::List(groups));
    }
    let shape = numbers(text.strip_prefix('[')?, ']');
    let (_, rest) = text.split_once("<=[")?;
    let transpose = match rest.split_once(']') {
        Some((_, after)) if after.starts_with("T(") => numbers(&after[2..], ')'),
        _ => (0..numbers(rest, ']').len() as i64).collect(),
    };
    ReplicaGroups::iota(&shape, &numbers(rest, ']'), &transpose).ok()
}

/// Lists within a list, up to its end.
fn lists(text: &str) -> Vec<Vec<i64>> {
    let Some(inner) = text.strip_prefix('{') else { return Vec::new() };
    let end = inner.find("}}").map_or(inner.len(), |at| at + 1);
    inner[..end].split('{').skip(1).map(|list| numbers(list, '}')).collect()
}

fn numbers(text: &str, end: char) -> Vec<i64> {
    let list = text.split(end).next().unwrap_or_default();
    list.split(',').filter_map(|number| number.trim().parse().ok()).collect()
}

struct TextReader<'a> {
    rest: &'a str,
}

impl<'a> TextReader<'a> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), Error> {
        if self.eat(token) { Ok(()) } else { Err(Error::malformed(AT, format!("`{token}` is missing"))) }
    }

    fn until(&mut self, is_end: impl Fn(char) -> bool) -> &'a str {
        self.rest = self.rest.trim_start();
        let at = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(at);
        self.rest = rest;
        word
    }

    fn word(&mut self) -> Result<&'a str, Error> {
        match self.until(|c| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')) {
            "" => Err(Error::malformed(AT, "a word is missing")),
            word => Ok(word),
        }
    }

    fn name(&mut self) -> Result<String, Error> {
        self.eat("%");
        match self.until(|c| c.is_whitespace() || matches!(c, ',' | ')' | '=')) {
            "" => Err(Error::malformed(AT, "a name is missing")),
            name => Ok(name.to_string()),
        }
    }

    /// `/*index=5*/` before every fifth operand.
    fn skip_comment(&mut self) {
        if self.eat("/*") {
            self.rest = self.rest.split_once("*/").map_or("", |(_, rest)| rest);
        }
    }

    fn shape(&mut self, depth: u32) -> Result<Shape, Error> {
        Shape::read(&self.shape_proto(depth)?)
    }

    fn shape_proto(&mut self, depth: u32) -> Result<proto::Shape, Error> {
        let mut shape = proto::Shape::default();
        if depth > DEEPEST {
            return Err(Error::malformed(AT, "tuples are too deep"));
        }
        self.skip_comment();
        if self.eat("(") {
            shape.element_type = PrimitiveType::TUPLE_NUMBER;
            while !self.eat(")") {
                if shape.tuple_shapes.len() >= MOST_OPERANDS {
                    return Err(Error::malformed(AT, "too many parts"));
                }
                shape.tuple_shapes.push(self.shape_proto(depth + 1)?);
                self.eat(",");
            }
            return Ok(shape);
        }
        let element = self.word()?;
        shape.element_type = PrimitiveType::number(element)
            .ok_or_else(|| Error::malformed(AT, format!("`{element}` is no element type")))?;
        self.expect("[")?;
        let dimensions = self.until(|c| c == ']');
        self.expect("]")?;
        for size in dimensions.split(',').filter(|size| !size.trim().is_empty()) {
            let size = size.trim();
            let bound = size.strip_prefix("<=");
            shape.is_dynamic_dimension.push(bound.is_some());
            let size = bound.unwrap_or(size).parse();
            shape.dimensions.push(size.map_err(|_| Error::malformed(AT, "a size is not a number"))?);
        }
        if self.rest.starts_with('{') {
            self.expect("{")?;
            let text = self.until(|c| c == '}');
            self.expect("}")?;
            shape.layout = Some(layout(text)?);
        }
        Ok(shape)
    }
}

/// `4,3,2:T(2,128)(2,1)S(1)E(4)`.
fn layout(text: &str) -> Result<proto::Layout, Error> {
    let (order, rest) = text.split_once(':').unwrap_or((text, ""));
    let mut layout = proto::Layout { minor_to_major: numbers(order, ':'), ..proto::Layout::default() };
    let mut kind = 'T';
    let mut rest = rest;
    while let Some(first) = rest.chars().next() {
        if first != '(' {
            kind = first;
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (inside, after) = rest[1..].split_once(')').ok_or_else(|| Error::malformed(AT, "a layout does not end"))?;
        let sizes = || inside.split(',').map(|size| size.trim());
        match kind {
            'T' => {
                let tile = sizes().map(|size| match size {
                    "*" => Ok(crate::COMBINE_DIMENSION),
                    size => size.parse().ok().filter(|size| *size > 0).ok_or(()),
                });
                let dimensions: Result<Vec<i64>, ()> = tile.collect();
                let dimensions = dimensions.map_err(|()| Error::malformed(AT, "a tile is no list of sizes"))?;
                layout.tiles.push(proto::Tile { dimensions });
            }
            'S' => layout.memory_space = inside.parse().unwrap_or(0),
            'E' => layout.element_size_in_bits = inside.parse().unwrap_or(0),
            _ => {}
        }
        rest = after;
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySpace;

    #[test]
    fn shapes_layouts_and_spaces_are_read() {
        let text = "%fusion.22 = (f32[1024]{0:T(1024)S(1)}, bf16[1024,12800]{1,0:T(16,128)(2,1)}) \
                    fusion(bf16[1024,1,25600]{2,0,1:T(8,128)(2,1)} %bitcast.1749, /*index=1*/f4e2m1fn[64,128]{1,0:T(64,128)(8,1)E(4)} %p), \
                    kind=kLoop, calls=%fused_computation.89";
        let module = HloModule::from_instruction_text(text).unwrap();
        let fusion = module.instruction(module.find("fusion.22").unwrap());
        assert_eq!((fusion.opcode(), fusion.attributes().fusion_kind.as_str()), (&Opcode::Fusion, "kLoop"));
        let traffic = module.users().traffic(&module, module.find("fusion.22").unwrap());
        assert_eq!((traffic.read.hbm, traffic.written.hbm), (52_428_800.0 + 4096.0, 26_214_400.0));
        assert_eq!(traffic.written.vmem, 4096.0);
        assert_eq!(fusion.shape().tuple_shapes()[0].memory_space(), MemorySpace::VMEM);
    }

    #[test]
    fn groups_are_read_in_both_forms() {
        let groups = |text: &str| {
            let text = format!("%a = f32[8]{{0}} all-reduce(f32[8]{{0}} %b), channel_id=1, replica_groups={text}, x=1");
            let module = HloModule::from_instruction_text(&text).unwrap();
            let groups = module.instruction(module.find("a").unwrap()).attributes().replica_groups.clone();
            groups.map(|groups| groups.expand())
        };
        assert_eq!(groups("{{0,1},{2,3}}"), Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(groups("[4,2]<=[2,4]T(1,0)").unwrap()[1], [1, 5]);
        assert_eq!(groups("[1,2]<=[2]"), Some(vec![vec![0, 1]]));
        assert_eq!(groups("[9,9]<=[2]"), None);
    }

    #[test]
    fn stated_costs_are_read() {
        let text = "%k.1 = f32[8]{0} custom-call(f32[8]{0} %a), custom_call_target=\"tpu_custom_call\", backend_config={\"custom_call_config\": \
                    {\"body\": \"}\\\"{\", \"cost_estimate\": {\"flops\": 7, \"bytes_accessed\": 64}}}, metadata={op_name=\"x\"}";
        let cost = |text: &str| {
            let module = HloModule::from_instruction_text(text).unwrap();
            module.instruction(module.find("k.1").unwrap()).kernel_cost()
        };
        assert_eq!(cost(text).map(|cost| (cost.flops, cost.bytes_accessed)), Some((7, 64)));
        // A cut leaves it out.
        assert_eq!(cost(&text[..text.len() - 30]), None);
    }

    #[test]
    fn what_is_no_instruction_is_told() {
        for text in [
            "",
            "%a",
            "%a = ",
            "%a = f32[8] add(",
            "%a = f32[8",
            "%a = f99[8]{0} add()",
            "%a = f32[-3]{0} add()",
            "%a = f32[8]{7} add()",
            "%a = f32[8]{0:T(0)} add()",
            "%a = f32[99999999999999999999] add()",
            "ROOT",
        ] {
            assert!(HloModule::from_instruction_text(text).is_err(), "{text}");
        }
        assert!(HloModule::from_instruction_text(&"(".repeat(1000)).is_err());
        // A cut within attributes leaves them out.
        let cut = "%a = f32[8]{0} all-reduce(f32[8]{0} %b), replica_groups=[4,2]<=[2,";
        assert!(HloModule::from_instruction_text(cut).is_ok());
    }
}
