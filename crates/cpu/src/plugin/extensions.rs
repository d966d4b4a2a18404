//! Extensions beside the table: layouts, kinds of memory, shardings; the profiler is the last.
#![allow(unsafe_code)]

use pjrt_sys::extensions::layouts::*;
use pjrt_sys::extensions::memory_descriptions::*;
use pjrt_sys::extensions::shardings::*;
use pjrt_sys::*;

use super::call::{Failure, Shared, entries, give_bytes, give_text, handles, object};
use super::client::MEMORY_KINDS;

/// The order of an array's dimensions in memory: `{1,0}` is row-major.
pub(crate) struct Layout(String);

handles! { PJRT_Layouts_MemoryLayout => Layout, }

impl Layout {
    pub(super) fn row_major(rank: usize) -> Layout {
        let order: Vec<String> = (0..rank).rev().map(|d| d.to_string()).collect();
        Layout(format!("{{{}}}", order.join(",")))
    }

    fn into_raw(self) -> *mut PJRT_Layouts_MemoryLayout {
        Box::into_raw(Box::new(self)).cast()
    }
}

/// Dimensions an array may have at most.
const MAX_RANK: usize = 1 << 10;

fn default_layout(num_dims: usize) -> Result<*mut PJRT_Layouts_MemoryLayout, Failure> {
    if num_dims > MAX_RANK {
        return Err(Failure::invalid(format!("an array of {num_dims} dimensions")));
    }
    Ok(Layout::row_major(num_dims).into_raw())
}

/// Layouts that belong to an executable, and the list of pointers to them.
pub(crate) struct LayoutList {
    pointers: Vec<*mut PJRT_Layouts_MemoryLayout>,
    /// Keeps what `pointers` lead to: its elements do not move when it does.
    _owned: Vec<Layout>,
}

impl LayoutList {
    pub(super) fn new(owned: Vec<Layout>) -> LayoutList {
        let pointers = owned.iter().map(|layout| (&raw const *layout).cast_mut().cast()).collect();
        LayoutList { pointers, _owned: owned }
    }

    fn list(&self) -> (*mut *mut PJRT_Layouts_MemoryLayout, usize) {
        (self.pointers.as_ptr().cast_mut(), self.pointers.len())
    }
}

/// A kind of memory, by its position in `MEMORY_KINDS`.
pub(crate) struct Kind(usize);

handles! { PJRT_MemoryDescription => Kind, }

static KINDS: [Kind; 3] = [Kind(0), Kind(1), Kind(2)];
static KIND_LIST: Shared<[&Kind; 3]> = Shared([&KINDS[0], &KINDS[1], &KINDS[2]]);

entries! {
    fn PJRT_Layouts_MemoryLayout_Destroy(args: PJRT_Layouts_MemoryLayout_Destroy_Args) {
        if !args.layout.is_null() {
            drop(Box::from_raw(args.layout.cast::<Layout>()));
        }
        Ok(())
    }

    fn PJRT_Layouts_MemoryLayout_Serialize(args: PJRT_Layouts_MemoryLayout_Serialize_Args) {
        let text = object(args.layout)?.0.clone();
        give_bytes!(args.serialized_layout, serialized_layout_deleter = text.into_bytes())
    }

    fn PJRT_Layouts_PJRT_Client_GetDefaultLayout(args: PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args) {
        args.layout = default_layout(args.num_dims)?;
        Ok(())
    }

    fn PJRT_Layouts_PJRT_Topology_GetDefaultLayout(args: PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args) {
        args.layout = default_layout(args.num_dims)?;
        Ok(())
    }

    fn PJRT_Layouts_PJRT_Buffer_MemoryLayout(args: PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args) {
        args.layout = default_layout(object(args.buffer)?.dims().len())?;
        Ok(())
    }

    fn PJRT_Layouts_PJRT_Executable_GetOutputLayouts(args: PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args) {
        (args.layouts, args.num_outputs) = object(args.executable)?.output_layouts.list();
        Ok(())
    }

    fn PJRT_Layouts_PJRT_Executable_GetParameterLayouts(args: PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args) {
        (args.layouts, args.num_parameters) = object(args.executable)?.parameter_layouts.list();
        Ok(())
    }

    fn PJRT_DeviceDescription_MemoryDescriptions(args: PJRT_DeviceDescription_MemoryDescriptions_Args) {
        object(args.device_description)?;
        args.memory_descriptions = KIND_LIST.0.as_ptr().cast();
        args.num_memory_descriptions = KIND_LIST.0.len();
        args.default_memory_index = 0;
        Ok(())
    }

    fn PJRT_MemoryDescription_Kind(args: PJRT_MemoryDescription_Kind_Args) {
        let kind = object(args.memory_description)?;
        args.kind_id = kind.0 as i32;
        give_text!(args.kind, kind_size = MEMORY_KINDS[kind.0])
    }

    fn PJRT_Shardings_PJRT_Executable_ParameterShardings(args: PJRT_Shardings_PJRT_Executable_ParameterShardings_Args) {
        let shardings = &object(args.executable)?.parameter_shardings;
        args.num_parameters = shardings.sizes.len();
        (args.shardings, args.sharding_sizes) = (shardings.pointer(), shardings.sizes.as_ptr());
        Ok(())
    }

    fn PJRT_Shardings_PJRT_Executable_OutputShardings(args: PJRT_Shardings_PJRT_Executable_OutputShardings_Args) {
        let shardings = &object(args.executable)?.output_shardings;
        args.num_outputs = shardings.sizes.len();
        (args.shardings, args.sharding_sizes) = (shardings.pointer(), shardings.sizes.as_ptr());
        Ok(())
    }
}

