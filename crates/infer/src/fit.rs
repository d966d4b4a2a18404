//! Whether a model fits its devices, before any of it is loaded; if not, by how much, and what would.

use nn::layers::KvCache;
use nn::models::LanguageModel;
use nn::quant::QuantScheme;
use runtime::{Backend, DeviceInfo};
use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Mesh, PartitionSpec, Site, Spec, Tensor, Tree};

use crate::error::Error;
use crate::options::InferenceOptions;
use crate::sharding::MeshRules;
use crate::sizes::{CacheLayout, StepSizes};

/// Weights and cache that leave at least half of a device free leave room for any program.
const SURELY_FITS: u64 = 2;
/// Numbers of pages that are tried at most: what programs need besides changes little with them.
const MAX_POOLS: usize = 4;
/// Numbers of devices that are tried for a mesh.
const MESH_SIZES: [usize; 8] = [2, 4, 8, 16, 32, 64, 128, 256];
/// Options of `tpu quantize` that are tried for the weights, and their schemes.
const SCHEMES: [(&str, &str); 2] = [("--bits 8", "w8a16"), ("--bits 4", "w4a16-g128")];

/// Who says how many pages there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PagePool {
    /// The caller.
    AsAsked,
    /// The memory of the devices, where that is short.
    AsFits,
}

impl PagePool {
    pub(crate) fn of(options: &InferenceOptions) -> PagePool {
        if options.pages.is_some() { PagePool::AsAsked } else { PagePool::AsFits }
    }
}

/// Bytes that a model takes of each device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelBytes {
    pub(crate) weights: u64,
    pub(crate) cache: u64,
}

impl ModelBytes {
    /// A model known by types and shapes, with a KV cache of these sizes.
    pub(crate) fn of<M: LanguageModel>(
        model: &M,
        sizes: StepSizes,
        rules: Option<&MeshRules>,
    ) -> Result<ModelBytes, Error> {
        let (batch, positions) = sizes.cache();
        let cache = trace::shapes_of(model, |model: &M| model.cache(batch, positions))?;
        ModelBytes::with_cache(model, &cache, rules)
    }

    fn with_cache<M: Tree>(model: &M, cache: &KvCache, rules: Option<&MeshRules>) -> Result<ModelBytes, Error> {
        let mut weights = 0;
        for (path, spec) in model.paths().into_iter().zip(model.specs()) {
            let sharding = rules.map(|rules| rules.parameter(&path, &spec.dims)).transpose()?;
            weights += part_bytes(&spec, rules.zip(sharding.as_ref()))?;
        }
        let mut of_cache = 0;
        for spec in cache.specs() {
            let sharding = rules.map(|rules| rules.cache(&spec.dims));
            of_cache += part_bytes(&spec, rules.zip(sharding.as_ref()))?;
        }
        Ok(ModelBytes { weights, cache: of_cache })
    }

    fn sum(&self) -> u64 {
        self.weights.saturating_add(self.cache)
    }
}

/// Bytes of what a device has of an array.
fn part_bytes(spec: &Spec, on: Option<(&MeshRules, &PartitionSpec)>) -> Result<u64, Error> {
    let dims = match on {
        Some((rules, sharding)) => sharding.part_dims(rules.mesh(), &spec.dims)?,
        None => spec.dims.clone(),
    };
    let elements = dims.iter().fold(1u64, |elements, &dim| elements.saturating_mul(dim as u64));
    Ok(elements.saturating_mul(u64::from(spec.dtype.bits())).div_ceil(8))
}

/// Memory of each device of a backend.
pub(crate) struct EngineMemory<'a> {
    device: &'a DeviceInfo,
    limit: u64,
    /// Of arrays that others have there.
    used: u64,
}

