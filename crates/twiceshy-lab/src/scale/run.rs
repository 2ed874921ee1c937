//! A run: load, first pass, traffic with events, attack, audit.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};

use twiceshy_filters::Result;

use super::cluster::{Answer, Cluster, event_row};
use super::events::What;
use super::oracle::{ATTACK, FIRST_PASS, Key, Oracle};
use super::partition::key_name;
use super::queue::Time;
use super::row::{Counts, EventRow, PhaseRow, Row, Tally};
use super::setting::Setting;
use super::traffic::{Arrivals, Request, Traffic};
use crate::race::Watch;

/// Steps between two calls of [`Watch::advance`].
pub(super) const STRIDE: u64 = 1 << 14;

/// Lookups that the attacker makes for each false positive it wants, at most.
const PATIENCE: u64 = 5000;

/// Where the attacker stops by default if there are no exceptions: what they would hold.
const KEYS_PER_EXCEPTION: u64 = 205;

/// A request, for a script that plays it against a real cluster. Reports are not among them: they
/// depend on the answers.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// "load", "first pass", "traffic", and of the attack "collect" and "replay".
    pub phase: &'static str,
    /// "reserve", "add" or "exists".
    pub command: &'static str,
    /// The filter's key in the cluster.
    pub filter: &'a str,
    /// The item; of "reserve", the arguments that make the same filter.
    pub key: &'a str,
    /// Whether the store has the item when it is asked for.
    pub stored: bool,
}

/// What is due at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    /// A client has read the store, and reports a false positive.
    Report(Key),
    /// The event of this number.
    Happen(usize),
    /// The next slot moves.
    MoveSlot,
}

/// A run that goes on.
pub(super) struct Run<'a> {
    pub(super) setting: &'a Setting,
    pub(super) cluster: Cluster<'a>,
    oracle: Oracle,
    due: BinaryHeap<Reverse<(Time, u64, Action)>>,
    /// Numbers actions, so that those of one moment stay in order.
    actions: u64,
    pub(super) arrivals: Arrivals,
    tally: Tally,
    /// Keys whose false positive was fixed.
    fixed: HashSet<Key>,
    moves: VecDeque<(u16, usize)>,
    resharding: Option<EventRow>,
    pub(super) rows: Vec<Row>,
    record: &'a mut dyn FnMut(Record<'_>),
}

