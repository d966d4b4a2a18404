//! The times for which a slice is paid, from the operations that the API keeps.
//!
//! A machine is paid for while it is READY. The API has no record of when a request of the queue became so, nor of when it was
//! taken: there the supervisor's own looks count. It does record when a node by itself was made and when a deletion was asked for.

use std::time::SystemTime;

use fleet::provider::PaidTime;
use google_cloud_longrunning::model::Operation;
use google_cloud_tpu_v2::model::OperationMetadata;

/// What the operations of a zone tell of a slice; none where they tell nothing.
pub(crate) fn paid_time(area: &str, name: &str, operations: &[Operation]) -> Option<PaidTime> {
    let (queued, node) = (format!("{area}/queuedResources/{name}"), format!("{area}/nodes/{name}"));
    let (mut from, mut until) = (None::<SystemTime>, None::<SystemTime>);
    for operation in operations.iter().filter(|operation| operation.error().is_none()) {
        let metadata = operation.metadata.as_ref().and_then(|any| any.to_msg::<OperationMetadata>().ok());
        let Some(metadata) = metadata.filter(|metadata| metadata.target == queued || metadata.target == node) else {
            continue;
        };
        let time = |timestamp: Option<google_cloud_wkt::Timestamp>| timestamp.and_then(|time| time.try_into().ok());
        match metadata.verb.as_str() {
            "create" if operation.done && metadata.target == node => from = time(metadata.end_time).or(from),
            "delete" => until = [until, time(metadata.create_time)].into_iter().flatten().min(),
            _ => {}
        }
    }
    (from.is_some() || until.is_some()).then_some(PaidTime { from, until })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use google_cloud_rpc::model::Status;
    use google_cloud_wkt::{Any, Timestamp};

    use super::*;

    fn operation(target: &str, verb: &str, began: i64, ended: Option<i64>) -> Operation {
        let at = |seconds| Timestamp::clamp(seconds, 0);
        let metadata = OperationMetadata::new()
            .set_target(format!("projects/p/locations/z/{target}"))
            .set_verb(verb)
            .set_create_time(at(began))
            .set_or_clear_end_time(ended.map(at));
        Operation::new().set_metadata(Any::from_msg(&metadata).unwrap()).set_done(ended.is_some())
    }

    #[test]
    fn operations_tell_when_a_node_was_made_and_when_a_slice_was_deleted() {
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let paid = |operations: &[Operation]| paid_time("projects/p/locations/z", "a", operations);
        assert_eq!(paid(&[]), None);
        assert_eq!(paid(&[operation("nodes/a-b", "delete", 5, None), operation("nodes/a", "stop", 5, Some(6))]), None);
        // A node by itself, and a deletion that was asked for twice.
        let made = operation("nodes/a", "create", 10, Some(40));
        assert_eq!(paid(std::slice::from_ref(&made)), Some(PaidTime { from: at(40), until: None }));
        let deleted = [made, operation("nodes/a", "delete", 90, None), operation("nodes/a", "delete", 80, Some(99))];
        assert_eq!(paid(&deleted), Some(PaidTime { from: at(40), until: at(80) }));
        // A request of the queue is accepted long before it is filled; a deletion that failed is none.
        let queued = operation("queuedResources/a", "create", 10, Some(11));
        let failed = operation("queuedResources/a", "delete", 50, Some(51)).set_error(Status::new().set_code(13));
        let deleted = operation("queuedResources/a", "delete", 60, None);
        assert_eq!(paid(&[queued.clone(), failed.clone()]), None);
        assert_eq!(paid(&[queued, failed, deleted]), Some(PaidTime { from: None, until: at(60) }));
    }
}
