//! Checkpoints on real disks and servers: what is saved is restored, and what goes wrong is seen and harmless.

mod background;
mod disk;
mod google;
mod group;
mod hugging_face;
mod kill;
mod protection;
mod retention;
mod round_trip;
mod s3;
mod state;

mod servers;
