//! Text of the kept `OpSharding` messages.

use crate::shape::List;
use prost::Message as _;

#[derive(Clone, PartialEq, prost::Message)]
struct OpSharding {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(int64, repeated, tag = "3")]
    tile_assignment_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    tile_assignment_devices: Vec<i64>,
    #[prost(message, repeated, tag = "5")]
    tuple_shardings: Vec<OpSharding>,
    #[prost(bool, tag = "6")]
    replicate_on_last_tile_dim: bool,
    #[prost(int32, repeated, tag = "8")]
    last_tile_dims: Vec<i32>,
    #[prost(int64, repeated, tag = "9")]
    iota_reshape_dims: Vec<i64>,
    #[prost(int32, repeated, tag = "10")]
    iota_transpose_perm: Vec<i32>,
}

const KINDS: [&str; 7] = ["replicated", "maximal", "tuple", "other", "manual", "unknown", "unreduced"];

/// The sharding in HLO syntax, braces included.
pub(crate) fn text(message: &[u8]) -> String {
    match OpSharding::decode(message) {
        Ok(sharding) => format!("{{{}}}", inner(&sharding)),
        Err(_) => "{?}".to_owned(),
    }
}

fn inner(sharding: &OpSharding) -> String {
    let name = |kind: i32| usize::try_from(kind).ok().and_then(|k| KINDS.get(k)).copied().unwrap_or("unknown");
    match sharding.kind {
        1 => format!("maximal device={}", List(&sharding.tile_assignment_devices)),
        2 => {
            let parts: Vec<String> = sharding.tuple_shardings.iter().map(|s| format!("{{{}}}", inner(s))).collect();
            parts.join(", ")
        }
        3 => {
            let mut out = format!("devices=[{}]", List(&sharding.tile_assignment_dimensions));
            if sharding.iota_reshape_dims.is_empty() {
                out += &List(&sharding.tile_assignment_devices).to_string();
            } else {
                out += &format!("<=[{}]", List(&sharding.iota_reshape_dims));
                if sharding.iota_transpose_perm.iter().enumerate().any(|(i, &p)| i64::from(p) != i as i64) {
                    out += &format!("T({})", List(&sharding.iota_transpose_perm));
                }
            }
            if sharding.replicate_on_last_tile_dim {
                out += " last_tile_dim_replicate";
            }
            if !sharding.last_tile_dims.is_empty() {
                let dims: Vec<&str> = sharding.last_tile_dims.iter().map(|&k| name(k)).collect();
                out += &format!(" last_tile_dims={{{}}}", dims.join(", "));
            }
            out
        }
        kind => name(kind).to_owned(),
    }
}
