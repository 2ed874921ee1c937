//! What is simulated, and how long things take.

use std::str::FromStr;

use super::events::{self, Event, What};
use super::partition::Remote;
use super::queue::Time;

/// A cluster, its traffic and what happens to it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Nodes that have slots, each with a replica unless `replicas` says otherwise.
    pub nodes: usize,
    /// Filters that the keys are cut into.
    pub partitions: usize,
    /// Keys that are loaded before the traffic starts.
    pub keys: u64,
    /// What the filters have behind them.
    pub remote: Remote,
    /// The filters' rate, if not the default.
    pub rate: Option<f64>,
    /// Their bits of exceptions per key, if not the default.
    pub exceptions: Option<f64>,
    /// Whether each node has a replica.
    pub replicas: bool,
    /// Requests of the traffic.
    pub queries: u64,
    /// Requests per second, on average.
    pub per_second: f64,
    /// The exponent of the popularity of stored and of absent keys.
    pub zipf: f64,
    /// The share of the lookups that ask for stored keys.
    pub hits: f64,
    /// The share of the requests that are insertions.
    pub inserts: f64,
    /// The share of the insertions whose key clients ask for while it is absent.
    pub claims: f64,
    /// Absent keys that clients ask for, per stored key.
    pub absent: f64,
    /// Absent keys that are looked up once, to measure the rate.
    pub first_pass: u64,
    /// False positives that the attacker collects; by default as many as the exceptions hold, or one
    /// per 205 keys (as many) where there are none.
    pub attack: Option<u64>,
    /// How often the attacker repeats each of them.
    pub rounds: u64,
    /// What happens, in order.
    pub events: Vec<Event>,
    /// How long things take.
    pub times: Times,
    /// What all random choices follow from.
    pub seed: u64,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            nodes: 3,
            partitions: 48,
            keys: 1_000_000,
            remote: Remote::None,
            rate: None,
            exceptions: None,
            replicas: true,
            queries: 1_000_000,
            per_second: 20_000.0,
            zipf: 1.0,
            hits: 0.5,
            inserts: 0.05,
            claims: 0.0,
            absent: 10.0,
            first_pass: 1_000_000,
            attack: None,
            rounds: 10,
            events: Vec::new(),
            times: Times::default(),
            seed: 1,
        }
    }
}

impl Setting {
    /// Whether every event names a node that there is.
    ///
    /// # Errors
    /// The event that does not.
    pub fn check(&self) -> Result<(), String> {
        let mut nodes = self.nodes;
        let mut last = 0;
        for event in &self.events {
            if event.at < last {
                return Err(format!("event \"{}\" is earlier than the one before it", event.what));
            }
            last = event.at;
            match event.what {
                What::Reshard(to) => nodes = to,
                What::Lose(node) | What::Restart(node) if node < nodes => (),
                What::Lose(_) | What::Restart(_) => {
                    let most = nodes - 1;
                    return Err(format!("event \"{}\": nodes are 0 to {most} then", event.what));
                }
            }
        }
        Ok(())
    }

    /// Keys that a filter is made for: its share of all, and room for chance (5 standard deviations).
    pub(super) fn capacity(&self) -> usize {
        let inserts = self.queries as f64 * self.inserts;
        let mean = (self.keys as f64 + inserts) / self.partitions as f64;
        (mean + 5.0 * mean.sqrt()).ceil() as usize
    }
}

