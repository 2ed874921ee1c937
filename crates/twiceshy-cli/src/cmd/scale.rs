//! `twiceshy scale`: a cluster of filters, simulated.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use twiceshy_lab::scale::{
    self, Event, EventRow, NodeRow, PhaseRow, Record, Remote, Row, RunRow, Setting, Times,
};

use crate::progress::Progress;
use crate::rows::Rows;
use crate::table::{Table, bytes, count};

/// Simulates a Redis or Valkey cluster that holds filters, on a virtual clock.
///
/// The keys are cut into partitions by a hash of the client's. Each partition is one filter, under a
/// key of its own: "filter:{0}", "filter:{1}" and so on. CRC16 of what is in braces decides on the
/// hash slot, and the slot on the node, as in a real cluster. What filters answer comes from real
/// filters of this library; queues, networks, replicas and migrations are simulated.
///
/// A run loads all keys, looks up absent keys once (the first pass), and plays the traffic: lookups
/// of stored and of absent keys, popular ones more often, and insertions. A "maybe" for an absent key
/// costs a read of the store, after which the client reports it (AF.ADAPT). Then an attacker collects
/// false positives and repeats them in turn. In the end, every stored key is looked up.
///
/// Events, during the traffic: "10s:lose:1" (node 1 dies, its replica takes over without the writes
/// of the last millisecond; without replicas its filters are rebuilt from the store),
/// "10s:restart:1" (its process starts again from its last snapshot), "10s:reshard:4" (the slots are
/// spread over four nodes, a filter at a time). While a node is down, lookups read the store,
/// insertions wait and reports are dropped.
///
/// Keys that a takeover has lost are counted apart, as "lost": Redis and Valkey lose acknowledged
/// writes that way. So are keys that a late report has hidden: with --claims, clients store keys that
/// others have just found absent and are about to report. Any other denied key is a false negative.
///
/// Exit code: 0; 1 if a filter denied a stored key (a false negative); 2 if the flags are wrong.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy scale                                                   three nodes, a million keys
  twiceshy scale --nodes 6 --partitions 96 --per-second 1000000
  twiceshy scale --events '5s:lose:1, 20s:reshard:4'
  twiceshy scale --remote memory --attack 50000                    adapts without exceptions
  twiceshy scale --claims 0.5 --times store-read=5ms               late reports
  twiceshy scale --keys 100000 --commands requests.txt --json      to play it on a real cluster")]
pub struct Args {
    /// Nodes with hash slots
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::<1, 1000>)]
    nodes: u64,

    /// Filters that the keys are cut into
    #[arg(long, value_name = "P", default_value_t = 48, value_parser = number::<1, 16384>)]
    partitions: u64,

    /// Keys to load
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number::<1, 1_000_000_000>)]
    keys: u64,

    /// What a filter has behind it: nothing (it adapts by exceptions), or its digests in memory
    #[arg(long, value_name = "KIND", default_value = "none")]
    remote: RemoteKind,

    /// False-positive rate of filters without a remote [default: 1/450]
    #[arg(long, value_name = "R", value_parser = within::<0, 1>)]
    rate: Option<f64>,

    /// Bits of exceptions per key [default: 0.5]
    #[arg(long, value_name = "B", value_parser = within::<0, 1000>)]
    exceptions: Option<f64>,

    /// Replicas per node, 0 or 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<0, 1>)]
    replicas: u64,

    /// Requests of the traffic
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number::<0, 10_000_000_000>)]
    queries: u64,

    /// Requests per second
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = number::<1, 1_000_000_000>)]
    per_second: u64,

    /// Exponent of the popularity of keys; 0: all alike
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = within::<0, 10>)]
    zipf: f64,

    /// Share of the lookups that ask for stored keys
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = within::<0, 1>)]
    hits: f64,

    /// Share of the requests that insert a key
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = within::<0, 1>)]
    inserts: f64,

    /// Share of the insertions whose key clients ask for while it is absent
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = within::<0, 1>)]
    claims: f64,

    /// Absent keys that clients ask for, per stored key
    #[arg(long, value_name = "A", default_value_t = 10.0, value_parser = within::<0, 1000>)]
    absent: f64,

    /// Absent keys that are looked up once, before the traffic
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number::<0, 10_000_000_000>)]
    first_pass: u64,

    /// False positives that the attacker collects [default: as many as the exceptions hold]
    #[arg(long, value_name = "N", value_parser = number::<0, 100_000_000>)]
    attack: Option<u64>,

    /// How often the attacker repeats each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::<0, 1_000_000>)]
    rounds: u64,

    /// What happens during the traffic, in order: TIME:lose:NODE, TIME:restart:NODE or
    /// TIME:reshard:NODES
    #[arg(long, value_name = "EVENTS", value_delimiter = ',')]
    events: Vec<Event>,

    #[arg(long, value_name = "TIMES", default_value = "", hide_default_value = true)]
    #[arg(help = "Times to change, such as failover=2s,lag=5ms", long_help = times_help())]
    times: String,

    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Write all requests but the reports to a file, one per line: phase, command (reserve, add or
    /// exists), filter, key (for reserve: the arguments of AF.RESERVE), and whether the key is stored
    /// then
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,

    /// Print one JSON object per line instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum RemoteKind {
    None,
    Memory,
}

