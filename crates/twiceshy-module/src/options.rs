//! What the module is loaded with: `loadmodule twiceshy.so [MAX-BYTES n] [BF-COMMANDS yes]`.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The most bytes of an object, unless the operator says otherwise.
const DEFAULT_MAX_BYTES: usize = 128 << 20;

static MAX_BYTES: AtomicUsize = AtomicUsize::new(DEFAULT_MAX_BYTES);

/// The most bytes that an object may take.
pub fn max_bytes() -> usize {
    MAX_BYTES.load(Ordering::Relaxed)
}

/// The options of a `loadmodule` line.
#[derive(Debug, PartialEq)]
pub struct Options {
    pub max_bytes: usize,
    /// Whether the `BF.*` commands are registered too.
    pub bf_commands: bool,
}

impl Options {
    /// # Errors
    /// What is wrong with the line.
    pub fn parse(arguments: &[&[u8]]) -> Result<Self, String> {
        let mut options = Options { max_bytes: DEFAULT_MAX_BYTES, bf_commands: false };
        for pair in arguments.chunks(2) {
            let name = String::from_utf8_lossy(pair[0]).to_ascii_uppercase();
            let value = pair.get(1).ok_or_else(|| format!("{name} has no value"))?;
            let value = String::from_utf8_lossy(value).to_ascii_lowercase();
            match &name[..] {
                "MAX-BYTES" => {
                    options.max_bytes = value.parse().map_err(|_| {
                        format!("MAX-BYTES is a number of bytes, such as 134217728, not {value}")
                    })?;
                }
                "BF-COMMANDS" => {
                    options.bf_commands = match &value[..] {
                        "yes" => true,
                        "no" => false,
                        other => return Err(format!("BF-COMMANDS is yes or no, not {other}")),
                    };
                }
                other => {
                    return Err(format!("{other} is none of MAX-BYTES and BF-COMMANDS"));
                }
            }
        }
        Ok(options)
    }

    pub fn apply(&self) {
        MAX_BYTES.store(self.max_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_understood_or_refused_with_a_reason() {
        let parse = |line: &str| {
            let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            Options::parse(&words)
        };
        let usual = Options { max_bytes: 128 << 20, bf_commands: false };
        assert_eq!(parse(""), Ok(usual));
        let both = Options { max_bytes: 1000, bf_commands: true };
        assert_eq!(parse("bf-commands YES max-bytes 1000"), Ok(both));
        for (line, reason) in [
            ("max-bytes", "has no value"),
            ("max-bytes 1MB", "number of bytes"),
            ("bf-commands maybe", "yes or no"),
            ("aliases yes", "ALIASES is none of"),
        ] {
            assert!(parse(line).is_err_and(|error| error.contains(reason)), "{line}");
        }
    }
}
