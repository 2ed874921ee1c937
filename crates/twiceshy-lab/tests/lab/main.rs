//! The lab through its public names, in one binary: it links once.

mod attacks;
mod baselines;
mod captures;
mod committed;
mod games;
mod key_files;
mod line_model;
mod literal_rules;
mod models;
mod reference;
mod report;
mod runner;
mod telescoping_attack;
mod workloads;
