//! Finds embedding look-ups: gathers of whole rows of a table, which SparseCores do beside the TensorCores.

use std::collections::HashMap;

use chips::Generation;
use hlo::passes::{Options, Partitioned};
use hlo::{Attr, Attrs, Func, OpId, OpKind, Region, Value, Verified};
use tensor::{DType, Spec};

use super::finished;
use super::write::{Decompositions, Writer};
use crate::call::static_spec;
use crate::composites::EMBEDDING_LOOKUP;
use crate::error::Error;
use crate::kernels::{self, Make, Request};

/// A program in which look-ups are composites.
#[derive(Clone, Debug)]
pub struct RecognisedLookups {
    /// The program.
    pub module: Verified,
    /// Look-ups that are composites now, in words.
    pub found: Vec<String>,
    /// Why others stay as they are, and how many for each reason.
    pub left: Vec<(String, usize)>,
}

/// Finds gathers of whole rows and writes them as composites, where the SparseCores of a generation take their sizes.
pub fn recognise_lookups(module: Verified, generation: Generation) -> Result<RecognisedLookups, Error> {
    let names: Vec<&str> = kernels::names().collect();
    let options = Options { partitioned: Partitioned::Yes, keep_composites: &names, ..Options::default() };
    let mut module = hlo::passes::canonicalize(module, &options).map_err(Error::Rewrite)?.into_inner();
    let mut decompositions = Decompositions::new("rows");
    let (mut found, mut left) = (Vec::new(), HashMap::<String, usize>::new());
    for func in &mut module.funcs {
        for n in 0..func.regions.len() {
            for id in func.regions[n].ops.clone() {
                let Some(site) = LookupSite::of(func, id) else { continue };
                match takes(&site, generation) {
                    Ok(()) => {
                        found.push(site.describe());
                        site.write(func, Region(n as u32), &mut decompositions)?;
                    }
                    Err(reason) => *left.entry(reason).or_default() += 1,
                }
            }
        }
    }
    let (module, left) = finished(module, decompositions, left, &options)?;
    Ok(RecognisedLookups { module, found, left })
}

/// A gather of whole rows.
struct LookupSite {
    id: OpId,
    table: (Value, Spec),
    indices: (Value, Spec),
    result: (Value, Spec),
}

impl LookupSite {
    fn of(func: &Func, id: OpId) -> Option<LookupSite> {
        let op = func.op(id);
        if op.kind() != Some(OpKind::Gather) {
            return None;
        }
        let Some(Attr::Gather(dims)) = op.attr("dimension_numbers") else { return None };
        let [table, indices] = op.operands[..] else { return None };
        let spec = |value: Value| Some((value, static_spec(func.ty(value))?));
        let (table, indices, result) = (spec(table)?, spec(indices)?, spec(op.results().next()?)?);
        let &[rows, size] = &table.1.dims[..] else { return None };
        // Whole rows, behind all dimensions of the indices.
        let outer = result.1.rank().checked_sub(1)?;
        let is_rows = dims.collapsed_slice_dims == [0]
            && dims.start_index_map == [0]
            && dims.operand_batching_dims.is_empty()
            && dims.offset_dims == [outer as i64]
            && result.1.dims.last() == Some(&size)
            && rows > 0
            && result.1.num_elements() > 0;
        // One number for each row: the dimension of index vectors is the last one, or is not there.
        let rank = indices.1.rank();
        let is_index = dims.index_vector_dim == outer as i64
            && (rank == outer || rank == outer + 1 && indices.1.dims.last() == Some(&1));
        (is_rows && is_index).then_some(LookupSite { id, table, indices, result })
    }

    fn ids(&self) -> usize {
        self.indices.1.num_elements()
    }

    fn operands(&self) -> [Spec; 2] {
        [self.table.1.clone(), Spec::new(DType::I32, [self.ids()])]
    }

    fn describe(&self) -> String {
        format!("{} rows of {}", self.ids(), self.table.1)
    }

    fn write(&self, func: &mut Func, region: Region, decompositions: &mut Decompositions) -> Result<(), Error> {
        let wrong = || Error::Internal("a look-up cannot be written".into());
        let mut writer = Writer::new(func, region);
        let mut ids = writer.reshaped(self.indices.0, vec![self.ids()]);
        let dtype = self.indices.1.dtype;
        if !fits_i32(dtype) {
            // A number that i32 has not is clamped before it is converted.
            let last = (self.table.1.dims[0] - 1) as i64;
            let bound = |number: i64| number.to_le_bytes().into_iter().take(dtype.size_bytes()).collect::<Vec<u8>>();
            let scalar = Spec::new(dtype, []);
            let least = writer.splat(&scalar, &bound(0)).ok_or_else(wrong)?;
            let most = writer.splat(&scalar, &bound(last)).ok_or_else(wrong)?;
            let ty = writer.func.ty(ids).clone();
            let clamped = writer.op(OpKind::Clamp, vec![least, ids, most], Attrs::new(), vec![ty]);
            ids = clamped.first().copied().ok_or_else(wrong)?;
        }
        let ids = writer.converted(ids, DType::I32);
        let rows = writer.composite(decompositions, EMBEDDING_LOOKUP, vec![self.table.0, ids], &Attrs::new())?;
        let rows = rows.first().copied().ok_or_else(wrong)?;
        let rows = writer.reshaped(rows, self.result.1.dims.clone());
        writer.place(self.id);
        for op in &mut func.ops {
            for operand in op.operands.iter_mut().filter(|operand| **operand == self.result.0) {
                *operand = rows;
            }
        }
        Ok(())
    }
}

/// Whether every number of a type is one of `i32`.
fn fits_i32(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I16 | DType::I8 | DType::U16 | DType::U8)
}

/// Whether the kernel takes a look-up.
fn takes(site: &LookupSite, generation: Generation) -> Result<(), String> {
    if !fits_i32(site.indices.1.dtype) && !matches!(site.indices.1.dtype, DType::I64 | DType::U32 | DType::U64) {
        return Err(format!("ids of {}", site.indices.1.dtype));
    }
    let Some(entry) = kernels::by_name(EMBEDDING_LOOKUP) else { return Err("no kernel looks rows up".into()) };
    let Make::Program(make) = entry.make else { return Err("no kernel looks rows up".into()) };
    let (operands, attributes) = (site.operands(), Attrs::new());
    let request = Request { operands: &operands, attributes: &attributes, generation };
    make(&request, "tpubridge.rows").map(|_| ()).map_err(|error| error.to_string())
}
