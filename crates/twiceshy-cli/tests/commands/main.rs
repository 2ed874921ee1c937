//! The commands that need no server, in one binary: it links once.

mod attack;
mod bars;
mod check;
mod keyless;
mod lists;
mod man;
mod paper;
mod place;
mod plan;
mod race;
mod scale;