impl<'a> EngineMemory<'a> {
    /// What a backend knows of its devices' memory; `None` where nobody does.
    pub(crate) fn of(backend: &'a Backend) -> Option<EngineMemory<'a>> {
        let books = backend.memory().in_use();
        Some(EngineMemory { device: backend.device(), limit: books.limit_bytes?, used: books.used_bytes })
    }

    /// Sizes with which a model fits: those that are asked for, or fewer pages where that is enough and nobody asked for so many. What
    /// does not fit is refused, with what would. `bytes_of` are those of the model and of what is beside it; `temporaries` of programs
    /// are asked for where they matter.
    pub(crate) fn fitted<M: LanguageModel>(
        &self,
        model: &M,
        asked: StepSizes,
        pool: PagePool,
        bytes_of: &dyn Fn(StepSizes) -> Result<(ModelBytes, ModelBytes), Error>,
        temporaries: &mut dyn FnMut(StepSizes) -> Result<u64, Error>,
    ) -> Result<StepSizes, Error> {
        let least = asked.pages_of_longest().filter(|_| pool == PagePool::AsFits);
        let mut sizes = asked;
        for _ in 0..MAX_POOLS {
            let (bytes, beside) = bytes_of(sizes)?;
            let arrays = self.used.saturating_add(beside.sum()).saturating_add(bytes.sum());
            if arrays.saturating_mul(SURELY_FITS) <= self.limit {
                return Ok(sizes);
            }
            let temporaries = match temporaries(sizes) {
                Ok(bytes) => bytes,
                // Some compilers refuse programs whose arguments are too large.
                Err(_) if arrays > self.limit => 0,
                Err(error) => return Err(error),
            };
            if arrays.saturating_add(temporaries) <= self.limit {
                return Ok(sizes);
            }
            // Programs for fewer pages need no more than these.
            let (pages, _) = sizes.cache();
            let of_page = (bytes.cache.saturating_add(beside.cache) / pages.max(1) as u64).max(1);
            let taken =
                [self.used, bytes.weights, beside.weights, temporaries].into_iter().fold(0, u64::saturating_add);
            let fitting = usize::try_from(self.limit.saturating_sub(taken) / of_page).unwrap_or(usize::MAX);
            match least {
                Some(least) if fitting >= least && pages > least => sizes = sizes.with_pages(fitting.min(pages - 1)),
                _ => {
                    let sizes = least.map_or(asked, |least| asked.with_pages(least));
                    let (bytes, beside) = bytes_of(sizes)?;
                    return Err(self.refusal(model, sizes, &bytes, &beside, temporaries)?);
                }
            }
        }
        Ok(least.map_or(asked, |least| asked.with_pages(least)))
    }

    /// Why a model does not fit, and what would.
    fn refusal<M: LanguageModel>(
        &self,
        model: &M,
        sizes: StepSizes,
        bytes: &ModelBytes,
        beside: &ModelBytes,
        temporaries: u64,
    ) -> Result<Error, Error> {
        let before = self.used.saturating_add(beside.sum());
        let needed = before.saturating_add(bytes.sum()).saturating_add(temporaries);
        let (batch, positions) = sizes.cache();
        let cache = trace::shapes_of(model, |model: &M| model.cache(batch, positions))?;
        let cache_type = cache.keys.dtype();
        let of_longest = match sizes.pages_of_longest() {
            Some(pages) if pages == batch => " for one sequence",
            _ => "",
        };
        let mut parts = vec![
            format!("{} of weights{}", gib(bytes.weights), types_of(model)),
            format!("{} of KV cache in {cache_type}{of_longest}", gib(bytes.cache)),
        ];
        for (count, what) in [
            (beside.sum(), "the draft model"),
            (temporaries, "temporaries of programs"),
            (self.used, "what is there already"),
        ] {
            if count > 0 {
                parts.push(format!("{} of {what}", gib(count)));
            }
        }
        let message = format!(
            "the model does not fit: {} are {}, and a device ({}) has {}: {} too much",
            parts.join(", "),
            gib(needed),
            self.device.kind,
            gib(self.limit),
            gib(needed.saturating_sub(self.limit))
        );
        let besides = before.saturating_add(temporaries);
        Ok(Error::setting(message, self.remedies(model, sizes, &cache, bytes, besides)?))
    }

    /// What would fit into a device, so many bytes of which are taken by others.
    fn remedies<M: LanguageModel>(
        &self,
        model: &M,
        sizes: StepSizes,
        cache: &KvCache,
        bytes: &ModelBytes,
        besides: u64,
    ) -> Result<String, Error> {
        let room = self.limit.saturating_sub(besides);
        let mut all = Vec::new();
        let row = bytes.cache.div_ceil(sizes.cache().0.max(1) as u64);
        let rows = room.saturating_sub(bytes.weights).checked_div(row).unwrap_or(0);
        match sizes.layout {
            CacheLayout::Rows if rows > 0 => all.push(format!("--batch {rows}, or a shorter --max-length")),
            CacheLayout::Pages { pages, .. } if rows > 0 && sizes.pages_of_longest() < Some(pages) => {
                all.push(format!("--kv-pages {rows}"));
            }
            CacheLayout::Pages { .. } if rows > 0 => all.push("a shorter --max-length".into()),
            CacheLayout::Rows | CacheLayout::Pages { .. } => {}
        }
        let narrow = narrow_cache(cache)?;
        // Of each device as much less as of all of them.
        let whole = ModelBytes::with_cache(model, cache, None)?;
        let with_narrow = share(bytes.cache, ModelBytes::with_cache(model, &narrow, None)?.cache, whole.cache);
        let is_wide = cache.scales.is_none();
        let fits_narrow = is_wide && bytes.weights.saturating_add(with_narrow) <= room;
        if fits_narrow {
            all.push("--kv-cache int8".into());
        }
        let half = in_bf16(model, cache)?;
        let with_half = share(bytes.weights, half.weights, whole.weights).saturating_add(share(
            bytes.cache,
            half.cache,
            whole.cache,
        ));
        if half != whole && with_half <= room {
            all.push("--precision bf16".into());
        }
        for (option, scheme) in SCHEMES {
            let Ok(scheme) = scheme.parse::<QuantScheme>() else { continue };
            // Groups do not divide every size.
            let Ok(quantized) = trace::shapes_of(model, |model: &M| model.quantized(&scheme)) else { continue };
            let smaller = ModelBytes::with_cache(&quantized, cache, None)?.weights;
            let smaller = share(bytes.weights, smaller, whole.weights);
            if smaller.saturating_add(bytes.cache) <= room {
                all.push(format!("weights of `tpu quantize {option}`"));
                break;
            }
            if is_wide && !fits_narrow && smaller.saturating_add(with_narrow) <= room {
                all.push(format!("weights of `tpu quantize {option}` with --kv-cache int8"));
                break;
            }
        }
        all.extend(self.mesh_that_fits(model, cache, room)?);
        if all.is_empty() {
            return Ok(format!(
                "take devices with more memory: {} each would do",
                gib(bytes.sum() + self.limit - room)
            ));
        }
        Ok(format!("these would fit: {}", all.join("; ")))
    }

    /// The smallest mesh on whose devices the model has so many bytes at most, and the slice that has them.
    fn mesh_that_fits<M: LanguageModel>(&self, model: &M, cache: &KvCache, room: u64) -> Result<Option<String>, Error> {
        let has_experts = model.paths().iter().any(|path| path.contains("experts."));
        let axes: &[&str] = if has_experts { &["expert", "model"] } else { &["model"] };
        for count in MESH_SIZES {
            for axis in axes {
                let Ok(mesh) = Mesh::new([(*axis, count)]) else { continue };
                let Ok(rules) = MeshRules::new(&mesh, model, &Site::default()) else { continue };
                if ModelBytes::with_cache(model, cache, Some(&rules))?.sum() <= room {
                    let slice = self.device.generation.and_then(|generation| slice_of(generation, count));
                    let on = slice.map_or(format!("{count} such devices"), |slice| slice.to_string());
                    return Ok(Some(format!("--mesh {mesh} on {on}")));
                }
            }
        }
        Ok(None)
    }
}

/// Bytes where `of` became `part`.
fn share(bytes: u64, part: u64, of: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(part) / u128::from(of.max(1))).unwrap_or(u64::MAX)
}

