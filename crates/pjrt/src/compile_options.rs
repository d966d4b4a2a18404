//! Options of a compilation, and their protobuf form (`CompileOptionsProto`).

use std::collections::BTreeMap;

use prost::Message;

use crate::error::Error;

/// How much effort a compiler spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effort {
    /// As little as possible.
    O0,
    /// Some.
    O1,
    /// What production programs need; the default of libtpu.
    O2,
    /// Everything, also where it takes very long.
    O3,
}

impl Effort {
    fn number(self) -> i32 {
        match self {
            Self::O0 => 9,
            Self::O1 => 19,
            Self::O2 => 29,
            Self::O3 => 39,
        }
    }

    fn from_number(number: i32) -> Option<Self> {
        [Self::O0, Self::O1, Self::O2, Self::O3].into_iter().find(|effort| effort.number() == number)
    }
}

/// Value of a compiler flag given for one compilation.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionOverride {
    /// Text; compilers also parse numbers from it.
    String(String),
    /// Yes or no.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Double(f64),
}

/// Which device runs each replica of each partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceAssignment {
    replicas: usize,
    partitions: usize,
    /// Device ids, `[replica][partition]`.
    device_ids: Vec<i64>,
}

impl DeviceAssignment {
    /// From device ids in `[replica][partition]` order. Their number must be `replicas * partitions`, and none may be
    /// negative or occur twice: compilers do not check this, and some end the process.
    pub fn new(replicas: usize, partitions: usize, device_ids: Vec<i64>) -> Result<Self, Error> {
        if replicas.checked_mul(partitions) != Some(device_ids.len()) {
            return Err(Error::input(format!(
                "a device assignment of {replicas} replicas and {partitions} partitions needs as many device ids as \
                 their product, not {}",
                device_ids.len()
            )));
        }
        let mut sorted = device_ids.clone();
        sorted.sort_unstable();
        if let Some(id) = sorted.first().filter(|id| **id < 0) {
            return Err(Error::input(format!("device id {id} of a device assignment is negative")));
        }
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::input(format!("device id {} occurs twice in a device assignment", pair[0])));
        }
        Ok(Self { replicas, partitions, device_ids })
    }

    /// Number of replicas.
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// Number of partitions.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Device ids in `[replica][partition]` order.
    pub fn device_ids(&self) -> &[i64] {
        &self.device_ids
    }

    pub(crate) fn from_bytes(call: &'static str, bytes: &[u8]) -> Result<Self, Error> {
        let proto = wire::DeviceAssignmentProto::decode(bytes).map_err(|source| Error::Decode { call, source })?;
        Self::from_wire(&proto).ok_or(Error::Answer { call, what: "the device assignment is not a full matrix" })
    }

    fn to_wire(&self) -> wire::DeviceAssignmentProto {
        let column = |partition| wire::ComputationDevice {
            replica_device_ids: (0..self.replicas).map(|r| self.device_ids[r * self.partitions + partition]).collect(),
        };
        wire::DeviceAssignmentProto {
            replica_count: self.replicas as i32,
            computation_count: self.partitions as i32,
            computation_devices: (0..self.partitions).map(column).collect(),
        }
    }

    fn from_wire(proto: &wire::DeviceAssignmentProto) -> Option<Self> {
        let partitions = proto.computation_devices.len();
        let replicas = proto.computation_devices.first().map_or(0, |column| column.replica_device_ids.len());
        if proto.computation_devices.iter().any(|column| column.replica_device_ids.len() != replicas) {
            return None;
        }
        let id = |replica: usize, partition: usize| proto.computation_devices[partition].replica_device_ids[replica];
        let device_ids = (0..replicas).flat_map(|r| (0..partitions).map(move |p| id(r, p))).collect();
        Some(Self { replicas, partitions, device_ids })
    }
}