/// How long things take. Names are those of [`Times::set`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// A node's processor, per `AF.EXISTS`.
    pub exists: Time,
    /// ... per `AF.ADD`.
    pub add: Time,
    /// ... per `AF.ADAPT`.
    pub adapt: Time,
    /// A request's way to a node and back.
    pub round_trip: Time,
    /// A read of the store.
    pub store_read: Time,
    /// What `MIGRATE` blocks both nodes for, per MiB.
    pub migrate: Time,
    /// What a slot takes to move beside its keys.
    pub slot_move: Time,
    /// Loading a snapshot, per MiB.
    pub load: Time,
    /// Rebuilding a filter from the store, per key.
    pub rebuild: Time,
    /// From the loss of a node until its replica answers.
    pub failover: Time,
    /// From the loss of a process until it runs again, beside loading.
    pub restart: Time,
    /// How far a replica is behind.
    pub lag: Time,
    /// From one snapshot, or sync of the append-only file, to the next.
    pub snapshot: Time,
}

impl Default for Times {
    /// Measured, if not said otherwise; `docs/scale.md` says where.
    fn default() -> Self {
        Times {
            exists: 800,
            add: 1_200,
            adapt: 1_150,
            round_trip: 23_000,
            store_read: 63_000,
            migrate: 17_500_000,
            // Five commands.
            slot_move: 115_000,
            load: 4_500_000,
            rebuild: 1_200,
            // Redis' default `cluster-node-timeout`, and an election.
            failover: 16_000_000_000,
            // Assumed.
            restart: 1_000_000_000,
            lag: 1_000_000,
            // `appendfsync everysec`.
            snapshot: 1_000_000_000,
        }
    }
}

impl Times {
    /// All by name, in the order of their declaration.
    pub fn named(&mut self) -> [(&'static str, &mut Time); 13] {
        [
            ("exists", &mut self.exists),
            ("add", &mut self.add),
            ("adapt", &mut self.adapt),
            ("round-trip", &mut self.round_trip),
            ("store-read", &mut self.store_read),
            ("migrate", &mut self.migrate),
            ("slot-move", &mut self.slot_move),
            ("load", &mut self.load),
            ("rebuild", &mut self.rebuild),
            ("failover", &mut self.failover),
            ("restart", &mut self.restart),
            ("lag", &mut self.lag),
            ("snapshot", &mut self.snapshot),
        ]
    }

    /// Changes one: "failover=2s".
    ///
    /// # Errors
    /// A name or a time that there is not.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let mut named = self.named();
        let Some((_, time)) = named.iter_mut().find(|(known, _)| *known == name.trim()) else {
            let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
            return Err(format!("no time is called \"{name}\"; there are {}", names.join(", ")));
        };
        **time = events::time(value.trim())?;
        Ok(())
    }
}

/// The default times with some changed: "failover=2s,lag=5ms".
impl FromStr for Times {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut times = Times::default();
        text.split(',').try_for_each(|change| times.set(change))?;
        if times.snapshot == 0 {
            return Err("snapshot=0s: the time between two snapshots is more than 0".to_string());
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_changed_by_name() {
        let times: Times = "failover=2s, lag=5ms".parse().expect("both are times");
        assert_eq!((times.failover, times.lag), (2_000_000_000, 5_000_000));
        assert_eq!(Times { failover: 16_000_000_000, lag: 1_000_000, ..times }, Times::default());
        for (text, reason) in
            [("lug=1s", "exists, add, adapt"), ("lag", "no time"), ("snapshot=0s", "more than 0")]
        {
            assert!(text.parse::<Times>().is_err_and(|error| error.contains(reason)), "{text}");
        }
    }

    #[test]
    fn events_of_nodes_that_are_not_there_are_refused() {
        let with = |events: &str| {
            let events = events.split(',').map(|event| event.parse().expect("an event")).collect();
            Setting { events, ..Setting::default() }.check()
        };
        assert_eq!(with("1s:lose:2,2s:reshard:4,2s:restart:3"), Ok(()));
        assert!(with("1s:lose:3").is_err_and(|error| error.contains("nodes are 0 to 2")));
        assert!(with("1s:reshard:2,2s:lose:2").is_err_and(|error| error.contains("0 to 1")));
        assert!(with("2s:lose:1,1s:lose:0").is_err_and(|error| error.contains("earlier")));
    }
}