/// Plays a setting. `record` sees every request.
///
/// # Errors
/// Filters that cannot be built.
pub fn run(
    setting: &Setting,
    watch: &dyn Watch,
    record: &mut dyn FnMut(Record<'_>),
) -> Result<Vec<Row>> {
    watch.phase("load".to_string());
    let mut run = Run {
        setting,
        cluster: Cluster::load(setting, watch)?,
        oracle: Oracle::new(setting.keys),
        due: BinaryHeap::new(),
        actions: 0,
        arrivals: Arrivals::new(setting),
        tally: Tally::default(),
        fixed: HashSet::new(),
        moves: VecDeque::new(),
        resharding: None,
        rows: Vec::new(),
        record,
    };
    run.record_filters();
    for key in 0..setting.keys {
        run.record("load", "add", key, false);
    }
    watch.phase("first pass".to_string());
    let first_positives = run.first_pass(watch);
    watch.phase("traffic".to_string());
    let mut phases = vec![run.traffic(watch)?];
    watch.phase("attack".to_string());
    let distinct = run.attack(&mut phases, watch)?;
    watch.phase("check".to_string());
    let audit = run.audit(watch);
    Ok(run.finish(phases, first_positives, distinct, &audit))
}

impl Run<'_> {
    fn record_filters(&mut self) {
        for (index, partition) in self.cluster.partitions.iter().enumerate() {
            let (filter, key) = (&*partition.name, &*self.cluster.reserve_arguments(index));
            let (phase, command) = ("load", "reserve");
            (self.record)(Record { phase, command, filter, key, stored: false });
        }
    }

    fn record(&mut self, phase: &'static str, command: &'static str, key: Key, stored: bool) {
        let key = key_name(key);
        let filter = &self.cluster.partitions[self.cluster.partition_of(&key)].name;
        (self.record)(Record { phase, command, filter, key: &key, stored });
    }

    /// False positives among keys that were never asked for; nobody reports them.
    fn first_pass(&mut self, watch: &dyn Watch) -> u64 {
        let mut positives = 0;
        for number in 0..self.setting.first_pass {
            let key = FIRST_PASS + number;
            self.record("first pass", "exists", key, false);
            positives += u64::from(self.contains(key));
            step(number, watch);
        }
        positives
    }

    /// What the filter says, aside from the clock.
    fn contains(&self, key: Key) -> bool {
        let name = key_name(key);
        self.cluster.partitions[self.cluster.partition_of(&name)].filter.contains(&name)
    }

    fn traffic(&mut self, watch: &dyn Watch) -> Result<PhaseRow> {
        for (number, event) in self.setting.events.iter().enumerate() {
            self.schedule(event.at, Action::Happen(number));
        }
        let mut traffic = Traffic::new(self.setting);
        for number in 0..self.setting.queries {
            let request = traffic.next(&self.oracle);
            match request {
                Request::Lookup(key) => {
                    self.record("traffic", "exists", key, self.oracle.is_stored(key));
                    self.lookup(key)?;
                }
                Request::Insert(key) => {
                    self.record("traffic", "add", key, self.oracle.is_stored(key));
                    self.insert(key)?;
                }
            }
            step(number, watch);
        }
        self.end_phase("traffic", 0)
    }

    /// Collects false positives, and repeats them in turn; how many there were.
    fn attack(&mut self, phases: &mut Vec<PhaseRow>, watch: &dyn Watch) -> Result<u64> {
        let wanted = self.setting.attack.unwrap_or_else(|| match self.exceptions_room() {
            0 => self.setting.keys / KEYS_PER_EXCEPTION,
            room => room,
        });
        let start = self.arrivals.now;
        let mut found = Vec::new();
        for number in 0..wanted.saturating_mul(PATIENCE) {
            if found.len() as u64 == wanted {
                break;
            }
            let key = ATTACK + number;
            let wasted = self.tally.counts.wasted;
            self.record("collect", "exists", key, false);
            self.lookup(key)?;
            if self.tally.counts.wasted > wasted {
                found.push(key);
            }
            step(number, watch);
        }
        phases.push(self.end_phase("collect", start)?);
        let start = self.arrivals.now;
        for number in 0..self.setting.rounds * found.len() as u64 {
            let key = found[(number % found.len() as u64) as usize];
            self.record("replay", "exists", key, false);
            self.lookup(key)?;
            step(number, watch);
        }
        phases.push(self.end_phase("replay", start)?);
        Ok(found.len() as u64)
    }

    pub(super) fn exceptions_room(&self) -> u64 {
        let rooms =
            self.cluster.partitions.iter().map(|partition| partition.filter.exceptions_room());
        rooms.flatten().sum()
    }

    /// Lets pass what is still due, and says what was counted.
    fn end_phase(&mut self, name: &'static str, start: Time) -> Result<PhaseRow> {
        let end = self.arrivals.now;
        self.pass(Time::MAX)?;
        Ok(std::mem::take(&mut self.tally).row(name, end - start))
    }

    fn schedule(&mut self, at: Time, action: Action) {
        self.due.push(Reverse((at, self.actions, action)));
        self.actions += 1;
    }

    /// Does all that is due until a moment.
    fn pass(&mut self, until: Time) -> Result<()> {
        while let Some(&Reverse((at, _, action))) = self.due.peek().filter(|next| next.0.0 <= until)
        {
            self.due.pop();
            // What happens after the last request of a phase happens before the next phase.
            self.arrivals.now = self.arrivals.now.max(at);
            match action {
                Action::Report(key) => self.report(at, key)?,
                Action::Happen(number) => self.happen(at, self.setting.events[number].what)?,
                Action::MoveSlot => self.move_slot(at)?,
            }
        }
        Ok(())
    }

    /// A client asks now, and reads the store if it must.
    fn lookup(&mut self, key: Key) -> Result<()> {
        let at = self.next_arrival()?;
        let stored = self.oracle.is_stored(key);
        let answer = self.cluster.lookup(at, key);
        let counts = &mut self.tally.counts;
        counts.lookups += 1;
        if let Answer::Absent(done) | Answer::Maybe(done) = answer {
            self.tally.answers.add(done - at);
        }
        match (answer, stored) {
            (Answer::None, _) => counts.unfiltered += 1,
            (Answer::Maybe(_), true) => counts.hits += 1,
            (Answer::Absent(_), false) => counts.avoided += 1,
            (Answer::Absent(_), true) => counts.deny(self.oracle.explain(key)),
            (Answer::Maybe(done), false) => {
                counts.wasted += 1;
                counts.repeated += u64::from(self.fixed.contains(&key));
                self.schedule(done + self.setting.times.store_read, Action::Report(key));
            }
        }
        Ok(())
    }

    /// A client adds a key to the filter and to the store; it is stored from the moment on at which
    /// the filter has it, as no one may be told of it before.
    fn insert(&mut self, key: Key) -> Result<()> {
        let at = self.next_arrival()?;
        let new = self.oracle.store(key);
        let done = self.cluster.insert(at, key, new)?;
        self.tally.counts.inserts += 1;
        self.tally.slowest_insert = self.tally.slowest_insert.max(done - at);
        Ok(())
    }

    fn next_arrival(&mut self) -> Result<Time> {
        let at = self.arrivals.next();
        self.pass(at)?;
        Ok(at)
    }

    fn report(&mut self, at: Time, key: Key) -> Result<()> {
        match self.cluster.adapt(at, key)? {
            None => self.tally.counts.reports_dropped += 1,
            Some(true) => {
                self.tally.counts.adaptations += 1;
                self.fixed.insert(key);
                if self.oracle.is_stored(key) {
                    self.oracle.hide(key);
                }
            }
            Some(false) => (),
        }
        Ok(())
    }

    fn happen(&mut self, at: Time, what: What) -> Result<()> {
        let mut row = match what {
            What::Lose(node) => self.cluster.lose(at, node, &mut self.oracle)?,
            What::Restart(node) => self.cluster.restart(at, node, &mut self.oracle)?,
            What::Reshard(nodes) => {
                // A second one goes on from where the first has come.
                self.rows.extend(self.resharding.take().map(Row::Event));
                let under_way = !self.moves.is_empty();
                self.moves = self.cluster.slots.moves(nodes).into();
                self.resharding = Some(EventRow { event: what.to_string(), ..event_row(at) });
                if !under_way {
                    self.schedule(at, Action::MoveSlot);
                }
                return Ok(());
            }
        };
        row.event = what.to_string();
        self.rows.push(Row::Event(row));
        Ok(())
    }

    fn move_slot(&mut self, at: Time) -> Result<()> {
        let Some(row) = &mut self.resharding else { return Ok(()) };
        row.seconds = at as f64 / 1e9 - row.at_seconds;
        match self.moves.pop_front() {
            Some((slot, to)) => {
                let end = self.cluster.move_slot(at, slot, to, row)?;
                self.schedule(end, Action::MoveSlot);
            }
            None => self.rows.extend(self.resharding.take().map(Row::Event)),
        }
        Ok(())
    }

    /// Asks for every stored key.
    fn audit(&self, watch: &dyn Watch) -> Counts {
        let mut counts = Counts::default();
        for (number, key) in self.oracle.all().enumerate() {
            if !self.contains(key) {
                counts.deny(self.oracle.explain(key));
            }
            step(number as u64, watch);
        }
        counts
    }
}

fn step(number: u64, watch: &dyn Watch) {
    if number % STRIDE == STRIDE - 1 {
        watch.advance(STRIDE as usize);
    }
}
