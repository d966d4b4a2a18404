//! Checkpoints on real disks and servers, and quantized models of other tools: what is saved is restored, and what goes wrong is seen.

mod background;
mod disk;
mod google;
mod group;
mod hugging_face;
mod kill;
mod protection;
mod quantized;
mod quantized_damaged;
mod quantized_seeds;
mod quantized_written;
mod retention;
mod round_trip;
mod s3;
mod state;

mod servers;
