//! What the cores of a host do now: the answer of `GetTpuRuntimeStatus`, read as far as it makes sense.

use prost::Message;
use prost::bytes::Bytes;
use serde::Serialize;

use super::messages::{
    CoreStatesEntry, CurrentCoreStateSummary, GetTpuRuntimeStatusResponse, QueuedProgramInfo, SequencerInfo,
    TENSOR_CORE, TpuCoreIdentifier, TpuCoreOnChip,
};
use super::reading::{hex, lossy, shortened};

/// Cores of a host at most.
const MAX_CORES: usize = 1024;
/// Sequencers and queued programs of a core at most.
const MAX_PARTS: usize = 256;

/// What the cores of a host do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RuntimeStatus {
    /// The host's own name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host_name: String,
    /// Its cores, by their global ids.
    pub cores: Vec<CoreState>,
    /// Cores that could not be read, or were too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreadable: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What a core does.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CoreState {
    /// Number of the core among all of the slice.
    pub core: i32,
    /// Its chip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chip: Option<i32>,
    /// Its number on the chip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_on_chip: Option<i32>,
    /// Whether it is a TensorCore; else a SparseCore, or of a kind that is not known.
    pub is_tensor_core: bool,
    /// Fingerprint of the program it runs, in hexadecimal digits; equal programs have equal ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_fingerprint: Option<String>,
    /// Number of the launch, equal on all hosts that run it together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_id: Option<i32>,
    /// Its sequencers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sequencers: Vec<Sequencer>,
    /// Programs that wait for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queued: Vec<QueuedProgram>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Where a core is in its program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sequencer {
    /// libtpu's number of its kind; 1 is that of a TensorCore.
    pub kind: i32,
    /// Program counter.
    pub program_counter: i64,
    /// libtpu's tag of the place in the program.
    pub tag: i64,
    /// Number of the run.
    pub run_id: i64,
    /// The HLO that runs, where it was asked for and is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hlo_location: Option<String>,
}

/// A program that waits for a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueuedProgram {
    /// Number of the run.
    pub run_id: i64,
    /// Number of the launch.
    pub launch_id: i64,
    /// Fingerprint, in hexadecimal digits.
    pub program_fingerprint: String,
}

impl RuntimeStatus {
    /// Reads an answer.
    pub(super) fn read(answer: &[u8]) -> Result<RuntimeStatus, prost::DecodeError> {
        let answer = GetTpuRuntimeStatusResponse::decode(answer)?;
        let mut status = RuntimeStatus {
            host_name: lossy(&answer.host_name),
            cores: Vec::new(),
            unreadable: answer.core_states.len().saturating_sub(MAX_CORES),
        };
        for entry in answer.core_states.into_iter().take(MAX_CORES) {
            match CoreStatesEntry::decode(entry) {
                Ok(entry) => status.cores.push(core(entry.key, entry.value.unwrap_or_default())),
                Err(_) => status.unreadable += 1,
            }
        }
        status.cores.sort_by_key(|core| core.core);
        Ok(status)
    }

    /// As it is sent.
    pub(super) fn write(&self) -> Vec<u8> {
        let core_states = self.cores.iter().map(|core| Bytes::from(entry(core).encode_to_vec())).collect();
        let host_name = Bytes::from(self.host_name.clone().into_bytes());
        GetTpuRuntimeStatusResponse { host_name, core_states }.encode_to_vec()
    }
}

fn core(id: i32, state: CurrentCoreStateSummary) -> CoreState {
    let place = state.core_id.unwrap_or_default();
    let on_chip = place.core_on_chip.unwrap_or_default();
    let sequencer = |info: SequencerInfo| Sequencer {
        kind: info.sequencer_type.unwrap_or_default(),
        program_counter: info.pc.unwrap_or_default(),
        tag: info.tag.unwrap_or_default(),
        run_id: info.run_id.unwrap_or_default(),
        hlo_location: info.hlo_location.as_deref().map(shortened),
    };
    let queued = |info: QueuedProgramInfo| QueuedProgram {
        run_id: info.run_id.unwrap_or_default(),
        launch_id: info.launch_id.unwrap_or_default(),
        program_fingerprint: info.program_fingerprint.as_ref().map(hex).unwrap_or_default(),
    };
    CoreState {
        core: id,
        chip: place.chip_id,
        core_on_chip: on_chip.index,
        is_tensor_core: on_chip.core_type == Some(TENSOR_CORE),
        program_fingerprint: state.program_fingerprint.as_ref().filter(|print| !print.is_empty()).map(hex),
        launch_id: state.launch_id,
        sequencers: state.sequencer_info.into_iter().take(MAX_PARTS).map(sequencer).collect(),
        queued: state.queued_program_info.into_iter().take(MAX_PARTS).map(queued).collect(),
        error: state.error_message.as_deref().filter(|message| !message.is_empty()).map(shortened),
    }
}

