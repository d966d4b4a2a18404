//! Reading what was written, hostile input, and input larger than memory should be.

use crate::{
    Error, Line, LineEvent, Plane, ReadLimits, Space, SpaceBuilder, SpaceReader, SpaceVisitor, StatValue, XEvent,
    XSpace, XStatValue, names,
};
use prost::Message;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use testkit::{Mutator, Needed, require};

/// Everything a reader hands out, as text.
#[derive(Default)]
struct Transcript(Vec<String>);

impl SpaceVisitor for Transcript {
    fn space(&mut self, space: &Space) {
        self.0.push(format!("space {} {:?} {:?} {:?}", space.planes, space.errors, space.warnings, space.hostnames));
    }

    fn plane(&mut self, plane: &Plane) -> ControlFlow<()> {
        let facts: Vec<String> = plane
            .stats
            .iter()
            .map(|stat| format!("{}={:?}", plane.stat_name(stat.metadata_id).unwrap_or("?"), stat.value))
            .collect();
        self.0.push(format!("plane {} {} lines {} {}", plane.index, plane.name, plane.lines, facts.join(" ")));
        ControlFlow::Continue(())
    }

    fn line(&mut self, _: &Plane, line: &Line) -> ControlFlow<()> {
        self.0.push(format!("line {} {} at {} events {}", line.id, line.name, line.timestamp_ns, line.events));
        ControlFlow::Continue(())
    }

    fn event(&mut self, plane: &Plane, line: &Line, event: &LineEvent<'_>) -> ControlFlow<()> {
        let name = plane.event_metadata(event.metadata_id).map_or("?", |metadata| &*metadata.name);
        let stats: Vec<String> = event
            .stats()
            .map(|stat| {
                let value = plane.text(stat.value).map_or(format!("{:?}", stat.value), str::to_string);
                format!("{}={value}", plane.stat_name(stat.metadata_id).unwrap_or("?"))
            })
            .collect();
        let start = line.start_ps(event);
        self.0.push(format!("event {name} {start}+{} {}", event.duration_ps, stats.join(" ")));
        ControlFlow::Continue(())
    }
}

fn read(bytes: &[u8], limits: ReadLimits) -> Result<Vec<String>, Error> {
    let mut transcript = Transcript::default();
    SpaceReader::new(Cursor::new(bytes), limits)?.read(&mut transcript)?;
    Ok(transcript.0)
}

fn example() -> XSpace {
    let mut space = SpaceBuilder::new();
    space.hostname("worker-0");
    space.warning("3 events were dropped");
    let plane = space.plane("/device:TPU:0");
    plane.fact(names::stat::PEAK_TERAFLOPS, XStatValue::Double(918.0));
    let op = plane.event("fusion.1");
    let category = plane.shared_text(names::stat::HLO_CATEGORY, "convolution fusion");
    let flops = plane.stat(names::stat::FLOPS, XStatValue::Uint64(1 << 40));
    plane.metadata(op).stats.push(flops);
    let line = plane.line(1, names::OPS_LINE, 7);
    line.events.push(XEvent::at(op, 1_000, 500).with(category));
    line.events.push(XEvent::at(op, 2_000, 600));
    space.finish()
}

#[test]
fn what_is_written_is_read() {
    let transcript = read(&example().to_bytes(), ReadLimits::default()).unwrap();
    assert_eq!(
        transcript,
        [
            "space 1 [] [\"3 events were dropped\"] [\"worker-0\"]",
            "plane 0 /device:TPU:0 lines 1 peak_teraflops_per_second=Double(918.0)",
            "line 1 XLA Ops at 7 events 2",
            "event fusion.1 8000+500 hlo_category=convolution fusion",
            "event fusion.1 9000+600 ",
        ]
    );
}