/// The slice of a generation that has so many devices.
fn slice_of(generation: chips::Generation, devices: usize) -> Option<chips::Slice> {
    let all = chips::Slice::defaults(generation).into_iter();
    all.filter(|slice| slice.devices() as usize == devices).min_by_key(chips::Slice::chips)
}

/// The same cache in `i8`, with a scale for each head and position.
fn narrow_cache(cache: &KvCache) -> Result<KvCache, Error> {
    let narrow = |cache: &KvCache| {
        let codes = |room: &Tensor| Tensor::zeros(DType::I8, room.dims());
        let scales = |room: &Tensor| Tensor::zeros(DType::F32, room.dims().get(..4).unwrap_or(room.dims()));
        let of_scales = (scales(&cache.keys), scales(&cache.values));
        KvCache { keys: codes(&cache.keys), values: codes(&cache.values), scales: Some(of_scales) }
    };
    Ok(trace::shapes_of(cache, narrow)?)
}

/// Bytes of a model whose dense weights and whose KV cache have 16 bits where they have 32.
fn in_bf16<M: Tree>(model: &M, cache: &KvCache) -> Result<ModelBytes, Error> {
    fn narrow<T: Tree>(tree: &T) -> T {
        tree.map_leaves(|leaf| if leaf.dtype() == DType::F32 { leaf.cast(DType::BF16) } else { leaf.clone() })
    }
    // Scales of codes stay as they are.
    let is_quantized = model.paths().iter().any(|path| path.ends_with(".scales"));
    let weights = match is_quantized {
        true => ModelBytes::with_cache(model, cache, None)?.weights,
        false => ModelBytes::with_cache(&trace::shapes_of(model, narrow)?, cache, None)?.weights,
    };
    let cache = match &cache.scales {
        Some(_) => cache.clone(),
        None => trace::shapes_of(cache, narrow)?,
    };
    Ok(ModelBytes { weights, cache: ModelBytes::with_cache(model, &cache, None)?.cache })
}

/// The types of a model's weights, those with most bytes first.
fn types_of<M: Tree>(model: &M) -> String {
    let mut all: Vec<(DType, u64)> = Vec::new();
    for spec in model.specs() {
        let bytes = part_bytes(&spec, None).unwrap_or(0);
        match all.iter_mut().find(|(dtype, _)| *dtype == spec.dtype) {
            Some((_, sum)) => *sum += bytes,
            None => all.push((spec.dtype, bytes)),
        }
    }
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let names: Vec<String> = all.iter().map(|(dtype, _)| dtype.to_string()).collect();
    format!(" in {}", names.join(" and "))
}

/// Bytes for people: small sizes in MiB.
fn gib(bytes: u64) -> String {
    match bytes {
        0..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}
