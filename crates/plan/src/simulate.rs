//! Runs the schedule of a compiled program on a clock: ops one after the other, transfers beside them, waits where the program waits.

use std::cell::Cell;
use std::collections::HashMap;

use xla::{
    Collective, CollectiveKind, ComputationId, Executions, HloModule, InstructionId, Link, Opcode, Overlap,
    ReplicaGroups, TripCount, Users,
};

use crate::kernel_work::KernelWork;
use crate::machine::{HostTransfer, Machine};
use crate::op_time::{Bound, OpTime};
use crate::sparse_core;
use crate::torus::{Group, Way};
use crate::work::Work;

/// What an instruction costs in a step.
#[derive(Clone, Debug)]
pub struct OpCost {
    /// The instruction.
    pub instruction: InstructionId,
    /// Executions in a step.
    pub executions: f64,
    /// Seconds of one execution that the core spends on it, or waits for it.
    pub seconds: f64,
    /// What it is limited by, or what it waits for.
    pub bound: Bound,
    /// Operations of its matmuls, once.
    pub flops: f64,
    /// Bytes of device memory, once.
    pub hbm_bytes: f64,
}

impl OpCost {
    /// Seconds in a step.
    pub fn total_s(&self) -> f64 {
        self.seconds * self.executions
    }
}

/// A step on the clock.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// Seconds of the step.
    pub seconds: f64,
    /// What every instruction costs, in the order of the schedule, loops after the op that runs them.
    pub ops: Vec<OpCost>,
    /// Seconds that transfers were under way in a step, hidden or not, by what they travel over.
    pub transfers: HashMap<Bound, f64>,
    /// What is not known and was assumed.
    pub notes: Vec<String>,
}

/// Where the time of a transfer begins and ends.
#[derive(Clone, Copy, Debug)]
struct Pending {
    done_at: f64,
    over: Bound,
}

/// Something that carries one transfer after the other, beside the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lane {
    /// The links along a dimension of the torus, one way.
    Ici(usize, Way),
    /// The network between slices.
    Dcn,
    /// The link to the host, one way.
    Host(Way),
    /// Copies within device memory.
    Hbm,
    /// A SparseCore, which gathers and scatters beside copies.
    SparseCore(u32),
}

#[derive(Clone, Debug, Default)]
struct Lanes {
    free_at: HashMap<Lane, f64>,
}

impl Lanes {
    /// A transfer that needs several lanes at once begins when all are free.
    fn start(&mut self, lanes: &[Lane], now: f64, seconds: f64) -> f64 {
        let free = lanes.iter().filter_map(|lane| self.free_at.get(lane)).fold(now, |latest, free| latest.max(*free));
        for lane in lanes {
            self.free_at.insert(*lane, free + seconds);
        }
        free + seconds
    }

    /// What is left at a time, as seen from there.
    fn since(&self, now: f64) -> Lanes {
        let free_at = self.free_at.iter().map(|(lane, free)| (*lane, (free - now).max(0.0))).collect();
        Lanes { free_at }
    }
}

/// A program, with everything that is asked of it often.
pub(crate) struct Program<'a> {
    pub(crate) module: &'a HloModule,
    pub(crate) machine: &'a Machine,
    pub(crate) users: Users,
    /// Collectives by the scheduled instruction that holds them.
    pub(crate) collectives: HashMap<InstructionId, Collective>,
    /// Channels of the transfers that fusions wait for.
    awaited: HashMap<InstructionId, i64>,
    /// Device of each partition, in the order of the slice.
    devices: &'a [u64],
    trips: HashMap<InstructionId, u64>,
    /// Instructions that may still be visited: a small program can call a computation very many times.
    fuel: Cell<u64>,
}

/// One pass over a computation.
struct Pass {
    now: f64,
    lanes: Lanes,
    pending: HashMap<InstructionId, Pending>,
    ops: Vec<OpCost>,
    transfers: HashMap<Bound, f64>,
    notes: Vec<String>,
}