/// Options of one compilation.
///
/// The protobuf form is deterministic: equal options give equal bytes, so that it can be part of a cache key.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// Copies of the program that run on different data.
    pub num_replicas: u32,
    /// Devices among which one copy is split.
    pub num_partitions: u32,
    /// Whether partitions run one program (SPMD). `None`: whenever there is more than one partition, since the
    /// alternative is not implemented by current compilers.
    pub use_spmd_partitioning: Option<bool>,
    /// Whether the Shardy partitioner is used; `sdy` annotations need it.
    pub use_shardy_partitioner: bool,
    /// Which devices run the program. `None` lets it run on any assignment that fits.
    pub device_assignment: Option<DeviceAssignment>,
    /// Effort spent on run time. `None` is the compiler's default.
    pub optimization_level: Option<Effort>,
    /// Effort spent on fitting into memory. `None` is the compiler's default.
    pub memory_fitting_level: Option<Effort>,
    /// Compiler flags for this compilation, by name.
    pub overrides: BTreeMap<String, OptionOverride>,
    /// A multi-slice configuration; see [`Megascale`](crate::extension::Megascale).
    pub serialized_multi_slice_config: Vec<u8>,
    /// Whether the compiler may change shardings of parameters: one entry for all, or one per parameter.
    pub allow_sharding_propagation_to_parameters: Vec<bool>,
    /// Whether the compiler may choose shardings of outputs: one entry for all, or one per output.
    pub allow_sharding_propagation_to_outputs: Vec<bool>,
    /// Whether parameters passed through unchanged share memory with the outputs.
    pub alias_passthrough_params: bool,
    /// Whether the program takes its arguments as one tuple.
    pub parameter_is_tupled_arguments: bool,
    /// Whether the executable is to run on any one device instead of assigned ones.
    pub compile_portable_executable: bool,
    /// Version of the profile the compiler may use.
    pub profile_version: i64,
    /// Bytes of device memory the compiler is to plan with. 0 is what the device has.
    pub device_memory_bytes: i64,
    /// A profile of an earlier run, for compilers that optimize by it.
    pub fdo_profile: Vec<u8>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            num_replicas: 1,
            num_partitions: 1,
            use_spmd_partitioning: None,
            use_shardy_partitioner: false,
            device_assignment: None,
            optimization_level: None,
            memory_fitting_level: None,
            overrides: BTreeMap::new(),
            serialized_multi_slice_config: Vec::new(),
            allow_sharding_propagation_to_parameters: Vec::new(),
            allow_sharding_propagation_to_outputs: Vec::new(),
            alias_passthrough_params: false,
            parameter_is_tupled_arguments: false,
            compile_portable_executable: false,
            profile_version: 0,
            device_memory_bytes: 0,
            fdo_profile: Vec::new(),
        }
    }
}

