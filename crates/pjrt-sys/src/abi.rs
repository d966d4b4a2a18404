//! Macros that declare C structs with their negotiated size, and slots that read a table no further than it reaches.

use std::fmt;
use std::marker::PhantomData;

/// A function of a table, by offset.
///
/// `T` is the table's type and `F` a function pointer type. Tables grow at the end, so whether a plugin has a function
/// is decided by the `struct_size` the plugin itself wrote into the table.
pub struct Slot<T, F> {
    name: &'static str,
    offset: usize,
    types: PhantomData<fn(*const T) -> F>,
}

impl<T, F> Clone for Slot<T, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, F> Copy for Slot<T, F> {}

impl<T, F> fmt::Debug for Slot<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("name", &self.name).field("offset", &self.offset).finish()
    }
}

impl<T, F: Copy> Slot<T, F> {
    /// Every `F` here is a function pointer, so that `Option<F>` is one nullable pointer.
    const ONE_POINTER: () = assert!(size_of::<Option<F>>() == size_of::<usize>());

    pub(crate) const fn new(name: &'static str, offset: usize) -> Self {
        Self { name, offset, types: PhantomData }
    }

    /// C name of the function.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Offset of the function in the table, in bytes.
    pub const fn offset(self) -> usize {
        self.offset
    }

    /// The function, or `None` where the table ends before it or holds null.
    ///
    /// # Safety
    /// `table` points to a readable table whose first field is its size in bytes, and whose functions, as far as that
    /// size reaches, have the types these declarations give them.
    #[allow(unsafe_code)]
    pub unsafe fn read(self, table: *const T) -> Option<F> {
        const { Self::ONE_POINTER };
        // SAFETY: the caller promises that a table begins with its size.
        let struct_size = unsafe { table.cast::<usize>().read() };
        if self.offset + size_of::<usize>() > struct_size {
            return None;
        }
        // SAFETY: the slot lies within the size the table states, and is a nullable function pointer of type `F`.
        unsafe { table.cast::<u8>().add(self.offset).cast::<Option<F>>().read() }
    }
}

/// Types of which the table only ever shows pointers.
macro_rules! opaque {
    ($($(#[$meta:meta])* $name:ident,)*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            private: [u8; 0],
            // Neither Send, Sync nor Unpin: nothing is known about what is behind the pointer.
            marker: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }
    )*};
}

/// A plain C struct.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident { $($field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)]
        pub struct $name {
            $(pub $field: $ty,)*
        }

        impl $name {
            /// Bytes up to the end of the last field, without the padding that `size_of` counts.
            pub const STRUCT_SIZE: usize = {
                let mut end = 0;
                $(
                    let field_end = std::mem::offset_of!($name, $field) + size_of::<$ty>();
                    end = if field_end > end { field_end } else { end };
                )*
                end
            };
        }
    };
}

/// A C struct that opens with its own size.
macro_rules! sized {
    ($(#[$meta:meta])* $name:ident { $($field:ident: $ty:ty,)* }) => {
        $crate::abi::record! { $(#[$meta])* $name { struct_size: usize, $($field: $ty,)* } }

        impl $name {
            /// Everything zero or null but the size.
            #[allow(unsafe_code)]
            pub const fn new() -> Self {
                // SAFETY: integers, floats, `bool`s, pointers, nullable functions and unions of them may all be zero.
                let mut args: Self = unsafe { std::mem::MaybeUninit::zeroed().assume_init() };
                args.struct_size = Self::STRUCT_SIZE;
                args
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

/// A C struct that opens with its own size and a list of extensions.
macro_rules! args {
    ($(#[$meta:meta])* $name:ident { $($field:ident: $ty:ty,)* }) => {
        $crate::abi::sized! {
            $(#[$meta])* $name { extension_start: *mut $crate::PJRT_Extension_Base, $($field: $ty,)* }
        }
    };
}

/// An extension record: its functions, a `slot` module to read them by, and the type that identifies it.
macro_rules! extension {
    ($(#[$meta:meta])* $name:ident = $id:ident { $($field:ident: $ty:ty,)* }) => {
        $crate::abi::record! { $(#[$meta])* $name { base: PJRT_Extension_Base, $($field: Option<$ty>,)* } }

        impl $name {
            /// What `base.type` is in this record.
            pub const TYPE: PJRT_Extension_Type = $id;
        }

        /// Where each function of the extension is.
        #[allow(non_upper_case_globals)]
        pub mod slot {
            use super::*;
            use $crate::abi::Slot;
            $(
                #[doc = concat!("`", stringify!($field), "`.")]
                pub const $field: Slot<$name, $ty> =
                    Slot::new(stringify!($field), std::mem::offset_of!($name, $field));
            )*
        }
    };
}

pub(crate) use {args, extension, opaque, record, sized};
