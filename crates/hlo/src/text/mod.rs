//! The text form: reader and canonical printer.
