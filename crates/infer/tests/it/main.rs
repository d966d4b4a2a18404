//! The engine against transformers, and against itself: a request gets the tokens that it gets alone.

mod answers;
mod blocks;
mod drafts;
mod embeddings;
mod fits;
mod harness;
mod images;
mod load;
mod paging;
mod schedules;
mod serving;
mod speech;
mod stages;
