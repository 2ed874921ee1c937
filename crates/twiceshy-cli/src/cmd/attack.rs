//! `twiceshy attack`: the adaptivity game, played live.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use twiceshy_lab::adversary::game::{Round, play_watched};
use twiceshy_lab::adversary::{Attack, Target, queries};
use twiceshy_lab::entrants::{self, Entrant, Entrants};

use crate::progress::Progress;
use crate::rows::Rows;
use crate::table::{Table, count, percent};

/// Plays adversaries against filters: which filters can be made to fail?
///
/// An adversary sees only answers. It knows how a filter works, but not the secret that turns
/// keys into digests. It may look up, delete and insert keys, and the filter adapts to every
/// false positive. In the end the adversary names a key, and wins if that is a false positive.
/// "rounds", "telescoping" and "recall" aim for a high rate instead: they win if the last round's rate is
/// more than twice the filter's first-pass rate, beyond what chance explains (1e-6).
///
/// Without an adversary, all of them play against all filters.
///
/// By default filters have the fingerprints of the telescoping filter's paper, for
/// 11.6 bits per key: 8 bits for quotient and broom filters (broom filters take more
/// memory), cells of 11 bits for cuckoo filters.
///
/// Exit code: 0 no matter which side wins; 1 if a filter denied a stored key (a false negative);
/// 2 if the flags are wrong or no filter could take part.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy attack                                    all against all
  twiceshy attack repeat --filters plain,cyclic-1
  twiceshy attack telescoping --keys 50000 --ratio 50
  twiceshy attack recall --keys 62259 --ratio 200 --filters telescoping-reseed,swapping
  twiceshy attack theorem-9 --filters cyclic-1:f=7 --games 20
  twiceshy attack deletion-timing --filters 'broom:ghosts=0; broom'
  twiceshy attack --json > games.jsonl")]
pub struct Args {
    /// The adversary [default: all, one after the other]
    #[arg(value_parser = adversaries())]
    adversary: Option<Attack>,

    #[arg(long, value_name = "NAMES", value_parser = entrants::parse)]
    #[arg(help = "Filters to attack, by name or full spec [default: all]")]
    #[arg(long_help = filters_help())]
    filters: Vec<Entrants>,

    /// Keys to store
    #[arg(long, value_name = "N", default_value_t = 5000, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_QUERIES))]
    keys: u64,

    /// Distinct queries that an adversary may make per stored key, |Q|/|S|
    #[arg(long, value_name = "X", default_value_t = 50.0, allow_negative_numbers = true)]
    #[arg(value_parser = ratio)]
    ratio: f64,

    /// Bits of memory per key that every filter must stay within, 2 to 64, instead of the
    /// paper's fingerprints
    #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = super::memory_bits)]
    bits: Option<f64>,

    /// Games per pair of adversary and filter, each with its own secret
    #[arg(long, value_name = "G", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    games: u64,

    /// Seed of the first game's secret and of the adversary's random choices; each
    /// further game takes the next seed
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Print one JSON object per game and line instead of a table
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print CSV, one line per game, instead of a table
    #[arg(long)]
    csv: bool,
}

/// Queries that an adversary may remember: 2 GB of them.
const MAX_QUERIES: u64 = 1 << 28;

fn adversaries() -> impl TypedValueParser<Value = Attack> {
    let names = Attack::ALL.map(|attack| PossibleValue::new(attack.name()).help(attack.summary()));
    PossibleValuesParser::new(names).map(|name| {
        let named = Attack::ALL.into_iter().find(|attack| attack.name() == name);
        named.expect("clap lets no other name pass")
    })
}

fn filters_help() -> String {
    format!(
        "Filters to attack, by name or full spec [default: all]\n\n\
         Names: {}.\n\n\
         A spec is a name with parameters, such as \"cyclic-2:f=7\". Names and specs are separated \
         by commas or semicolons, and the flag may be repeated. A spec with an f keeps it, unless \
         --bits is given.",
        entrants::names()
    )
}

fn ratio(text: &str) -> Result<f64, String> {
    let most = MAX_QUERIES as f64;
    let number = text.parse().ok().filter(|&ratio: &f64| ratio > 0.0 && ratio <= most);
    number.ok_or_else(|| format!("expected a positive number up to {most}, such as 20 or 0.5"))
}

/// The version of [`Row`] as scripts know it.
const SCHEMA: &str = "twiceshy.attack.v1";

/// A game. The names of the fields are those of the JSON.
#[derive(Serialize)]
struct Row {
    schema: &'static str,
    adversary: &'static str,
    /// The filter's label.
    filter: String,
    spec: String,
    bits_per_key: f64,
    keys: u64,
    ratio: f64,
    seed: u64,
    /// The filter's first-pass rate.
    epsilon: f64,
    rounds: usize,
    queries: u64,
    last_round_rate: f64,
    overall_rate: f64,
    /// The key that the adversary named, by its number.
    named: Option<u64>,
    named_is_false_positive: bool,
    won: bool,
    false_negatives: u64,
}

