//! Guarded stores on a real disk, on good days and on bad ones.

mod backup;
mod bad_days;
mod beside_writes;
mod crash;
mod damage;
mod front_door;
#[cfg(target_os = "linux")]
mod full_disk;
mod harness;
mod refused;
mod restored;
mod sidecar;
#[cfg(target_os = "linux")]
mod small_disk;
