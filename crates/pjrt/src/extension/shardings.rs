//! Shardings: how a program's parameters and outputs are split over devices.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::sync::Arc;

use pjrt_sys::extensions::shardings::*;

use super::record::Record;
use crate::api::{Api, bytes, list};
use crate::error::Error;
use crate::executable::Executable;

/// The shardings extension of a plugin. Shardings are serialized `OpSharding` messages.
#[derive(Clone, Debug)]
pub struct Shardings {
    record: Record<PJRT_Shardings_Extension>,
}

impl Shardings {
    pub(crate) fn find(api: &Arc<Api>) -> Option<Self> {
        Record::find(api, PJRT_Shardings_Extension::TYPE).map(|record| Self { record })
    }

    /// Sharding of each parameter. `None` where the program has no shardings.
    pub fn parameters(&self, executable: &Executable) -> Result<Option<Vec<Vec<u8>>>, Error> {
        self.record.api.same(executable.api())?;
        let mut args = PJRT_Shardings_PJRT_Executable_ParameterShardings_Args::new();
        args.executable = executable.raw();
        // SAFETY: the executable is alive, and the shardings live as long.
        unsafe {
            self.record.call(slot::PJRT_Shardings_PJRT_Executable_ParameterShardings, &mut args)?;
            Ok(copy(args.shardings, args.sharding_sizes, args.num_parameters))
        }
    }

    /// Sharding of each output. `None` where the program has no shardings.
    pub fn outputs(&self, executable: &Executable) -> Result<Option<Vec<Vec<u8>>>, Error> {
        self.record.api.same(executable.api())?;
        let mut args = PJRT_Shardings_PJRT_Executable_OutputShardings_Args::new();
        args.executable = executable.raw();
        // SAFETY: the executable is alive, and the shardings live as long.
        unsafe {
            self.record.call(slot::PJRT_Shardings_PJRT_Executable_OutputShardings, &mut args)?;
            Ok(copy(args.shardings, args.sharding_sizes, args.num_outputs))
        }
    }
}

/// # Safety
/// The arrays are null or have `count` entries, each sharding as long as its size.
unsafe fn copy(data: *const *const c_char, sizes: *const usize, count: usize) -> Option<Vec<Vec<u8>>> {
    if data.is_null() || sizes.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let (data, sizes) = unsafe { (list(data, count), list(sizes, count)) };
    // SAFETY: as the caller promises.
    Some(data.into_iter().zip(sizes).map(|(data, size)| unsafe { bytes(data, size) }).collect())
}