#[test]
fn a_large_value_stays_in_the_file_until_it_is_fetched() {
    let mut space = SpaceBuilder::new();
    let plane = space.plane(names::METADATA_PLANE);
    let id = plane.event("jit_step(17)");
    let proto: Vec<u8> = (0..200_000u32).map(|i| i as u8).collect();
    let stat = plane.stat(names::stat::HLO_PROTO, XStatValue::Bytes(proto.clone()));
    plane.metadata(id).stats.push(stat);
    let bytes = space.finish().to_bytes();

    #[derive(Default)]
    struct Programs(Vec<crate::FarValue>);
    impl SpaceVisitor for Programs {
        fn plane(&mut self, plane: &Plane) -> ControlFlow<()> {
            let [hlo_proto] = plane.stat_ids(names::stat::HLO_PROTO).collect::<Vec<_>>()[..] else { panic!() };
            for (_, metadata) in plane.all_event_metadata() {
                self.0.extend(metadata.far.iter().filter(|far| far.metadata_id == hlo_proto));
            }
            ControlFlow::Break(())
        }
        fn event(&mut self, _: &Plane, _: &Line, _: &LineEvent<'_>) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    let mut programs = Programs::default();
    let mut reader = SpaceReader::new(Cursor::new(&bytes), ReadLimits::default()).unwrap();
    reader.read(&mut programs).unwrap();
    assert_eq!(programs.0.len(), 1);
    assert_eq!(reader.far_value(&programs.0[0]).unwrap(), proto);
    let limits = ReadLimits { far_value_bytes: 1000, ..ReadLimits::default() };
    let refused = SpaceReader::new(Cursor::new(&bytes), limits).unwrap().far_value(&programs.0[0]).unwrap_err();
    assert!(matches!(refused, Error::TooLarge { limit_bytes: 1000, .. }), "{refused}");
}

#[test]
fn every_cut_is_refused_with_its_place() {
    let bytes = example().to_bytes();
    // A cut between the fields of the outermost message leaves a shorter profile, which protobuf cannot tell.
    let mut whole = vec![];
    let mut at = 0;
    while at < bytes.len() {
        let mut rest = &bytes[at + 1..];
        let length = prost::encoding::decode_varint(&mut rest).unwrap() as usize;
        at = bytes.len() - rest.len() + length;
        whole.push(at);
    }
    for cut in 0..bytes.len() {
        match read(&bytes[..cut], ReadLimits::default()) {
            Ok(_) => assert!(whole.contains(&cut), "cut at {cut}"),
            Err(error) => {
                assert!(error.offset() <= cut as u64);
                assert!(error.to_string().contains(&format!("byte {}", error.offset())), "{error}");
            }
        }
    }
}

#[test]
fn claims_larger_than_the_input_take_no_memory() {
    // A plane, a line and an event that each claim 2^60 bytes.
    for path in [&[0x0a][..], &[0x0a, 38, 0x1a], &[0x0a, 38, 0x1a, 36, 0x22]] {
        let mut bytes = path.to_vec();
        bytes.extend([0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]);
        bytes.resize(40, 0x08);
        let error = read(&bytes, ReadLimits::default()).unwrap_err();
        assert!(matches!(error, Error::Truncated { claimed_bytes, .. } if claimed_bytes == 1 << 60), "{error}");
    }
}

#[test]
fn names_beyond_the_limit_are_refused() {
    let mut space = SpaceBuilder::new();
    let plane = space.plane("/device:TPU:0");
    for i in 0..1000 {
        plane.event(&format!("fusion.{i}"));
    }
    let limits = ReadLimits { metadata_bytes: 100_000, ..ReadLimits::default() };
    let error = read(&space.finish().to_bytes(), limits).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit_bytes: 100_000, .. }), "{error}");
}

#[test]
fn text_that_is_not_utf8_and_fields_of_another_type_are_refused() {
    let mut bytes = example().to_bytes();
    let at = bytes.windows(8).position(|w| w == b"fusion.1").unwrap();
    bytes[at] = 0xff;
    let error = read(&bytes, ReadLimits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the profile is damaged at byte {at}: text that is not UTF-8 in XEventMetadata")
    );
    let error = read(&[0x08, 0x01], ReadLimits::default()).unwrap_err();
    assert!(error.to_string().contains("a field of another type in XSpace"), "{error}");
    assert!(read(&[], ReadLimits::default()).unwrap_err().to_string().contains("the file is empty"));
}

#[test]
fn unknown_fields_are_skipped() {
    let mut bytes = example().to_bytes();
    // Field 100 of every wire type that has no meaning here.
    bytes
        .extend([0xa0, 0x06, 0x05, 0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8, 0xa2, 0x06, 0x02, 9, 9, 0xa5, 0x06, 1, 2, 3, 4]);
    assert_eq!(read(&bytes, ReadLimits::default()).unwrap().len(), 5);
}