fn number<const LEAST: u64, const MOST: u64>(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {LEAST} to {MOST}"))
}

fn within<const LEAST: u64, const MOST: u64>(text: &str) -> Result<f64, String> {
    let (least, most) = (LEAST as f64, MOST as f64);
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected a number from {LEAST} to {MOST}"))
}

fn times_help() -> String {
    let mut times = Times::default();
    let each = times.named().map(|(name, time)| format!("{name}={}", time_text(*time)));
    format!(
        "Times to change, such as failover=2s,lag=5ms\n\n\
         By default: {}. exists, add and adapt are a node's processor time per command, migrate and \
         load are per MiB, rebuild is per key. docs/scale.md says where they come from.",
        each.join(", ")
    )
}

/// In the largest unit that makes a whole number of tenths.
fn time_text(nanoseconds: u64) -> String {
    for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")] {
        if nanoseconds >= unit && nanoseconds.is_multiple_of(unit / 10) {
            return format!("{}{name}", nanoseconds as f64 / unit as f64);
        }
    }
    format!("{nanoseconds}ns")
}

/// Some filter denied a stored key.
const FALSE_NEGATIVES: u8 = 1;

/// Plays the cluster.
///
/// # Errors
/// Events or times that make no sense, a file or an output that cannot be written, or filters that
/// cannot be built.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let setting = args.setting()?;
    let mut commands = args.commands.as_ref().map(File::create).transpose()?.map(BufWriter::new);
    let mut written = Ok(());
    let mut record = |record: Record<'_>| {
        if let (Some(file), Ok(())) = (&mut commands, &written) {
            let Record { phase, command, filter, key, stored } = record;
            let truth = if stored { "stored" } else { "absent" };
            written = writeln!(file, "{phase}\t{command}\t{filter}\t{key}\t{truth}");
        }
    };
    // Keys are gone through three times: load, replicas and check; how long the attack takes, chance
    // decides.
    let progress = Progress::new(2 * setting.keys + setting.first_pass + setting.queries);
    let rows = scale::run(&setting, &progress, &mut record)?;
    progress.finish();
    written?;
    if let Some(mut file) = commands {
        file.flush()?;
    }
    if args.json {
        let mut printed = Rows::new(true, false);
        rows.iter().try_for_each(|row| printed.print(row))?;
    } else {
        print_tables(&mut io::stdout().lock(), &rows)?;
    }
    let denied = rows.iter().any(|row| matches!(row, Row::Run(run) if run.false_negatives > 0));
    Ok(if denied { ExitCode::from(FALSE_NEGATIVES) } else { ExitCode::SUCCESS })
}

