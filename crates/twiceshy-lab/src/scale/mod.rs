//! A cluster of nodes with filters, simulated on a virtual clock: seed in, rows out.
//!
//! ```text
//! Setting ─▶ run() ─┬─ Traffic ─ lookups, insertions, an attacker ─▶ Cluster ─▶ Row, Row, ...
//!                   └─ Event ─── a node is lost, slots move ───────▶    │
//!                                                                       ├─ Server     a queue per node
//!                                                                       ├─ SlotMap    16384 slots
//!                                                                       └─ Partition  a real filter
//! ```
//!
//! What filters answer comes from real filters of this library, one per partition, and what the
//! store has from an oracle. Queues, networks, replicas and migrations are simulated, with the times
//! of [`Times`]. `twiceshy scale` prints the rows; `docs/scale.md` says what they teach.
//!
//! Simplified: the store never queues; the network takes the same time always; a request that a node
//! has received before it is lost is answered; a new replica is complete at once (its bytes are
//! counted); while a node is down, lookups go to the store, insertions wait and reports are dropped.

mod cluster;
mod events;
mod oracle;
mod partition;
mod queue;
mod row;
mod run;
mod setting;
mod slots;
mod summary;
#[cfg(test)]
mod tests;
mod traffic;

pub use events::{Event, What};
pub use partition::{Remote, key_name};
pub use queue::Time;
pub use row::{EventRow, NodeRow, PhaseRow, Row, RunRow};
pub use run::{Record, run};
pub use setting::{Setting, Times};
pub use slots::{SLOTS, slot};
