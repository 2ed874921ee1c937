//! The live page: over HTTP, in a browser, and as numbers for Prometheus.

mod browser;
mod http;
mod looks;
mod metrics;
mod shown;
