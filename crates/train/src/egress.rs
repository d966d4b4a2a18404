//! A warning where the data of a training is not where its slice is: reading it then costs money.

use std::thread::JoinHandle;

use chips::{BucketCloud, EgressPrice};

use crate::data::RemoteData;

/// One sentence for each bucket whose data is paid for on its way to a zone.
pub fn egress_warnings(remote: &RemoteData, zone: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (bucket, bytes) in remote.buckets() {
        let cloud = if bucket.starts_with("s3://") { BucketCloud::Amazon } else { BucketCloud::Google };
        let Some(location) = remote.location(&bucket) else { continue };
        let Some(price) = EgressPrice::between(cloud, &location, zone).filter(|price| price.usd_per_gb > 0.0) else {
            continue;
        };
        warnings.push(format!(
            "{bucket} is in {location}, this slice in {zone} ({}): reading costs ${:.2} a GB (list price, {}), \
             ${:.2} for these {:.1} GB each time a host reads all of them; copy the data to a bucket in the slice's region",
            price.why,
            price.usd_per_gb,
            price.date,
            price.usd(bytes),
            bytes as f64 / 1e9,
        ));
    }
    warnings
}

/// Warns beside the training. It is over when this is dropped.
pub(crate) struct EgressWarning(Option<JoinHandle<()>>);

impl Drop for EgressWarning {
    fn drop(&mut self) {
        // Its questions have time limits, and a training takes longer.
        let _ = self.0.take().map(JoinHandle::join);
    }
}

/// Asks where machine and buckets are, beside the training, and warns.
pub(crate) fn warn_of_egress(remote: &RemoteData) -> EgressWarning {
    let remote = remote.clone();
    let warn = move || {
        let Some(zone) = runtime::distributed::machine_zone() else { return };
        egress_warnings(&remote, &zone).iter().for_each(|warning| tracing::warn!("{warning}"));
    };
    // Without a thread there is no warning, and nothing else is lost.
    EgressWarning(std::thread::Builder::new().name("egress".into()).spawn(warn).ok())
}