const fn head(struct_size: usize, r#type: PJRT_Extension_Type, next: *mut PJRT_Extension_Base) -> PJRT_Extension_Base {
    PJRT_Extension_Base { struct_size, r#type, next }
}

static SHARDINGS: Shared<PJRT_Shardings_Extension> = Shared(PJRT_Shardings_Extension {
    base: head(
        PJRT_Shardings_Extension::STRUCT_SIZE,
        PJRT_Shardings_Extension::TYPE,
        (&raw const super::profiler::PROFILER.0.base).cast_mut(),
    ),
    PJRT_Shardings_PJRT_Executable_ParameterShardings: Some(PJRT_Shardings_PJRT_Executable_ParameterShardings),
    PJRT_Shardings_PJRT_Executable_OutputShardings: Some(PJRT_Shardings_PJRT_Executable_OutputShardings),
});

static MEMORY_DESCRIPTIONS: Shared<PJRT_MemoryDescriptions_Extension> = Shared(PJRT_MemoryDescriptions_Extension {
    base: head(
        PJRT_MemoryDescriptions_Extension::STRUCT_SIZE,
        PJRT_MemoryDescriptions_Extension::TYPE,
        (&raw const SHARDINGS.0.base).cast_mut(),
    ),
    PJRT_DeviceDescription_MemoryDescriptions: Some(PJRT_DeviceDescription_MemoryDescriptions),
    PJRT_MemoryDescription_Kind: Some(PJRT_MemoryDescription_Kind),
});

/// The first extension; each leads to the next.
pub(super) static LAYOUTS: Shared<PJRT_Layouts_Extension> = Shared(PJRT_Layouts_Extension {
    base: head(
        PJRT_Layouts_Extension::STRUCT_SIZE,
        PJRT_Layouts_Extension::TYPE,
        (&raw const MEMORY_DESCRIPTIONS.0.base).cast_mut(),
    ),
    PJRT_Layouts_MemoryLayout_Destroy: Some(PJRT_Layouts_MemoryLayout_Destroy),
    PJRT_Layouts_MemoryLayout_Serialize: Some(PJRT_Layouts_MemoryLayout_Serialize),
    PJRT_Layouts_PJRT_Client_GetDefaultLayout: Some(PJRT_Layouts_PJRT_Client_GetDefaultLayout),
    PJRT_Layouts_PJRT_Buffer_MemoryLayout: Some(PJRT_Layouts_PJRT_Buffer_MemoryLayout),
    PJRT_Layouts_PJRT_Topology_GetDefaultLayout: Some(PJRT_Layouts_PJRT_Topology_GetDefaultLayout),
    PJRT_Layouts_PJRT_Executable_GetOutputLayouts: Some(PJRT_Layouts_PJRT_Executable_GetOutputLayouts),
    PJRT_Layouts_PJRT_Executable_GetParameterLayouts: Some(PJRT_Layouts_PJRT_Executable_GetParameterLayouts),
});