/// A profile of one line with so many equal events, made as it is read.
struct Endless {
    head: Vec<u8>,
    event: Vec<u8>,
    tail: Vec<u8>,
    count: u64,
    at: u64,
}

impl Endless {
    fn new(count: u64) -> Endless {
        let event = XEvent::at(1, 1_000, 10).encode_to_vec();
        let event = [&[0x22, event.len() as u8][..], &event].concat();
        let line = event.len() as u64 * count;
        let mut metadata = SpaceBuilder::new();
        metadata.plane("").event("op");
        let tail = metadata.finish().planes.remove(0).encode_to_vec();
        let mut line_head = vec![0x1a];
        prost::encoding::encode_varint(line, &mut line_head);
        let mut head = vec![0x0a];
        prost::encoding::encode_varint(line_head.len() as u64 + line + tail.len() as u64, &mut head);
        head.extend(line_head);
        Endless { head, event, tail, count, at: 0 }
    }

    fn length(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + self.event.len() as u64 * self.count
    }
}

impl Read for Endless {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let (head, middle) = (self.head.len() as u64, self.event.len() as u64 * self.count);
        let from = if self.at < head {
            &self.head[self.at as usize..]
        } else if self.at < head + middle {
            &self.event[((self.at - head) % self.event.len() as u64) as usize..]
        } else {
            &self.tail[(self.at - head - middle).min(self.tail.len() as u64) as usize..]
        };
        let count = from.len().min(to.len());
        to[..count].copy_from_slice(&from[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Endless {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(by) => self.length().saturating_add_signed(by),
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
        };
        Ok(self.at)
    }
}

#[test]
fn a_line_larger_than_the_window_is_streamed() {
    #[derive(Default)]
    struct Sum(u64, i64);
    impl SpaceVisitor for Sum {
        fn event(&mut self, plane: &Plane, _: &Line, event: &LineEvent<'_>) -> ControlFlow<()> {
            assert_eq!(&*plane.event_metadata(event.metadata_id).unwrap().name, "op");
            self.0 += 1;
            self.1 += event.duration_ps;
            ControlFlow::Continue(())
        }
    }
    let mut sum = Sum::default();
    let mut reader = SpaceReader::new(Endless::new(3_000_000), ReadLimits::default()).unwrap();
    assert!(reader.length() > 20 << 20);
    reader.read(&mut sum).unwrap();
    assert_eq!((sum.0, sum.1), (3_000_000, 30_000_000));
}

#[test]
fn mutated_profiles_are_read_or_refused() {
    let mut seeds = vec![example().to_bytes()];
    if let Some(folder) = require("mutated_profiles_are_read_or_refused", Needed::Profiles) {
        let bytes = std::fs::read(folder.join("v6e-8-host-offload.xplane.pb")).unwrap();
        assert!(read(&bytes, ReadLimits::default()).unwrap().len() > 10_000);
        // A part of it that mutations are quick on: some events of every line, no programs.
        let mut space = XSpace::decode(&bytes[..]).unwrap();
        for plane in &mut space.planes {
            plane.lines.truncate(8);
            plane.lines.iter_mut().for_each(|line| line.events.truncate(8));
            plane.event_metadata.retain(|id, _| *id % 16 == 0);
            plane
                .event_metadata
                .values_mut()
                .for_each(|metadata| metadata.stats.retain(|stat| stat.encoded_len() < 500));
        }
        seeds.push(space.to_bytes());
    }
    let limits = ReadLimits { metadata_bytes: 1 << 20, event_bytes: 1 << 16, far_value_bytes: 1 << 16 };
    let mut mutator = Mutator::new(20, seeds);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..10_000 {
        let input = mutator.next_input();
        match read(&input, limits) {
            Ok(_) => accepted += 1,
            Err(error) => {
                assert!(error.offset() <= input.len() as u64, "{error}");
                refused += 1;
            }
        }
    }
    assert!(accepted > 100 && refused > 1000, "{accepted} read, {refused} refused");
}

#[test]
fn numbers_and_ids_of_stats() {
    assert_eq!(StatValue::Uint64(u64::MAX).integer(), Some(-1));
    assert_eq!(StatValue::Int64(-2).number(), Some(-2.0));
    assert_eq!(StatValue::Str("3").number(), None);
}