impl CompileOptions {
    /// The serialized `CompileOptionsProto`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let overrides = self.overrides.iter().map(|(name, value)| {
            let value = match value.clone() {
                OptionOverride::String(value) => wire::OverrideValue::String(value),
                OptionOverride::Bool(value) => wire::OverrideValue::Bool(value),
                OptionOverride::Int(value) => wire::OverrideValue::Int(value),
                OptionOverride::Double(value) => wire::OverrideValue::Double(value),
            };
            (name.clone(), wire::OptionOverrideProto { value: Some(value) })
        });
        let build = wire::ExecutableBuildOptionsProto {
            device_ordinal: -1,
            num_replicas: self.num_replicas.into(),
            num_partitions: self.num_partitions.into(),
            use_spmd_partitioning: self.use_spmd_partitioning.unwrap_or(self.num_partitions > 1),
            device_assignment: self.device_assignment.as_ref().map(DeviceAssignment::to_wire),
            alias_passthrough_params: self.alias_passthrough_params,
            allow_spmd_sharding_propagation_to_output: self.allow_sharding_propagation_to_outputs.clone(),
            fdo_profile: self.fdo_profile.clone(),
            device_memory_size: self.device_memory_bytes,
            allow_spmd_sharding_propagation_to_parameters: self.allow_sharding_propagation_to_parameters.clone(),
            use_shardy_partitioner: self.use_shardy_partitioner,
            optimization_level: self.optimization_level.map_or(0, Effort::number),
            memory_fitting_level: self.memory_fitting_level.map_or(0, Effort::number),
        };
        wire::CompileOptionsProto {
            parameter_is_tupled_arguments: self.parameter_is_tupled_arguments,
            executable_build_options: Some(build),
            compile_portable_executable: self.compile_portable_executable,
            profile_version: self.profile_version,
            serialized_multi_slice_config: self.serialized_multi_slice_config.clone(),
            env_option_overrides: overrides.collect(),
        }
        .encode_to_vec()
    }

    /// Reads a serialized `CompileOptionsProto`. Fields this type does not have are dropped.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::decode("CompileOptions::from_bytes", bytes)
    }

    pub(crate) fn decode(call: &'static str, bytes: &[u8]) -> Result<Self, Error> {
        let proto = wire::CompileOptionsProto::decode(bytes).map_err(|source| Error::Decode { call, source })?;
        let build = proto.executable_build_options.unwrap_or_default();
        let overrides = proto.env_option_overrides.into_iter().filter_map(|(name, value)| {
            let value = match value.value? {
                wire::OverrideValue::String(value) => OptionOverride::String(value),
                wire::OverrideValue::Bool(value) => OptionOverride::Bool(value),
                wire::OverrideValue::Int(value) => OptionOverride::Int(value),
                wire::OverrideValue::Double(value) => OptionOverride::Double(value),
            };
            Some((name, value))
        });
        Ok(Self {
            num_replicas: u32::try_from(build.num_replicas).unwrap_or(0),
            num_partitions: u32::try_from(build.num_partitions).unwrap_or(0),
            use_spmd_partitioning: Some(build.use_spmd_partitioning),
            use_shardy_partitioner: build.use_shardy_partitioner,
            device_assignment: build.device_assignment.as_ref().and_then(DeviceAssignment::from_wire),
            optimization_level: Effort::from_number(build.optimization_level),
            memory_fitting_level: Effort::from_number(build.memory_fitting_level),
            overrides: overrides.collect(),
            serialized_multi_slice_config: proto.serialized_multi_slice_config,
            allow_sharding_propagation_to_parameters: build.allow_spmd_sharding_propagation_to_parameters,
            allow_sharding_propagation_to_outputs: build.allow_spmd_sharding_propagation_to_output,
            alias_passthrough_params: build.alias_passthrough_params,
            parameter_is_tupled_arguments: proto.parameter_is_tupled_arguments,
            compile_portable_executable: proto.compile_portable_executable,
            profile_version: proto.profile_version,
            device_memory_bytes: build.device_memory_size,
            fdo_profile: build.fdo_profile,
        })
    }
}

/// The messages on the wire. Names and tags are those of XLA's `compile_options.proto` and `xla_data.proto`.
mod wire {
    use std::collections::BTreeMap;

