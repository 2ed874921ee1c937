//! The live page: over HTTP, in a browser, and as numbers for Prometheus.

pub mod browser;
mod demo;
mod http;
mod looks;
mod metrics;
mod shown;