/// Some filter denied a stored key.
const FALSE_NEGATIVES: u8 = 1;

/// Plays the games.
///
/// # Errors
/// Too many queries, an output that is closed, or no filter that could take part.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    if queries(args.keys, args.ratio) > MAX_QUERIES {
        let Args { keys, ratio, .. } = args;
        let most = count(MAX_QUERIES);
        return Err(format!(
            "{keys} keys with {ratio} queries each are more than {most} queries; lower --keys or \
             --ratio"
        )
        .into());
    }
    tournament(args, |attack, entrant, seed, progress| args.play(attack, entrant, seed, progress))
}

/// All games. The function that plays one is a parameter, so that tests can play a filter that
/// denies keys.
fn tournament(
    args: &Args,
    mut play_one: impl FnMut(Attack, &Entrant, u64, &Progress) -> Result<Row, twiceshy_filters::Error>,
) -> Result<ExitCode, Box<dyn Error>> {
    let (attacks, entrants) = (args.attacks(), args.entrants());
    let pairs = (attacks.len() * entrants.len()) as u64;
    let progress = Progress::new(pairs * args.games);
    let mut printed = Rows::new(args.json, args.csv);
    let mut standings: Vec<Standing> = Vec::new();
    let mut false_negatives = 0;

    for (index, entrant) in entrants.iter().enumerate() {
        let games = attacks.iter().map(|&attack| {
            let seeds = (0..args.games).map(|game| args.seed.wrapping_add(game));
            let mut play = |seed| -> Result<Row, Box<dyn Error>> {
                let row = play_one(attack, entrant, seed, &progress)?;
                progress.suspend(|| report(&mut printed, &row))?;
                false_negatives += row.false_negatives;
                progress.advance(1);
                Ok(row)
            };
            seeds.map(&mut play).collect()
        });
        match games.collect::<Result<Vec<Vec<Row>>, _>>() {
            Ok(attacks) => standings.push(Standing { filter: entrant.name.clone(), attacks }),
            Err(error) if error.is::<twiceshy_filters::Error>() => progress.suspend(|| {
                eprintln!("warning: {} is left out: {error}", entrant.name);
            }),
            Err(error) => return Err(error),
        }
        progress.arrive(((index + 1) * attacks.len()) as u64 * args.games);
    }
    progress.finish();

    if standings.is_empty() {
        return Err("no filter could take part; ask for other --filters or more --bits".into());
    }
    if !args.json && !args.csv {
        args.print_table(&attacks, &standings)?;
    }
    Ok(if false_negatives == 0 { ExitCode::SUCCESS } else { ExitCode::from(FALSE_NEGATIVES) })
}

/// All games of a filter, by adversary.
struct Standing {
    filter: String,
    attacks: Vec<Vec<Row>>,
}

impl Args {
    fn attacks(&self) -> Vec<Attack> {
        self.adversary.map_or_else(|| Attack::ALL.to_vec(), |attack| vec![attack])
    }

    fn entrants(&self) -> Vec<Entrant> {
        if self.filters.is_empty() {
            return entrants::all();
        }
        self.filters.iter().flat_map(|entrants| entrants.0.iter().cloned()).collect()
    }

    /// One game, shown while it runs.
    fn play(
        &self,
        attack: Attack,
        entrant: &Entrant,
        seed: u64,
        progress: &Progress,
    ) -> Result<Row, twiceshy_filters::Error> {
        let capacity = usize::try_from(self.keys).expect("fewer than 2^28 keys");
        let mut filter = match self.bits {
            Some(bits) => entrant.build_within(capacity, bits)?,
            None => entrant.at_paper_size()?.build(capacity)?,
        };
        let adversary = attack.on(&Target::new(&filter, self.keys, self.ratio));
        let title = format!("{} against {}", attack.name(), entrant.name);
        progress.phase(title.clone());
        let in_detail = self.adversary.is_some() && io::stderr().is_terminal();
        let mut watch = |rounds: &[Round]| {
            let line = format!("{title}: {}", describe(rounds));
            if in_detail {
                progress.suspend(|| eprintln!("{line}"));
            } else {
                progress.phase(line);
            }
        };
        let outcome = play_watched(&mut filter, &*adversary, self.keys, seed, &mut watch)?;
        if in_detail {
            let winner = winner(outcome.won);
            progress.suspend(|| eprintln!("{title}: the {winner} wins"));
        }
        Ok(Row {
            schema: SCHEMA,
            adversary: attack.name(),
            filter: filter.label(),
            spec: filter.spec(),
            bits_per_key: filter.stats().bits_per_key(),
            keys: self.keys,
            ratio: self.ratio,
            seed,
            epsilon: outcome.epsilon,
            rounds: outcome.rounds.len(),
            queries: outcome.queries(),
            last_round_rate: outcome.last_round_rate(),
            overall_rate: outcome.overall_rate(),
            named: outcome.named,
            named_is_false_positive: outcome.named_is_false_positive,
            won: outcome.won,
            false_negatives: outcome.false_negatives,
        })
    }