/// Simulates a step. `devices` are the device numbers of the partitions, in the order of the slice; partition `n` runs on device
/// `n` where it is empty.
pub fn simulate(module: &HloModule, executions: &Executions, machine: &Machine, devices: &[u64]) -> Simulation {
    let program = Program::new(module, executions, machine, devices);
    let mut pass = Pass {
        now: 0.0,
        lanes: Lanes::default(),
        pending: HashMap::new(),
        ops: Vec::new(),
        transfers: HashMap::new(),
        notes: Vec::new(),
    };
    program.run(module.entry(), &mut pass, &HashMap::new(), 0);
    for (id, why) in executions.unknown_loops() {
        pass.notes.push(format!("{} is counted once: {why}", module.instruction(id).name()));
    }
    Simulation { seconds: pass.now, ops: pass.ops, transfers: pass.transfers, notes: pass.notes }
}

/// Collectives by the instruction of a schedule that starts them: itself, or the fusion or call around it.
pub(crate) fn scheduled_collectives(module: &HloModule, executions: &Executions) -> HashMap<InstructionId, Collective> {
    let mut found = HashMap::new();
    for collective in module.collectives(executions) {
        let mut at = collective.instruction;
        // Fusions and computations of an async pair are called by one instruction.
        for _ in 0..MAX_DEPTH {
            let computation = module.computation(module.instruction(at).computation());
            let &[caller] = computation.callers() else { break };
            let is_part = matches!(
                module.instruction(caller).opcode(),
                Opcode::Fusion | Opcode::AsyncStart | Opcode::Call | Opcode::CustomCall
            );
            let is_plain_call =
                *module.instruction(caller).opcode() == Opcode::Call && collective.overlap == Overlap::Synchronous;
            if !is_part || is_plain_call {
                break;
            }
            at = caller;
        }
        found.insert(at, collective);
    }
    found
}

const MAX_DEPTH: u32 = 64;
/// Loops within loops whose second iteration is looked at too: each level doubles the work.
const CARRYING_DEPTH: u32 = 6;
const FUEL: u64 = 4_000_000;

