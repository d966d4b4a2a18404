//! Tests only: golden files, corpora, fakes, generators, tidy.