    fn print_table(&self, attacks: &[Attack], standings: &[Standing]) -> io::Result<()> {
        let mut out = io::stdout();
        let games = match self.games {
            1 => format!("seed {}", self.seed),
            games => format!("{} games from seed {}", count(games), self.seed),
        };
        let (keys, most) = (count(self.keys), count(queries(self.keys, self.ratio)));
        writeln!(out, "{keys} keys, at most {most} distinct queries, {games}\n")?;
        match attacks {
            [attack] => {
                writeln!(out, "{} {}\n\n{}", attack.name(), attack.summary(), duels(standings))
            }
            _ => writeln!(
                out,
                "{}\nHow to read it: the winner of each game, or how many games the adversary wins. \
                 'twiceshy attack\nADVERSARY' shows rates and rounds.",
                matrix(standings)
            ),
        }
    }
}

/// The last round in words.
fn describe(rounds: &[Round]) -> String {
    let last = rounds.last().copied().unwrap_or_default();
    let (number, queries, rate) = (rounds.len(), count(last.queries), percent(last.rate()));
    format!("round {number}, {queries} queries, {rate} false positives")
}

fn winner(won: bool) -> &'static str {
    if won { "adversary" } else { "filter" }
}

/// The winner of one game, or how many of several games the adversary won.
fn score(games: &[Row]) -> String {
    let won = games.iter().filter(|row| row.won).count();
    match games {
        [game] => winner(game.won).to_string(),
        _ => format!("{won}/{}", games.len()),
    }
}

/// One adversary against all: means over games.
fn duels(standings: &[Standing]) -> Table {
    let mut table = Table::new(&[
        "filter",
        "bits/key",
        "first pass",
        "rounds",
        "queries",
        "last round",
        "overall",
        "won",
    ]);
    for Standing { filter, attacks } in standings {
        let games = &attacks[0];
        let mean =
            |field: fn(&Row) -> f64| games.iter().map(field).sum::<f64>() / games.len() as f64;
        table.push([
            filter.clone(),
            format!("{:.2}", mean(|row| row.bits_per_key)),
            percent(mean(|row| row.epsilon)),
            format!("{:.1}", mean(|row| row.rounds as f64)),
            count(mean(|row| row.queries as f64).round() as u64),
            percent(mean(|row| row.last_round_rate)),
            percent(mean(|row| row.overall_rate)),
            score(games),
        ]);
    }
    table
}

/// All against all.
fn matrix(standings: &[Standing]) -> Table {
    let mut header = ["filter"; 1 + Attack::ALL.len()];
    for (column, attack) in header[1..].iter_mut().zip(Attack::ALL) {
        *column = attack.name();
    }
    let mut table = Table::new(&header);
    for Standing { filter, attacks } in standings {
        let scores = attacks.iter().map(|games| score(games));
        table.push(std::iter::once(filter.clone()).chain(scores).collect::<Vec<_>>());
    }
    table
}

/// Prints a game as it ends.
fn report(rows: &mut Rows, row: &Row) -> io::Result<()> {
    if row.false_negatives != 0 {
        let (denied, Row { adversary, spec, .. }) = (count(row.false_negatives), row);
        eprintln!("error: {denied} false negatives of {spec} against {adversary}");
    }
    rows.print(row)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// One game of 32 in which a filter denied keys: the others do not hide it, before or
    /// after.
    #[test]
    fn a_false_negative_in_any_game_is_exit_code_one() {
        let flags =
            ["attack", "--keys", "50", "--ratio", "1", "--filters", "plain,rsqf", "--games", "2"];
        for format in ["--json", "--csv"] {
            let args = Line::parse_from(flags.iter().copied().chain([format])).args;
            let honest = tournament(&args, |attack, entrant, seed, progress| {
                args.play(attack, entrant, seed, progress)
            });
            assert_eq!(honest.expect("games"), ExitCode::SUCCESS, "{format}");
            for broken in ["plain", "rsqf"] {
                let mut game = 0;
                let denying = tournament(&args, |attack, entrant, seed, progress| {
                    game += 1;
                    let mut row = args.play(attack, entrant, seed, progress)?;
                    let now = entrant.name == broken && game % 16 == 7;
                    row.false_negatives = if now { 3 } else { 0 };
                    Ok(row)
                });
                assert_eq!(denying.expect("games"), ExitCode::from(1), "{broken} {format}");
            }
        }
    }
}