impl<'a> Program<'a> {
    pub(crate) fn new(
        module: &'a HloModule,
        executions: &Executions,
        machine: &'a Machine,
        devices: &'a [u64],
    ) -> Program<'a> {
        Program {
            module,
            machine,
            users: module.users(),
            collectives: scheduled_collectives(module, executions),
            awaited: module.awaited_channels().into_iter().collect(),
            devices,
            trips: executions
                .loops()
                .iter()
                .map(|(id, trips)| (*id, if let TripCount::Known(n) = trips { *n } else { 1 }))
                .collect(),
            fuel: Cell::new(FUEL),
        }
    }

    /// Runs a computation. `carried` are transfers that a loop's last iteration left under way, by the place in the loop state.
    fn run(&self, id: ComputationId, pass: &mut Pass, carried: &HashMap<u32, Pending>, depth: u32) {
        if depth > MAX_DEPTH {
            return;
        }
        for &at in self.module.order(id) {
            let Some(left) = self.fuel.get().checked_sub(1) else {
                pass.notes.push("the program calls too much: the rest of it is left out".into());
                return;
            };
            self.fuel.set(left);
            self.step(at, pass, carried, depth);
        }
    }

    fn step(&self, at: InstructionId, pass: &mut Pass, carried: &HashMap<u32, Pending>, depth: u32) {
        let instruction = self.module.instruction(at);
        match instruction.opcode() {
            // Its operands come later, and with them the work begins.
            Opcode::AsyncStart if instruction.operands().is_empty() => return,
            Opcode::AsyncUpdate => {
                if let Origin::Start(start) = self.origin(at)
                    && self.module.instruction(start).operands().is_empty()
                    && !pass.pending.contains_key(&start)
                {
                    self.start(start, pass);
                }
                return;
            }
            _ => {}
        }
        if self.collectives.contains_key(&at) {
            return self.start(at, pass);
        }
        if let Some(&channel) = self.awaited.get(&at) {
            self.wait_for_channel(at, channel, pass);
        }
        match instruction.opcode() {
            Opcode::While => self.run_loop(at, pass, depth),
            Opcode::Call => {
                for &called in instruction.called_computations() {
                    self.run(called, pass, carried, depth + 1);
                }
            }
            Opcode::Conditional => self.conditional(at, pass, depth),
            Opcode::CopyStart | Opcode::AsyncStart => self.start(at, pass),
            opcode if opcode.is_done() => self.wait(at, pass, carried),
            Opcode::CustomCall => self.custom_call(at, pass),
            _ => self.op(at, pass),
        }
    }

    /// Starts a collective, a copy, or another op that runs beside the core.
    fn start(&self, at: InstructionId, pass: &mut Pass) {
        match self.collectives.get(&at) {
            Some(collective) => self.collective(at, collective, pass),
            None => self.start_transfer(at, pass),
        }
    }

    fn op(&self, at: InstructionId, pass: &mut Pass) {
        let work = Work::of(self.module, &self.users, at);
        let bytes =
            work.traffic.read.hbm + work.traffic.written.hbm + work.traffic.read.vmem + work.traffic.written.vmem;
        if work.matmuls.is_empty() && bytes == 0.0 && work.cycles.is_none() {
            return;
        }
        let time = self.machine.op_time(&work);
        pass.spend(at, time, &work, work.flops());
        // A fused transfer between device and host moves beside the core.
        let host = work.traffic.read.host + work.traffic.written.host;
        if host > 0.0 {
            let seconds = self.machine.host_s(host, HostTransfer::Slice);
            let way = if work.traffic.written.host > 0.0 { Way::Up } else { Way::Down };
            let done_at = pass.lanes.start(&[Lane::Host(way)], pass.now, seconds);
            *pass.transfers.entry(Bound::Host).or_default() += seconds;
            pass.wait_for(at, Pending { done_at, over: Bound::Host });
        }
    }

    fn custom_call(&self, at: InstructionId, pass: &mut Pass) {
        let work = Work::of(self.module, &self.users, at);
        match KernelWork::read(self.module, at) {
            Some(kernel) => {
                let time = kernel.time(self.machine, &work);
                pass.spend(at, time, &work, kernel.flops());
            }
            None if work.traffic.read.hbm + work.traffic.written.hbm > 0.0 => {
                let name = self.module.instruction(at).name();
                let by = if work.cycles.is_some() { "static cycles of its code" } else { "bytes of its operands" };
                pass.notes.push(format!("{name} states no cost: it is priced by the {by}"));
                pass.spend(at, self.machine.kernel_time(&work), &work, 0.0);
            }
            None => {}
        }
    }

    fn collective(&self, at: InstructionId, collective: &Collective, pass: &mut Pass) {
        let transfer = self.transfer(collective);
        *pass.transfers.entry(transfer.over).or_default() += transfer.seconds;
        let done_at = pass.lanes.start(&transfer.lanes, pass.now, transfer.seconds);
        let pending = Pending { done_at, over: transfer.over };
        if *self.module.instruction(at).opcode() == Opcode::Fusion {
            let work = Work::of(self.module, &self.users, at);
            if !work.matmuls.is_empty() || collective.overlap == Overlap::Asynchronous {
                pass.spend(at, self.machine.op_time(&work), &work, work.flops());
            }
        }
        if collective.overlap == Overlap::Asynchronous {
            pass.pending.insert(at, pending);
        } else {
            pass.wait_for(at, pending);
        }
    }

    /// What a collective travels over, and for how long.
    fn transfer(&self, collective: &Collective) -> Transfer {
        let reach = &self.machine.reach;
        let sent = collective.sent_bytes as f64;
        match collective.link {
            Link::DataCenter => {
                let seconds = sent / (self.machine.dcn_bytes_per_s * reach.dcn) + reach.collective_s;
                Transfer { over: Bound::Dcn, lanes: vec![Lane::Dcn], seconds }
            }
            Link::Host => {
                let seconds = self.machine.host_s(sent, HostTransfer::WholeBuffer) + reach.collective_s;
                let way = if collective.kind == CollectiveKind::Send { Way::Up } else { Way::Down };
                Transfer { over: Bound::Host, lanes: vec![Lane::Host(way)], seconds }
            }
            _ => {
                let group = self.group(collective);
                Transfer {
                    over: Bound::Ici,
                    lanes: self.ici_lanes(collective, &group),
                    seconds: self.machine.collective_s(
                        collective.kind,
                        collective.payload_bytes,
                        &group,
                        self.hbm_bytes(collective.instruction),
                    ),
                }
            }
        }
    }

    /// The links a collective keeps busy: one way for a permute, both ways along every dimension of the group otherwise.
    fn ici_lanes(&self, collective: &Collective, group: &Group) -> Vec<Lane> {
        if collective.kind == CollectiveKind::CollectivePermute {
            let pairs = &self.module.instruction(collective.instruction).attributes().source_target_pairs;
            let moving = pairs.iter().find(|(from, to)| from != to);
            let way = moving.and_then(|(from, to)| self.machine.torus.way(self.device(*from), self.device(*to)));
            return way.map(|(dimension, way)| Lane::Ici(dimension, way)).into_iter().collect();
        }
        let both = |dimension: usize| [Lane::Ici(dimension, Way::Up), Lane::Ici(dimension, Way::Down)];
        group.spans.iter().flat_map(|span| both(span.dimension)).collect()
    }

    fn device(&self, member: i64) -> u64 {
        let member = u64::try_from(member).unwrap_or(0);
        self.devices.get(member as usize).copied().unwrap_or(member)
    }

    /// Bytes of HBM that an instruction reads and writes.
    pub(crate) fn hbm_bytes(&self, at: InstructionId) -> f64 {
        let traffic = self.users.traffic(self.module, at);
        traffic.read.hbm + traffic.written.hbm
    }

    /// Where the first group of a collective lies; all groups are alike.
    pub(crate) fn group(&self, collective: &Collective) -> Group {
        let attributes = self.module.instruction(collective.instruction).attributes();
        let all = self.module.num_replicas() * self.module.num_partitions();
        let members: Vec<i64> = if !attributes.source_target_pairs.is_empty() {
            let moving = attributes.source_target_pairs.iter().find(|(from, to)| from != to);
            moving.map_or_else(Vec::new, |(from, to)| vec![*from, *to])
        } else {
            let groups = attributes.replica_groups.as_ref().map(ReplicaGroups::expand).unwrap_or_default();
            match groups.into_iter().next() {
                Some(group) => group,
                None => (0..i64::try_from(all).unwrap_or(0)).collect(),
            }
        };
        self.machine.torus.group(&members.iter().map(|&member| self.device(member)).collect::<Vec<_>>())
    }

    /// A copy or another op that runs beside the core.
    fn start_transfer(&self, at: InstructionId, pass: &mut Pass) {
        let instruction = self.module.instruction(at);
        let on_sparse_cores = instruction.attributes().async_execution_thread == sparse_core::THREAD;
        let cores = if on_sparse_cores { instruction.sparse_cores() } else { Vec::new() };
        let runs_on = if on_sparse_cores { RunsOn::SparseCores(cores.len()) } else { RunsOn::TensorCore };
        let beside = self.beside(at, runs_on, 0);
        let (over, lanes, seconds) = if beside.host_bytes > 0.0 {
            let way = if beside.is_to_host { Way::Up } else { Way::Down };
            let is_whole = *instruction.opcode() == Opcode::CopyStart;
            let of = if is_whole { HostTransfer::WholeBuffer } else { HostTransfer::Slice };
            let seconds = self.machine.host_s(beside.host_bytes, of);
            (Bound::Host, vec![Lane::Host(way)], seconds)
        } else if cores.is_empty() {
            (Bound::Hbm, vec![Lane::Hbm], beside.seconds)
        } else {
            (Bound::Hbm, cores.into_iter().map(Lane::SparseCore).collect(), beside.seconds)
        };
        *pass.transfers.entry(over).or_default() += seconds;
        let done_at = pass.lanes.start(&lanes, pass.now, seconds);
        pass.pending.insert(at, Pending { done_at, over });
    }

    /// The work of an instruction and of everything it calls.
    fn beside(&self, at: InstructionId, runs_on: RunsOn, depth: u32) -> Beside {
        self.fuel.set(self.fuel.get().saturating_sub(1));
        let instruction = self.module.instruction(at);
        let work = Work::of(self.module, &self.users, at);
        let host = (work.traffic.read.host, work.traffic.written.host);
        let mut sum =
            Beside { host_bytes: host.0.max(host.1), is_to_host: host.1 >= host.0 && host.1 > 0.0, seconds: 0.0 };
        let is_caller = matches!(instruction.opcode(), Opcode::AsyncStart | Opcode::Call | Opcode::CustomCall)
            && !instruction.called_computations().is_empty();
        if !is_caller {
            let is_work = work.traffic.read.hbm + work.traffic.written.hbm > 0.0 || !work.matmuls.is_empty();
            let on_sparse_cores_s = match runs_on {
                RunsOn::SparseCores(cores) => {
                    let lookup_s = self.machine.lookup_s(self.module, at);
                    lookup_s.or_else(|| self.machine.offloaded_rows_s(&work, cores))
                }
                RunsOn::TensorCore => None,
            };
            sum.seconds = match on_sparse_cores_s {
                Some(seconds) => seconds,
                None if is_work => self.machine.op_time(&work).seconds(),
                None => 0.0,
            };
            return sum;
        }
        for &called in instruction.called_computations().iter().filter(|_| depth < MAX_DEPTH && self.fuel.get() > 0) {
            for &inner in self.module.computation(called).instructions() {
                let more = self.beside(inner, runs_on, depth + 1);
                sum.seconds += more.seconds;
                sum.host_bytes += more.host_bytes;
                sum.is_to_host |= more.is_to_host;
            }
        }
        sum
    }

    fn wait(&self, at: InstructionId, pass: &mut Pass, carried: &HashMap<u32, Pending>) {
        match self.origin(at) {
            Origin::Start(start) => {
                if let Some(pending) = pass.pending.remove(&start) {
                    pass.wait_for(at, pending);
                }
            }
            Origin::Carried(index) => {
                if let Some(&pending) = carried.get(&index) {
                    pass.wait_for(at, pending);
                }
            }
            Origin::Unknown => {}
        }
    }

    /// Waits for a transfer that fusions carry.
    fn wait_for_channel(&self, at: InstructionId, channel: i64, pass: &mut Pass) {
        let is_on = |start: &InstructionId| {
            let collective = self.collectives.get(start).map(|found| self.module.instruction(found.instruction));
            collective.is_some_and(|found| found.attributes().channel_id == Some(channel))
        };
        let start = pass.pending.keys().copied().filter(is_on).min();
        if let Some(pending) = start.and_then(|start| pass.pending.remove(&start)) {
            pass.wait_for(at, pending);
        }
    }

    /// Where the transfer began that an instruction waits for.
    fn origin(&self, done: InstructionId) -> Origin {
        let mut at = done;
        let mut index = None;
        for _ in 0..MAX_DEPTH {
            let Some(&operand) = self.module.instruction(at).operands().first() else { return Origin::Unknown };
            let instruction = self.module.instruction(operand);
            match instruction.opcode() {
                Opcode::AsyncUpdate | Opcode::Bitcast | Opcode::OptimizationBarrier | Opcode::AddDependency => {
                    at = operand
                }
                Opcode::GetTupleElement => {
                    index = index.or(instruction.attributes().tuple_index);
                    at = operand;
                }
                Opcode::Parameter => return index.map_or(Origin::Unknown, Origin::Carried),
                _ => return Origin::Start(operand),
            }
        }
        Origin::Unknown
    }

    fn run_loop(&self, at: InstructionId, pass: &mut Pass, depth: u32) {
        let trips = self.trips.get(&at).copied().unwrap_or(1);
        let &[body, _] = self.module.instruction(at).called_computations() else { return };
        if trips == 0 {
            return;
        }
        // The first iteration tells what is under way when the next one begins.
        let mut carried = HashMap::new();
        let mut lanes = pass.lanes.since(pass.now);
        let mut inner = Pass::begin(lanes.clone());
        for _ in 0..if depth < CARRYING_DEPTH { 2 } else { 1 } {
            inner = Pass::begin(lanes);
            self.run(body, &mut inner, &carried, depth + 1);
            carried = self.left_under_way(body, &inner);
            lanes = inner.lanes.since(inner.now);
        }
        let times = trips as f64;
        pass.now += inner.now * times;
        pass.lanes = Lanes { free_at: lanes.free_at.iter().map(|(lane, left)| (*lane, pass.now + left)).collect() };
        for mut op in inner.ops {
            op.executions *= times;
            pass.ops.push(op);
        }
        for (lane, seconds) in inner.transfers {
            *pass.transfers.entry(lane).or_default() += seconds * times;
        }
        pass.notes.extend(inner.notes);
    }

    /// Transfers that go on into the next iteration, by their place in the loop state, seen from its beginning.
    fn left_under_way(&self, body: ComputationId, pass: &Pass) -> HashMap<u32, Pending> {
        let root = self.module.instruction(self.module.computation(body).root());
        let mut left = HashMap::new();
        for (index, &operand) in root.operands().iter().enumerate() {
            if let Some(pending) = pass.pending.get(&operand) {
                let done_at = (pending.done_at - pass.now).max(0.0);
                left.insert(index as u32, Pending { done_at, over: pending.over });
            }
        }
        left
    }

    /// The longest branch.
    fn conditional(&self, at: InstructionId, pass: &mut Pass, depth: u32) {
        let lanes = pass.lanes.since(pass.now);
        let branches = self.module.instruction(at).called_computations().iter().map(|&branch| {
            let mut inner = Pass::begin(lanes.clone());
            self.run(branch, &mut inner, &HashMap::new(), depth + 1);
            inner
        });
        let Some(longest) = branches.max_by(|a, b| a.now.total_cmp(&b.now)) else { return };
        pass.now += longest.now;
        pass.ops.extend(longest.ops);
        for (lane, seconds) in longest.transfers {
            *pass.transfers.entry(lane).or_default() += seconds;
        }
        pass.notes.extend(longest.notes);
    }
}

