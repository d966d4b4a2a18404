//! Faults while four processes train, each in a network of its own: after all of them the losses are those of an undisturbed
//! run, to the digit, no checkpoint is lost, and no process outlives the deadline.
//!
//! A few faults are injected by default. `TPUBRIDGE_FAULTS=200` injects that many, drawn with the seed
//! `TPUBRIDGE_FAULTS_SEED` (1), and prints a table.

mod cluster;
mod run;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testkit::{Random, skip};

use self::cluster::Cluster;
use self::run::{Campaign, HEARTBEAT, Run, Store};
use crate::harness::Bench;
use crate::mesh_training::losses;
use crate::networks::Networks;
use crate::processes::{PROCESSES, llama, manager};

/// The host outside of the run, beside one for each process: strangers are there, and etcd.
const OUTSIDE: usize = PROCESSES;

/// Packets that come late: by themselves, or because they wait in a queue behind a slow link.
const LATE: [&str; 2] = ["netem delay 50ms 20ms", "tbf rate 4mbit burst 16kbit latency 200ms"];
/// Packets that are lost: some of all, or those that a short queue has no place for.
const LOST: [&str; 2] = ["netem loss 5%", "tbf rate 8mbit burst 16kbit limit 6000"];

/// What is done to a run; the number is the process it is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill(usize),
    /// The process that serves the coordinator is killed.
    KillFirst,
    Partition(usize),
    BriefPartition(usize),
    /// Stopped for longer than the heartbeat timeout, then resumed.
    Pause(usize),
    BriefPause(usize),
    /// Stopped, replaced by another run, then resumed.
    Zombie(usize),
    Delay(usize),
    Loss(usize),
    SlowLoris,
    WrongSecret,
    /// A process that was started for another run, with the right secret.
    OtherRun,
    ClockJump(usize),
    /// A member of etcd is killed and started again.
    EtcdMember(usize),
    /// All of etcd is stopped for longer than a lease.
    EtcdPause,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::Kill(_) => "a process killed",
            Fault::KillFirst => "process 0 killed: with our coordinator, its restart",
            Fault::Partition(_) => "a process cut off",
            Fault::BriefPartition(_) => "a process cut off for less than the heartbeat timeout",
            Fault::Pause(_) => "a process paused past the heartbeat timeout, then resumed",
            Fault::BriefPause(_) => "a process paused for less than the heartbeat timeout",
            Fault::Zombie(_) => "a process paused, its run replaced, then resumed",
            Fault::Delay(_) => "packets of a process come late",
            Fault::Loss(_) => "packets of a process are lost",
            Fault::SlowLoris => "96 connections that send a byte now and then",
            Fault::WrongSecret => "a process with another secret",
            Fault::OtherRun => "a process that was started for another run",
            Fault::ClockJump(_) => "the wall clock of a process jumps by a day",
            Fault::EtcdMember(_) => "a member of etcd killed and started again",
            Fault::EtcdPause => "all of etcd paused past the lease",
        }
    }

    /// Whether the run cannot go on.
    fn is_fatal(self) -> bool {
        use Fault::*;
        matches!(self, Kill(_) | KillFirst | Partition(_) | Pause(_) | Zombie(_) | EtcdPause)
    }

    fn draw(random: &mut Random, store: Store) -> Fault {
        let any = random.below(PROCESSES);
        let later = 1 + random.below(PROCESSES - 1);
        let all = [
            Fault::Kill(later),
            Fault::KillFirst,
            Fault::Partition(any),
            Fault::BriefPartition(any),
            Fault::Pause(any),
            Fault::BriefPause(any),
            Fault::Zombie(later),
            Fault::Delay(any),
            Fault::Loss(any),
            Fault::ClockJump(any),
        ];
        let own = [Fault::SlowLoris, Fault::WrongSecret, Fault::OtherRun];
        let etcd = [Fault::EtcdMember(random.below(cluster::MEMBERS)), Fault::EtcdPause, Fault::EtcdMember(0)];
        let some = match store {
            Store::Own => own,
            Store::Etcd => etcd,
        };
        let kinds: Vec<Fault> = all.into_iter().chain(some).collect();
        kinds[random.below(kinds.len())]
    }
}

/// What faults of a kind came to.
#[derive(Default)]
struct Outcomes {
    went_on: usize,
    ended: usize,
    longest: Duration,
}

