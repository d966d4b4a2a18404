//! WAV files: samples of one channel.

use std::io::Read;
use std::path::Path;

use crate::error::Error;

/// Longest file that is read.
const MAX_BYTES: u64 = 4 << 30;

/// Samples of a file, between -1 and 1, one after the other; channels are averaged.
#[derive(Clone, Debug, PartialEq)]
pub struct WavAudio {
    /// Samples in a second.
    pub sample_rate: u32,
    /// The samples.
    pub samples: Vec<f32>,
}

/// How samples are written.
#[derive(Clone, Copy)]
struct SampleFormat {
    is_float: bool,
    channels: usize,
    bytes: usize,
    sample_rate: u32,
}

impl WavAudio {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<WavAudio, Error> {
        let failed = |why: String| {
            Error::setting(
                format!("{}: {why}", path.display()),
                "give a WAV file, as `ffmpeg -i FILE -ar 16000 -ac 1 OUT.wav` writes",
            )
        };
        let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(failed(format!("it is longer than {MAX_BYTES} bytes")));
        }
        WavAudio::parse(&bytes).map_err(failed)
    }

    fn parse(bytes: &[u8]) -> Result<WavAudio, String> {
        if bytes.get(..4) != Some(b"RIFF") || bytes.get(8..12) != Some(b"WAVE") {
            return Err("it is no WAV file".into());
        }
        let mut rest = bytes.get(12..).unwrap_or_default();
        let mut format = None;
        while let Some((head, after)) = rest.split_at_checked(8) {
            let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            // Writers to pipes do not know the size: then it goes on to the end.
            let body = after.get(..size).unwrap_or(after);
            match head.get(..4) {
                Some(b"fmt ") => format = Some(SampleFormat::parse(body)?),
                Some(b"data") => {
                    let format = format.ok_or("its samples come before their format")?;
                    return Ok(WavAudio { sample_rate: format.sample_rate, samples: format.samples(body) });
                }
                _ => {}
            }
            rest = after.get(size.saturating_add(size % 2)..).unwrap_or_default();
        }
        Err("it has no samples".into())
    }
}

impl SampleFormat {
    fn parse(body: &[u8]) -> Result<SampleFormat, String> {
        let u16_at = |at: usize| body.get(at..at + 2).map(|two| u16::from_le_bytes([two[0], two[1]]));
        let short = || "its format is cut short".to_string();
        let mut kind = u16_at(0).ok_or_else(short)?;
        // Extensible: the kind is the begin of a longer number.
        if kind == 0xfffe {
            kind = u16_at(24).ok_or_else(short)?;
        }
        let (channels, bits) = (u16_at(2).ok_or_else(short)?, u16_at(14).ok_or_else(short)?);
        let rate = body.get(4..8).ok_or_else(short)?;
        let is_float = kind == 3;
        match (kind, bits) {
            (1, 8 | 16 | 24 | 32) | (3, 32) if channels > 0 => Ok(SampleFormat {
                is_float,
                channels: usize::from(channels),
                bytes: usize::from(bits) / 8,
                sample_rate: u32::from_le_bytes([rate[0], rate[1], rate[2], rate[3]]),
            }),
            _ => Err(format!("samples of kind {kind} with {bits} bits in {channels} channels are not known")),
        }
    }

    fn samples(&self, body: &[u8]) -> Vec<f32> {
        let one = |bytes: &[u8]| match (self.is_float, bytes) {
            (true, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (false, &[a]) => (f32::from(a) - 128.0) / 128.0,
            (false, &[a, b]) => f32::from(i16::from_le_bytes([a, b])) / 32_768.0,
            (false, &[a, b, c]) => (i32::from_le_bytes([0, a, b, c]) >> 8) as f32 / 8_388_608.0,
            (false, &[a, b, c, d]) => i32::from_le_bytes([a, b, c, d]) as f32 / 2_147_483_648.0,
            _ => 0.0,
        };
        let frames = body.chunks_exact((self.bytes * self.channels).max(1));
        frames.map(|frame| frame.chunks_exact(self.bytes.max(1)).map(one).sum::<f32>() / self.channels as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wav(kind: u16, channels: u16, bits: u16, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
        bytes.extend([kind.to_le_bytes(), channels.to_le_bytes()].concat());
        bytes.extend(16_000u32.to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(bits.to_le_bytes());
        bytes.extend(b"odd \x01\0\0\0x\0data");
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn samples_of_all_kinds_are_read() {
        let check = |bytes: Vec<u8>, expected: &[f32]| {
            let audio = WavAudio::parse(&bytes).unwrap();
            assert_eq!((audio.sample_rate, audio.samples.as_slice()), (16_000, expected));
        };
        check(wav(1, 1, 16, &[0, 0, 0, 0x40, 0, 0x80]), &[0.0, 0.5, -1.0]);
        check(wav(1, 2, 16, &[0, 0, 0, 0x40]), &[0.25]);
        check(wav(1, 1, 8, &[128, 192]), &[0.0, 0.5]);
        check(wav(1, 1, 24, &[0, 0, 0xc0]), &[-0.5]);
        check(wav(1, 1, 32, &[0, 0, 0, 0x40]), &[0.5]);
        check(wav(3, 1, 32, &0.75f32.to_le_bytes()), &[0.75]);
        let refused = |bytes: &[u8], expected: &str| {
            let error = WavAudio::parse(bytes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        refused(b"ID3", "no WAV file");
        refused(&wav(1, 0, 16, &[]), "0 channels");
        refused(&wav(7, 1, 8, &[]), "kind 7");
        refused(b"RIFF\0\0\0\0WAVEdata\0\0\0\0", "before their format");
        refused(b"RIFF\0\0\0\0WAVEfmt \x02\0\0\0\0\0", "cut short");
        refused(b"RIFF\0\0\0\0WAVE", "no samples");
    }
}