/// A transfer: what it travels over, what it keeps busy, and for how long.
struct Transfer {
    over: Bound,
    lanes: Vec<Lane>,
    seconds: f64,
}

/// Which cores do what runs beside the schedule.
#[derive(Clone, Copy)]
enum RunsOn {
    TensorCore,
    /// So many SparseCores; 0 where the compiler does not say.
    SparseCores(usize),
}

/// Work that runs beside the core.
struct Beside {
    seconds: f64,
    host_bytes: f64,
    is_to_host: bool,
}

enum Origin {
    Start(InstructionId),
    Carried(u32),
    Unknown,
}

impl Pass {
    fn begin(lanes: Lanes) -> Pass {
        Pass { now: 0.0, lanes, pending: HashMap::new(), ops: Vec::new(), transfers: HashMap::new(), notes: Vec::new() }
    }

    fn spend(&mut self, instruction: InstructionId, time: OpTime, work: &Work, flops: f64) {
        let seconds = time.seconds();
        self.now += seconds;
        self.ops.push(OpCost {
            instruction,
            executions: 1.0,
            seconds,
            bound: time.bound(),
            flops,
            hbm_bytes: work.traffic.read.hbm + work.traffic.written.hbm,
        });
    }

    fn wait_for(&mut self, instruction: InstructionId, pending: Pending) {
        let seconds = pending.done_at - self.now;
        if seconds <= 0.0 {
            return;
        }
        self.now = pending.done_at;
        self.ops.push(OpCost {
            instruction,
            executions: 1.0,
            seconds,
            bound: pending.over,
            flops: 0.0,
            hbm_bytes: 0.0,
        });
    }
}