/// Does something to a run. Gives back the run that goes on, and how long its processes took to end, if they did.
fn inject(campaign: &mut Campaign<'_>, mut run: Run, fault: Fault) -> (Run, Option<Duration>) {
    let networks = campaign.networks;
    let brief = HEARTBEAT / 3;
    match fault {
        Fault::Kill(n) => run.kill(n),
        Fault::KillFirst => run.kill(0),
        Fault::Partition(n) => networks.set_connected(n, false),
        Fault::BriefPartition(n) => {
            networks.set_connected(n, false);
            std::thread::sleep(brief);
            networks.set_connected(n, true);
        }
        Fault::Pause(n) => {
            run.signal(n, "-STOP");
            run.must_end_but(Some(n));
            run.signal(n, "-CONT");
        }
        Fault::BriefPause(n) => {
            run.signal(n, "-STOP");
            std::thread::sleep(brief);
            run.signal(n, "-CONT");
        }
        Fault::Zombie(n) => {
            run.signal(n, "-STOP");
            run.must_end_but(Some(n));
            let next = campaign.start();
            let before = campaign.progress(&next);
            run.signal(n, "-CONT");
            let took = run.must_end();
            assert!(campaign.goes_on(&next, before), "the next run was disturbed: {}", next.output());
            return (next, Some(took));
        }
        Fault::Delay(n) | Fault::Loss(n) => {
            networks.set_disturbance(n, if matches!(fault, Fault::Delay(_)) { &LATE } else { &LOST }).unwrap();
            std::thread::sleep(brief);
            networks.set_disturbance(n, &[]).unwrap();
        }
        Fault::SlowLoris => campaign.slow_loris(),
        Fault::WrongSecret => campaign.stranger(&run, "another secret", "has another secret"),
        Fault::OtherRun => campaign.stranger(&run, "another run", "belongs to run"),
        Fault::ClockJump(n) => run.shift_clock(n, if campaign.runs.is_multiple_of(2) { 86400 } else { -86400 }),
        Fault::EtcdMember(member) => campaign.cluster().restart(member),
        Fault::EtcdPause => {
            campaign.cluster().signal("-STOP");
            run.must_end();
            campaign.cluster().signal("-CONT");
        }
    }
    if !fault.is_fatal() {
        let before = campaign.progress(&run);
        if campaign.goes_on(&run, before) {
            return (run, None);
        }
    }
    let took = run.must_end();
    if let Fault::Partition(n) = fault {
        networks.set_connected(n, true);
    }
    drop(run);
    (campaign.start(), Some(took))
}

#[test]
fn four_processes_survive_faults() {
    const NAME: &str = "four_processes_survive_faults";
    let networks = match Networks::new(PROCESSES + 1) {
        Ok(networks) => networks,
        Err(why) => return skip(NAME, &why),
    };
    if let Err(why) = networks.set_disturbance(0, &LOST).and_then(|()| networks.set_disturbance(0, &[])) {
        return skip(NAME, &why);
    }
    let number = |variable: &str| std::env::var(variable).ok().map(|text| text.parse::<u64>().unwrap());
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    let mut campaign = Campaign::new(&bench, &networks);
    let wanted = number("TPUBRIDGE_FAULTS");
    if wanted.is_some() {
        campaign.cluster = Some(Cluster::start(&bench, &networks, OUTSIDE));
    }
    let mut random = Random::new(number("TPUBRIDGE_FAULTS_SEED").unwrap_or(1));
    let few = [
        Fault::WrongSecret,
        Fault::OtherRun,
        Fault::SlowLoris,
        Fault::ClockJump(0),
        Fault::Loss(1),
        Fault::Zombie(1),
        Fault::Partition(2),
    ];
    let mut outcomes: BTreeMap<&str, Outcomes> = BTreeMap::new();
    let mut run = campaign.start();
    for n in 0..wanted.map_or(few.len(), |wanted| wanted as usize) {
        let drawn = wanted.map(|_| Fault::draw(&mut random, run.store));
        let Some(fault) = drawn.or_else(|| few.get(n).copied()) else { break };
        campaign.progress(&run);
        let started = Instant::now();
        let (next, took) = inject(&mut campaign, run, fault);
        run = next;
        let outcome = outcomes.entry(fault.name()).or_default();
        match took {
            None => outcome.went_on += 1,
            Some(took) => {
                outcome.ended += 1;
                outcome.longest = outcome.longest.max(took);
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("{n:3} {fault:?} by {:?}: {took:?} of {seconds:.1} s, step {}", run.store, campaign.newest());
    }
    campaign.progress(&run);
    drop(run);
    // To a step that is fixed now, then the same in one go.
    let last = campaign.newest() + 3;
    campaign.finish("run", last);
    campaign.finish("calm", last);
    let (disturbed, calm) = (losses(&bench, "run"), losses(&bench, "calm"));
    assert_eq!(calm.len() as u64, last);
    assert_eq!(disturbed, calm);
    assert_eq!(manager(&bench, "run").latest().unwrap(), Some(last));
    println!("| fault | injected | the run went on | it ended, and was started again | all had ended after |");
    println!("|---|---|---|---|---|");
    for (name, Outcomes { went_on, ended, longest }) in &outcomes {
        let longest = if *ended == 0 { "-".into() } else { format!("{:.1} s", longest.as_secs_f64()) };
        println!("| {name} | {} | {went_on} | {ended} | {longest} |", went_on + ended);
    }
    println!("{} runs, {last} steps", campaign.runs);
}
