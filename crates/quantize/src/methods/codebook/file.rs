//! Codebooks, and weights made of them, in safetensors files.

use std::collections::BTreeMap;
use std::path::Path;

use tensor::{DType, Literal};
use weights::SafeTensors;

use crate::error::Error;
use crate::methods::codebook::{Codebooks, EncodedMatrix, Metric};

/// The version of files of codebooks; newer ones are refused.
pub const CODEBOOK_VERSION: u64 = 1;

/// What a file of codebooks calls itself.
const FORMAT: &str = "tpubridge.codebook";

impl Codebooks {
    /// Writes the codebooks to a file: whole, or not at all.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        Ok(weights::write(path, [("codebooks", &self.literal()?)], &self.metadata())?)
    }

    /// Reads codebooks from a file, also from one of a weight.
    pub fn load(path: &Path) -> Result<Codebooks, Error> {
        Codebooks::read(&SafeTensors::open(path)?, path)
    }

    fn literal(&self) -> Result<Literal, Error> {
        floats(&self.values, [self.stages(), self.entries, self.vector])
    }

    fn metadata(&self) -> BTreeMap<String, String> {
        let entry = |key: &str, value: String| (key.to_string(), value);
        let mut metadata = BTreeMap::from([
            entry("format", FORMAT.into()),
            entry("version", CODEBOOK_VERSION.to_string()),
            entry("metric", self.metric.name().into()),
        ]);
        metadata.extend(self.group.map(|group| entry("group", group.to_string())));
        metadata
    }

    fn read(file: &SafeTensors, path: &Path) -> Result<Codebooks, Error> {
        let metadata = |key: &str| file.metadata().get(key).map(String::as_str);
        if metadata("format") != Some(FORMAT) {
            return Err(damaged(path, "it is no file of codebooks"));
        }
        match metadata("version").and_then(|version| version.parse::<u64>().ok()) {
            Some(CODEBOOK_VERSION) => {}
            Some(found) if found > CODEBOOK_VERSION => {
                let supported = CODEBOOK_VERSION;
                return Err(weights::Error::Newer { path: path.into(), found, supported }.into());
            }
            _ => return Err(damaged(path, "its version is not a number from 1")),
        }
        let metric = metadata("metric").and_then(Metric::from_name);
        let metric = metric.ok_or_else(|| damaged(path, "its metric is none of euclidean, cosine and dot"))?;
        let group = match metadata("group") {
            Some(group) => Some(group.parse().map_err(|_| damaged(path, "its group is not a number"))?),
            None => None,
        };
        let (dims, values) = read_floats(file, path, "codebooks")?;
        match dims[..] {
            [stages @ 1..=super::MAX_STAGES, entries, vector] if values.len() == stages * entries * vector => {
                Codebooks::new(vector, entries, metric, group, values)
            }
            _ => Err(damaged(path, &format!("`codebooks` of {dims:?} is not [stages, entries, vector]"))),
        }
    }
}

impl EncodedMatrix {
    /// Writes the weight, its codebooks with it, to a file: whole, or not at all.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let codebooks = self.codebooks.literal()?;
        let vectors = self.in_features / self.codebooks.vector;
        let shape = [self.codebooks.stages(), self.out_features, vectors];
        let codes = Literal::new(DType::U8, shape, self.codes.clone());
        let codes = codes.ok_or_else(|| Error::setting("codes do not fill their tensor", "report this as a bug"))?;
        let groups = self.scales.len() / self.out_features;
        let scales = floats(&self.scales, [self.out_features, groups])?;
        let tensors = [("codebooks", &codebooks), ("codes", &codes), ("scales", &scales)];
        Ok(weights::write(path, tensors, &self.codebooks.metadata())?)
    }

    /// Reads a weight from a file.
    pub fn load(path: &Path) -> Result<EncodedMatrix, Error> {
        let file = SafeTensors::open(path)?;
        let codebooks = Codebooks::read(&file, path)?;
        let codes = file.read("codes")?;
        let (_, scales) = read_floats(&file, path, "scales")?;
        match *codes.dims() {
            [stages, out_features, vectors] if codes.dtype() == DType::U8 && stages == codebooks.stages() => {
                let in_features = vectors.checked_mul(codebooks.vector);
                let in_features = in_features.ok_or_else(|| damaged(path, "`codes` has too many inputs"))?;
                EncodedMatrix::new(codebooks, out_features, in_features, codes.into_bytes(), scales)
            }
            _ => Err(damaged(path, &format!("`codes` of {:?} is not U8 [stages, outputs, vectors]", codes.dims()))),
        }
    }
}

fn floats<const N: usize>(values: &[f32], dims: [usize; N]) -> Result<Literal, Error> {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let literal = Literal::new(DType::F32, dims, bytes);
    literal.ok_or_else(|| Error::setting("values do not fill their tensor", "report this as a bug"))
}

fn read_floats(file: &SafeTensors, path: &Path, name: &str) -> Result<(Vec<usize>, Vec<f32>), Error> {
    let literal = file.read(name)?;
    if literal.dtype() != DType::F32 {
        return Err(damaged(path, &format!("`{name}` is not F32")));
    }
    let values: Vec<f32> = literal.bytes().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    match values.iter().all(|value| value.is_finite()) {
        true => Ok((literal.dims().to_vec(), values)),
        false => Err(damaged(path, &format!("`{name}` has values that are not finite"))),
    }
}

fn damaged(path: &Path, message: &str) -> Error {
    weights::Error::Format { path: path.into(), message: message.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::codebook::CodebookOptions;
    use crate::methods::examples::gaussian;

    #[test]
    fn what_is_saved_is_loaded_and_what_is_damaged_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weight.safetensors");
        let weight = gaussian(8, 32, 1);
        let options = CodebookOptions {
            group: Some(16),
            stages: 2,
            entries: 16,
            metric: Metric::Cosine,
            iterations: 2,
            ..CodebookOptions::default()
        };
        let codebooks = Codebooks::train(&weight, None, &options).unwrap();
        codebooks.save(&path).unwrap();
        assert_eq!(Codebooks::load(&path).unwrap(), codebooks);
        assert!(EncodedMatrix::load(&path).is_err());
        let packed = codebooks.encode(&weight, None).unwrap();
        packed.save(&path).unwrap();
        assert_eq!(EncodedMatrix::load(&path).unwrap(), packed);
        assert_eq!(Codebooks::load(&path).unwrap(), codebooks);

        let good = std::fs::read(&path).unwrap();
        let replaced = |from: &str, to: &str| {
            let text = good.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            let mut bytes = good.clone();
            bytes[text..text + from.len()].copy_from_slice(to.as_bytes());
            std::fs::write(&path, bytes).unwrap();
            EncodedMatrix::load(&path).unwrap_err().to_string()
        };
        assert!(replaced("\"version\":\"1\"", "\"version\":\"2\"").contains('2'));
        assert!(replaced("tpubridge.codebook", "tpubridge.codebooK").contains("no file of codebooks"));
        assert!(replaced("\"cosine\"", "\"cosinE\"").contains("metric"));
        assert!(replaced("\"group\":\"16\"", "\"group\":\"15\"").contains("no whole vectors"));
        // Every byte changed in turn: refused, or another weight of the same shape.
        for place in (0..good.len()).step_by(3) {
            let mut bytes = good.clone();
            bytes[place] ^= 0x55;
            std::fs::write(&path, bytes).unwrap();
            if let Ok(other) = EncodedMatrix::load(&path) {
                assert_eq!(other.dequantize().len(), other.out_features() * other.in_features());
            }
        }
    }
}
