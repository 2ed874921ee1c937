//! The documents tell the truth: every command of the guide and of the README runs, every link
//! leads somewhere, and every log line is explained.

#[path = "../../../twiceshy-server/tests/client/mod.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod client;
mod links;
mod log_lines;
mod markdown;
mod pages;
#[path = "../serve/process.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod process;
#[path = "../../../twiceshy-server/tests/upstreams/mod.rs"]
#[expect(dead_code, reason = "other tests need more of them")]
mod upstreams;
