//! What happens to a cluster, and when: "10s:lose:1, 20s:reshard:4".

use std::fmt;
use std::str::FromStr;

use super::queue::Time;

/// Something that happens to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A node dies. Its replica takes over, without the writes that it had not received; without
    /// replicas, the node's filters are rebuilt from the store.
    Lose(usize),
    /// A node's process dies and starts again from its last snapshot.
    Restart(usize),
    /// The slots are spread evenly over so many nodes.
    Reshard(usize),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Lose(node) => write!(f, "lose:{node}"),
            What::Restart(node) => write!(f, "restart:{node}"),
            What::Reshard(nodes) => write!(f, "reshard:{nodes}"),
        }
    }
}

/// Something that happens at a moment of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, from the start of the traffic.
    pub at: Time,
    /// What.
    pub what: What,
}

impl FromStr for Event {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "\"{text}\" is no event; write \"10s:lose:1\", \"10s:restart:1\" or \"10s:reshard:4\""
            )
        };
        let mut parts = text.trim().split(':');
        let (Some(at), Some(verb), Some(number), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        let number = number.parse().map_err(|_| wrong())?;
        let what = match verb {
            "lose" => What::Lose(number),
            "restart" => What::Restart(number),
            "reshard" if number > 0 => What::Reshard(number),
            _ => return Err(wrong()),
        };
        Ok(Event { at: time(at)?, what })
    }
}

/// Reads a time: "800ns", "0.8us", "1.5ms", "2s" or "5m".
///
/// # Errors
/// What is wrong, and what to write.
pub fn time(text: &str) -> Result<Time, String> {
    let wrong = || format!("\"{text}\" is no time; write \"800ns\", \"0.8us\", \"15ms\" or \"2s\"");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    // A year, far below 2^53 milliseconds: rounding loses nothing that matters.
    let nanoseconds = number * scale;
    if !(0.0..=3.2e16).contains(&nanoseconds) {
        return Err(wrong());
    }
    Ok(nanoseconds.round() as Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_are_written() {
        for (text, at, what) in [
            ("10s:lose:1", 10_000_000_000, What::Lose(1)),
            (" 250ms:restart:0", 250_000_000, What::Restart(0)),
            ("1.5m:reshard:7", 90_000_000_000, What::Reshard(7)),
        ] {
            let event: Event = text.parse().expect(text);
            assert_eq!(event, Event { at, what });
            assert!(text.ends_with(&what.to_string()));
        }
        for text in ["", "10s", "10s:lose", "10s:lose:x", "10s:reshard:0", "10s:lose:1:2"] {
            assert!(
                text.parse::<Event>().is_err_and(|error| error.contains("10s:lose:1")),
                "{text}"
            );
        }
        for text in ["10:lose:1", "-1s:lose:1", "9999999999m:lose:1", "10h:lose:1"] {
            assert!(text.parse::<Event>().is_err_and(|error| error.contains("no time")), "{text}");
        }
    }
}