impl Args {
    fn setting(&self) -> Result<Setting, String> {
        let setting = Setting {
            nodes: self.nodes as usize,
            partitions: self.partitions as usize,
            keys: self.keys,
            remote: match self.remote {
                RemoteKind::None => Remote::None,
                RemoteKind::Memory => Remote::Memory,
            },
            rate: self.rate,
            exceptions: self.exceptions,
            replicas: self.replicas == 1,
            queries: self.queries,
            per_second: self.per_second as f64,
            zipf: self.zipf,
            hits: self.hits,
            inserts: self.inserts,
            claims: self.claims,
            absent: self.absent,
            first_pass: self.first_pass,
            attack: self.attack,
            rounds: self.rounds,
            events: self.events.clone(),
            times: if self.times.is_empty() { Times::default() } else { self.times.parse()? },
            seed: self.seed,
        };
        setting.check()?;
        Ok(setting)
    }
}

fn print_tables(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let mut phases = Table::new(&[
        "phase",
        "lookups",
        "hits",
        "avoided",
        "wasted",
        "again",
        "unfiltered",
        "p50 us",
        "p99 us",
        "longest us",
    ]);
    let mut events = Table::new(&[
        "event",
        "seconds",
        "filters",
        "bytes",
        "longest s",
        "lost keys",
        "adaptations",
    ]);
    let mut nodes = Table::new(&[
        "node",
        "slots",
        "filters",
        "keys",
        "memory",
        "bytes/key",
        "requests",
        "share",
        "busy",
    ]);
    for row in rows {
        match row {
            Row::Phase(row) => phases.push(phase(row)),
            Row::Event(row) => events.push(event(row)),
            Row::Node(row) => nodes.push(node(row)),
            Row::Run(_) => (),
        }
    }
    writeln!(out, "{phases}")?;
    if rows.iter().any(|row| matches!(row, Row::Event(_))) {
        writeln!(out, "{events}")?;
    }
    writeln!(out, "{nodes}")?;
    match rows.last() {
        Some(Row::Run(run)) => write!(out, "{}", summary(run)),
        _ => Ok(()),
    }
}

fn phase(row: &PhaseRow) -> [String; 10] {
    let PhaseRow { counts, .. } = row;
    [
        row.phase.to_string(),
        count(counts.lookups),
        count(counts.hits),
        count(counts.avoided),
        count(counts.wasted),
        count(counts.repeated),
        count(counts.unfiltered),
        format!("{:.1}", row.p50_us),
        format!("{:.1}", row.p99_us),
        format!("{:.0}", row.most_us),
    ]
}

fn event(row: &EventRow) -> [String; 7] {
    [
        format!("{:.3} s: {}", row.at_seconds, row.event),
        format!("{:.3}", row.seconds),
        count(row.partitions),
        bytes(row.bytes),
        format!("{:.3}", row.longest_block_seconds),
        count(row.lost_keys),
        count(row.lost_adaptations),
    ]
}

fn node(row: &NodeRow) -> [String; 9] {
    [
        row.node.to_string(),
        count(row.slots),
        count(row.partitions),
        count(row.keys),
        bytes(row.bytes),
        format!("{:.2}", row.bytes_per_key),
        count(row.requests),
        format!("{:.1} %", row.share * 100.0),
        format!("{:.2} %", row.busy * 100.0),
    ]
}

fn summary(run: &RunRow) -> String {
    let attack = match run.attack_wasted {
        0 => "none".to_string(),
        wasted => {
            let times = run.attack_queries as f64 / wasted as f64;
            format!("{}, 1 in {times:.1}", count(wasted))
        }
    };
    format!(
        "First pass: {:.0} false positives per million absent keys\n\
         Attack: {} false positives (exceptions hold {}), {} queries, wasted reads {attack}\n\
         Most of a node over the mean: keys {:.2}, requests {:.2}\n\
         Capacity: {} requests per second, when the busiest node is busy all the time\n\
         Stored keys denied at the end: {} lost with a node, {} hidden by late reports\n\
         False negatives: {}\n",
        run.first_pass_per_million,
        count(run.attack_distinct),
        count(run.exceptions_room),
        count(run.attack_queries),
        run.key_imbalance,
        run.request_imbalance,
        count(run.per_second_at_most as u64),
        count(run.denied_lost),
        count(run.denied_hidden),
        count(run.false_negatives),
    )
}
