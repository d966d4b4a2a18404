//! Layouts: how arrays lie in device memory, as text such as `{1,0:T(8,128)}`.
#![allow(unsafe_code)]

use std::sync::Arc;

use pjrt_sys::extensions::layouts::*;

use super::record::Record;
use crate::api::{Api, list, text};
use crate::buffer::Buffer;
use crate::buffer_type::BufferType;
use crate::error::Error;
use crate::executable::Executable;
use crate::topology::Topology;

/// The layouts extension of a plugin.
#[derive(Clone, Debug)]
pub struct Layouts {
    record: Record<PJRT_Layouts_Extension>,
}

impl Layouts {
    pub(crate) fn find(api: &Arc<Api>) -> Option<Self> {
        Record::find(api, PJRT_Layouts_Extension::TYPE).map(|record| Self { record })
    }

    /// Layout of each parameter of a program.
    pub fn parameters(&self, executable: &Executable) -> Result<Vec<String>, Error> {
        self.record.api.same(executable.api())?;
        let mut args = PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args::new();
        args.executable = executable.raw();
        // SAFETY: the executable is alive, and its layouts live as long.
        unsafe {
            self.record.call(slot::PJRT_Layouts_PJRT_Executable_GetParameterLayouts, &mut args)?;
            self.serialize_all(args.layouts, args.num_parameters)
        }
    }

    /// Layout of each output of a program.
    pub fn outputs(&self, executable: &Executable) -> Result<Vec<String>, Error> {
        self.record.api.same(executable.api())?;
        let mut args = PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args::new();
        args.executable = executable.raw();
        // SAFETY: the executable is alive, and its layouts live as long.
        unsafe {
            self.record.call(slot::PJRT_Layouts_PJRT_Executable_GetOutputLayouts, &mut args)?;
            self.serialize_all(args.layouts, args.num_outputs)
        }
    }

    /// Layout of a buffer.
    pub fn buffer(&self, buffer: &Buffer) -> Result<String, Error> {
        self.record.api.same(buffer.api())?;
        let mut args = PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args::new();
        args.buffer = buffer.raw();
        // SAFETY: the buffer is alive; the layout is ours and freed once.
        unsafe {
            self.record.call(slot::PJRT_Layouts_PJRT_Buffer_MemoryLayout, &mut args)?;
            self.serialize_and_free(args.layout)
        }
    }

    /// Layout the compiler gives to arrays of this type and shape unless told otherwise.
    pub fn topology_default(
        &self,
        topology: &Topology,
        element_type: BufferType,
        dims: &[i64],
    ) -> Result<String, Error> {
        self.record.api.same(topology.api())?;
        let mut args = PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args::new();
        args.topology_description = topology.raw();
        args.r#type = element_type.number();
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        // SAFETY: the topology is alive and of this plugin; the layout is ours and freed once.
        unsafe {
            self.record.call(slot::PJRT_Layouts_PJRT_Topology_GetDefaultLayout, &mut args)?;
            self.serialize_and_free(args.layout)
        }
    }

    /// # Safety
    /// `layouts` is null or has `count` entries, all alive.
    unsafe fn serialize_all(
        &self,
        layouts: *mut *mut PJRT_Layouts_MemoryLayout,
        count: usize,
    ) -> Result<Vec<String>, Error> {
        // SAFETY: as the caller promises.
        let layouts = unsafe { list(layouts.cast_const(), count) };
        // SAFETY: as the caller promises.
        layouts.into_iter().map(|layout| unsafe { self.serialize(layout) }).collect()
    }

    /// # Safety
    /// `layout` is alive.
    unsafe fn serialize(&self, layout: *mut PJRT_Layouts_MemoryLayout) -> Result<String, Error> {
        let mut args = PJRT_Layouts_MemoryLayout_Serialize_Args::new();
        args.layout = layout;
        // SAFETY: as the caller promises; the text lives until the deleter is called.
        let layout = unsafe {
            self.record.call(slot::PJRT_Layouts_MemoryLayout_Serialize, &mut args)?;
            text(args.serialized_bytes, args.serialized_bytes_size)
        };
        if let Some(delete) = args.serialized_layout_deleter {
            // SAFETY: called once, after the text was copied.
            unsafe { delete(args.serialized_layout) };
        }
        Ok(layout)
    }

    /// # Safety
    /// `layout` is alive and owned by the caller, who does not use it afterwards.
    unsafe fn serialize_and_free(&self, layout: *mut PJRT_Layouts_MemoryLayout) -> Result<String, Error> {
        // SAFETY: as the caller promises.
        let result = unsafe { self.serialize(layout) };
        let mut args = PJRT_Layouts_MemoryLayout_Destroy_Args::new();
        args.layout = layout;
        // Nothing can be done about a failure to free.
        // SAFETY: as the caller promises.
        let _ = unsafe { self.record.call(slot::PJRT_Layouts_MemoryLayout_Destroy, &mut args) };
        result
    }
}