fn entry(core: &CoreState) -> CoreStatesEntry {
    let sequencer = |sequencer: &Sequencer| SequencerInfo {
        sequencer_type: Some(sequencer.kind),
        sequencer_index: Some(0),
        pc: Some(sequencer.program_counter),
        tag: Some(sequencer.tag),
        run_id: Some(sequencer.run_id),
        hlo_location: sequencer.hlo_location.clone(),
        ..SequencerInfo::default()
    };
    let queued = |program: &QueuedProgram| QueuedProgramInfo {
        run_id: Some(program.run_id),
        launch_id: Some(program.launch_id),
        program_fingerprint: bytes(&program.program_fingerprint),
    };
    let core_type = core.is_tensor_core.then_some(TENSOR_CORE);
    let summary = CurrentCoreStateSummary {
        core_id: Some(TpuCoreIdentifier {
            global_core_id: Some(core.core),
            chip_id: core.chip,
            core_on_chip: Some(TpuCoreOnChip { core_type, index: core.core_on_chip }),
        }),
        sequencer_info: core.sequencers.iter().map(sequencer).collect(),
        xdb_server_running: Some(false),
        program_fingerprint: core.program_fingerprint.as_deref().and_then(bytes),
        launch_id: core.launch_id,
        queued_program_info: core.queued.iter().map(queued).collect(),
        error_message: core.error.clone(),
    };
    CoreStatesEntry { key: core.core, value: Some(summary) }
}

/// Bytes of hexadecimal digits.
fn bytes(digits: &str) -> Option<Bytes> {
    let digit = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..digits.len()).step_by(2).map(digit).collect::<Option<Vec<u8>>>().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> RuntimeStatus {
        let core = CoreState {
            core: 3,
            chip: Some(1),
            core_on_chip: Some(1),
            is_tensor_core: true,
            program_fingerprint: Some("00ff".into()),
            launch_id: Some(7),
            sequencers: vec![Sequencer {
                kind: 1,
                run_id: 9,
                hlo_location: Some("train_step".into()),
                ..Sequencer::default()
            }],
            queued: vec![QueuedProgram { run_id: 10, launch_id: 8, program_fingerprint: "ab".into() }],
            error: Some("halted".into()),
        };
        let idle = CoreState { core: 1, is_tensor_core: true, ..CoreState::default() };
        RuntimeStatus { host_name: "host-0".into(), cores: vec![idle, core], unreadable: 0 }
    }

    #[test]
    fn a_state_survives_the_wire() {
        assert_eq!(RuntimeStatus::read(&state().write()).unwrap(), state());
        assert_eq!(RuntimeStatus::read(b"").unwrap(), RuntimeStatus::default());
    }

    #[test]
    fn bad_cores_hide_no_others_and_are_bounded() {
        let mut core_states = vec![Bytes::from_static(b"\xff"), Bytes::from(entry(&state().cores[1]).encode_to_vec())];
        core_states.extend(vec![Bytes::new(); 5000]);
        let answer = GetTpuRuntimeStatusResponse { host_name: Bytes::from_static(b"\xffh\x1b"), core_states };
        let read = RuntimeStatus::read(&answer.encode_to_vec()).unwrap();
        assert_eq!(read.host_name, "\u{fffd}h ");
        assert_eq!(read.unreadable, 5002 - MAX_CORES + 1);
        assert!(read.cores.contains(&state().cores[1]));
        assert!(RuntimeStatus::read(b"\x12\x7f").is_err());
    }

    #[test]
    fn fingerprints_that_are_no_digits_are_left_out() {
        assert_eq!(bytes("0g"), None);
        assert_eq!(bytes("ü"), None);
        assert_eq!(bytes("abc"), None);
        assert_eq!(bytes(""), Some(Bytes::new()));
    }
}
