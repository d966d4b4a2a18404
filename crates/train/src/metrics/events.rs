//! TensorBoard's event files: protobuf messages in frames of length and checksums.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message as _;

use super::appended::Appended;
use super::proto::{
    Dim, Event, HistogramProto, Kind, PluginData, SessionLog, Summary, SummaryMetadata, SummaryValue, TensorProto,
    TensorShape, What,
};
use super::{Record, Start, now_seconds};

/// What TensorBoard expects in the first record of a file.
const FILE_VERSION: &str = "brain.Event:2";

/// An event file that grows. TensorBoard reads all event files of a folder as one run.
#[derive(Debug)]
pub struct EventFile {
    file: Appended,
}

impl EventFile {
    /// Makes a new file in a folder, and tells TensorBoard to forget what older files have of the steps to come.
    pub fn create(folder: &Path, start: Start) -> EventFile {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let uname = rustix::system::uname();
        // Letters that are no part of a host's name may be a folder's.
        let host: String =
            uname.nodename().to_string_lossy().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let seconds = now_seconds();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("events.out.tfevents.{:010}.{host}.{}.{number}", seconds as u64, std::process::id());
        let mut events = EventFile { file: Appended::open(&folder.join(name), 0) };
        events.write(seconds, 0, What::FileVersion(FILE_VERSION.into()));
        let first_step = match start {
            Start::Fresh => 0,
            Start::AfterStep(step) => step.saturating_add(1),
        };
        events.write(seconds, first_step, What::SessionLog(SessionLog { status: SessionLog::START }));
        events
    }

    /// Adds the values of a record as scalars. TensorBoard keeps 32 bits of them.
    pub fn scalars(&mut self, record: &Record) {
        let value = record.values.iter().map(|(name, value)| SummaryValue {
            tag: name.clone(),
            metadata: None,
            kind: Some(Kind::Simple(*value as f32)),
        });
        self.write(record.wall_time_seconds, record.step, What::Summary(Summary { value: value.collect() }));
    }

    /// Adds a text, which TensorBoard shows as Markdown.
    pub fn text(&mut self, step: u64, tag: &str, text: &str) {
        let tensor = TensorProto {
            dtype: TensorProto::STRING,
            tensor_shape: Some(TensorShape { dim: vec![Dim { size: 1 }] }),
            string_val: vec![text.as_bytes().to_vec()],
        };
        let metadata = SummaryMetadata { plugin_data: Some(PluginData { plugin_name: "text".into() }) };
        self.summary(step, tag, Some(metadata), Kind::Tensor(tensor));
    }

    /// Adds how values are distributed.
    pub fn histogram(&mut self, step: u64, tag: &str, histogram: &ValueHistogram) {
        self.summary(step, tag, None, Kind::Histogram(histogram.to_proto()));
    }

    /// Puts everything on disk.
    pub fn flush(&mut self) {
        self.file.flush();
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Records that could not be written.
    pub fn lost(&self) -> u64 {
        self.file.lost()
    }

    fn summary(&mut self, step: u64, tag: &str, metadata: Option<SummaryMetadata>, kind: Kind) {
        let value = vec![SummaryValue { tag: tag.into(), metadata, kind: Some(kind) }];
        self.write(now_seconds(), step, What::Summary(Summary { value }));
    }

    fn write(&mut self, wall_time: f64, step: u64, what: What) {
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        let event = Event { wall_time, step, what: Some(what) };
        self.file.append(&frame(&event.encode_to_vec()));
    }
}

/// A TFRecord: length, checksum of the length, data, checksum of the data.
fn frame(data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u64).to_le_bytes();
    let mut framed = Vec::with_capacity(data.len() + 16);
    framed.extend(len);
    framed.extend(masked_checksum(&len).to_le_bytes());
    framed.extend(data);
    framed.extend(masked_checksum(data).to_le_bytes());
    framed
}

/// CRC-32C, rotated and moved, so that a checksum of data that holds checksums is no trivial one.
fn masked_checksum(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// How values are distributed, in buckets of equal width.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueHistogram {
    min: f64,
    max: f64,
    sum: f64,
    sum_squares: f64,
    counts: Vec<u64>,
    not_finite: u64,
}

impl ValueHistogram {
    const BUCKETS: usize = 40;

    /// Counts values; those that are not finite are counted apart.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> ValueHistogram {
        let finite = values.clone().filter(|value| value.is_finite());
        let mut histogram = ValueHistogram { min: f64::INFINITY, max: f64::NEG_INFINITY, ..ValueHistogram::default() };
        for value in values {
            if value.is_finite() {
                histogram.min = histogram.min.min(value);
                histogram.max = histogram.max.max(value);
                histogram.sum += value;
                histogram.sum_squares += value * value;
            } else {
                histogram.not_finite += 1;
            }
        }
        if histogram.min > histogram.max {
            return ValueHistogram { not_finite: histogram.not_finite, ..ValueHistogram::default() };
        }
        // Halves, because the difference of two finite numbers may not be finite.
        let half_span = histogram.max / 2.0 - histogram.min / 2.0;
        histogram.counts = vec![0; ValueHistogram::BUCKETS];
        for value in finite {
            // Equal values have no span: NaN becomes the first bucket.
            let part = (value / 2.0 - histogram.min / 2.0) / half_span;
            let bucket = (part * ValueHistogram::BUCKETS as f64) as usize;
            if let Some(count) = histogram.counts.get_mut(bucket.min(ValueHistogram::BUCKETS - 1)) {
                *count += 1;
            }
        }
        histogram
    }

    /// Values that are finite.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Values that are not.
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    fn to_proto(&self) -> HistogramProto {
        let limits = (1..=self.counts.len()).map(|n| {
            let part = n as f64 / ValueHistogram::BUCKETS as f64;
            self.min * (1.0 - part) + self.max * part
        });
        HistogramProto {
            min: self.min,
            max: self.max,
            num: self.count() as f64,
            sum: self.sum,
            sum_squares: self.sum_squares,
            bucket_limit: limits.collect(),
            bucket: self.counts.iter().map(|&count| count as f64).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_crc32c() {
        // RFC 3720, B.4: 32 bytes of zeros.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked_checksum(&[0; 32]), 0x8a91_36aa_u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }

    #[test]
    fn every_value_is_in_a_bucket() {
        let check = |values: &[f64], count: u64, not_finite: u64| {
            let histogram = ValueHistogram::of(values.iter().copied());
            assert_eq!((histogram.count(), histogram.not_finite()), (count, not_finite), "{values:?}");
            let proto = histogram.to_proto();
            assert_eq!(proto.bucket.iter().sum::<f64>(), count as f64);
            assert!(proto.bucket_limit.iter().all(|limit| limit.is_finite()));
        };
        check(&[], 0, 0);
        check(&[1.0], 1, 0);
        check(&[1.0; 5], 5, 0);
        check(&[-1.0, 0.0, 1.0, f64::NAN, f64::INFINITY], 3, 2);
        check(&[f64::NAN], 0, 1);
        check(&[f64::MIN, f64::MAX], 2, 0);
        check(&[0.0, f64::MIN_POSITIVE], 2, 0);
    }
}