    use prost::{Message, Oneof};

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct CompileOptionsProto {
        #[prost(bool, tag = "2")]
        pub(super) parameter_is_tupled_arguments: bool,
        #[prost(message, optional, tag = "3")]
        pub(super) executable_build_options: Option<ExecutableBuildOptionsProto>,
        #[prost(bool, tag = "4")]
        pub(super) compile_portable_executable: bool,
        #[prost(int64, tag = "5")]
        pub(super) profile_version: i64,
        #[prost(bytes = "vec", tag = "6")]
        pub(super) serialized_multi_slice_config: Vec<u8>,
        #[prost(btree_map = "string, message", tag = "7")]
        pub(super) env_option_overrides: BTreeMap<String, OptionOverrideProto>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ExecutableBuildOptionsProto {
        #[prost(int64, tag = "1")]
        pub(super) device_ordinal: i64,
        #[prost(int64, tag = "4")]
        pub(super) num_replicas: i64,
        #[prost(int64, tag = "5")]
        pub(super) num_partitions: i64,
        #[prost(bool, tag = "6")]
        pub(super) use_spmd_partitioning: bool,
        #[prost(message, optional, tag = "9")]
        pub(super) device_assignment: Option<DeviceAssignmentProto>,
        #[prost(bool, tag = "10")]
        pub(super) alias_passthrough_params: bool,
        #[prost(bool, repeated, tag = "12")]
        pub(super) allow_spmd_sharding_propagation_to_output: Vec<bool>,
        #[prost(bytes = "vec", tag = "14")]
        pub(super) fdo_profile: Vec<u8>,
        #[prost(int64, tag = "15")]
        pub(super) device_memory_size: i64,
        #[prost(bool, repeated, tag = "18")]
        pub(super) allow_spmd_sharding_propagation_to_parameters: Vec<bool>,
        #[prost(bool, tag = "19")]
        pub(super) use_shardy_partitioner: bool,
        #[prost(int32, tag = "24")]
        pub(super) optimization_level: i32,
        #[prost(int32, tag = "25")]
        pub(super) memory_fitting_level: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct DeviceAssignmentProto {
        #[prost(int32, tag = "1")]
        pub(super) replica_count: i32,
        #[prost(int32, tag = "2")]
        pub(super) computation_count: i32,
        #[prost(message, repeated, tag = "3")]
        pub(super) computation_devices: Vec<ComputationDevice>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ComputationDevice {
        #[prost(int64, repeated, tag = "1")]
        pub(super) replica_device_ids: Vec<i64>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct OptionOverrideProto {
        #[prost(oneof = "OverrideValue", tags = "1, 2, 3, 4")]
        pub(super) value: Option<OverrideValue>,
    }

    #[derive(Clone, PartialEq, Oneof)]
    pub(super) enum OverrideValue {
        #[prost(string, tag = "1")]
        String(String),
        #[prost(bool, tag = "2")]
        Bool(bool),
        #[prost(int64, tag = "3")]
        Int(i64),
        #[prost(double, tag = "4")]
        Double(f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_says_one_replica_on_one_partition() {
        // executable_build_options { device_ordinal: -1, num_replicas: 1, num_partitions: 1 }
        let expected = [0x1a, 15, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x20, 1, 0x28, 1];
        assert_eq!(CompileOptions::default().to_bytes(), expected);
    }

    #[test]
    fn everything_survives_the_wire() {
        let options = CompileOptions {
            num_replicas: 2,
            num_partitions: 3,
            use_spmd_partitioning: Some(true),
            use_shardy_partitioner: true,
            device_assignment: Some(DeviceAssignment::new(2, 3, vec![5, 4, 3, 2, 1, 0]).unwrap()),
            optimization_level: Some(Effort::O0),
            memory_fitting_level: Some(Effort::O3),
            overrides: [
                ("a".to_string(), OptionOverride::Bool(true)),
                ("b".to_string(), OptionOverride::Int(-7)),
                ("c".to_string(), OptionOverride::String("x".into())),
                ("d".to_string(), OptionOverride::Double(0.25)),
            ]
            .into(),
            serialized_multi_slice_config: vec![1, 2],
            allow_sharding_propagation_to_parameters: vec![true, false],
            allow_sharding_propagation_to_outputs: vec![true],
            alias_passthrough_params: true,
            parameter_is_tupled_arguments: true,
            compile_portable_executable: true,
            profile_version: 9,
            device_memory_bytes: 1 << 34,
            fdo_profile: vec![3],
        };
        assert_eq!(CompileOptions::from_bytes(&options.to_bytes()).unwrap(), options);
    }

    #[test]
    fn spmd_follows_the_partitions() {
        let options = CompileOptions { num_partitions: 4, ..Default::default() };
        let read = CompileOptions::from_bytes(&options.to_bytes()).unwrap();
        assert_eq!(read.use_spmd_partitioning, Some(true));
    }

    #[test]
    fn assignments_are_checked() {
        let message = |r, p, ids: &[i64]| DeviceAssignment::new(r, p, ids.to_vec()).unwrap_err().to_string();
        assert!(message(2, 2, &[0, 1, 2]).contains("not 3"));
        assert!(message(1, 2, &[0, -1]).contains("negative"));
        assert!(message(1, 2, &[4, 4]).contains("twice"));
        assert!(message(usize::MAX, 2, &[4, 4]).contains("product"));
    }
}
