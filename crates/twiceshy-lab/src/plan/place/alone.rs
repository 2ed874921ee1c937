//! A filter without a store: a value in a program, or a key of Redis or Valkey.

use twiceshy::Filter;
use twiceshy::filter::{Builder, Kind};
use twiceshy_filters::KeyHasher;

use super::{Advice, Place, SIZED_KEYS, Wish, bytes_of, decimal, grouped, percent, size};

/// Bytes of any filter that its memory per key leaves out.
const FIXED_BYTES: f64 = 600.0;

/// A filter alone, and what was asked of it in code.
struct Alone {
    code: String,
    bits_per_key: f64,
    rate: f64,
    /// Exceptions that it has room for, per key.
    exceptions: f64,
}

impl Alone {
    /// `None` if there is no such filter.
    fn new(builder: &Builder, code: String, keys: usize) -> Option<Self> {
        let bytes = builder.clone().capacity(keys).bytes().ok()?;
        // Full, for its rate.
        let sized = keys.min(SIZED_KEYS);
        let hasher = KeyHasher::keyed([0; 16]);
        let mut filter = builder.clone().capacity(sized).hasher(hasher).build().ok()?;
        for key in 0..sized {
            filter.insert(key as u64);
        }
        let stats = filter.stats();
        Some(Alone {
            code,
            bits_per_key: bytes as f64 * 8.0 / keys as f64,
            rate: stats.rate,
            exceptions: stats.exceptions_room as f64 / sized as f64,
        })
    }

    /// A rate of two digits that makes no larger filter. A filter has a tenth less than it is asked
    /// for, so that it may grow.
    fn asked(&self, keys: usize) -> Option<f64> {
        let exponents = (-9..-1).flat_map(|exponent| (10..100).map(move |two| (two, exponent)));
        let texts = exponents.map(|(two, exponent)| format!("{two}e{exponent}"));
        let rates = texts.filter_map(|text| text.parse::<f64>().ok());
        rates.filter(|rate| *rate >= self.rate).find(|rate| {
            let bytes = Filter::builder().rate(*rate).capacity(keys).bytes();
            bytes.is_ok_and(|bytes| bytes as f64 * 8.0 / keys as f64 <= self.bits_per_key)
        })
    }

    /// Absent keys per stored one whose false positives fill the exceptions.
    fn breaks_at(&self) -> f64 {
        self.exceptions / self.rate
    }

    /// The usual filter with the rate and within the memory, or the smallest.
    fn choose(wish: &Wish, filter: &str, kinds: &[Kind]) -> Result<Self, String> {
        let alone = kinds.iter().find_map(|&kind| {
            let (mut builder, mut code) = (Filter::builder(), String::new());
            match (wish.rate, wish.bits) {
                (Some(rate), _) => {
                    builder = builder.rate(rate);
                    code += &format!(".rate({})", decimal(rate));
                }
                (None, Some(bits)) => {
                    builder = builder.bits_per_key(bits);
                    code += &format!(".bits_per_key({})", decimal(bits));
                }
                (None, None) => (),
            }
            if kind != Kind::Line {
                builder = builder.kind(kind);
                code += &format!(".kind(twiceshy::filter::Kind::{kind:?})");
            }
            let alone = Alone::new(&builder, code, wish.keys)?;
            // Without a rate, the builder has seen to it that it fits.
            let fixed = FIXED_BYTES * 8.0 / wish.keys as f64;
            let fits = wish.rate.is_none() || wish.has_room(alone.bits_per_key - fixed);
            fits.then_some(alone)
        });
        let alone = alone.ok_or_else(|| wish.impossible(&format!("no {filter}")))?;
        if wish.hostile && wish.stream.absent >= alone.breaks_at() {
            return Err(format!(
                "no {filter} holds against an adversary that asks for {} absent keys per stored key: \
                 its table of exceptions is full after {:.1}; use --for store, server or module",
                wish.stream.absent,
                alone.breaks_at()
            ));
        }
        Ok(alone)
    }

    fn advice(&self, place: Place, wish: &Wish, name: &str, paste: String) -> Advice {
        let noted = self.exceptions * wish.keys as f64;
        let sentence = format!(
            "Take {name}: {}, {} of first lookups of absent keys are false positives, and it \
             remembers at most {} of them.",
            size(wish, self.bits_per_key),
            percent(self.rate),
            grouped(noted as usize, ',')
        );
        Advice {
            place,
            filter: "Filter".to_string(),
            spec: None,
            bits_per_key: self.bits_per_key,
            bytes: bytes_of(wish, self.bits_per_key),
            load: None,
            first_pass_rate: self.rate,
            reads_per_query: None,
            breaks_at: wish.hostile.then(|| self.breaks_at()),
            sentence,
            paste,
        }
    }
}

pub(super) fn library(wish: &Wish) -> Result<Advice, String> {
    let alone = Alone::choose(wish, "filter alone", &[Kind::Line, Kind::Rsqf])?;
    let (keys, code) = (grouped(wish.keys, '_'), &alone.code);
    let paste =
        format!("let mut filter = twiceshy::Filter::builder().capacity({keys}){code}.build()?;");
    Ok(alone.advice(Place::Library, wish, "a filter alone, `Filter`", paste))
}

/// The command of the module has a rate and no bits.
pub(super) fn module(wish: &Wish) -> Result<Advice, String> {
    let alone = Alone::choose(wish, "filter of the module", &[Kind::Line])?;
    let asked = match wish.rate {
        Some(rate) => rate,
        None => alone.asked(wish.keys).ok_or("no rate brings about this filter; give a --rate")?,
    };
    let paste = reserve(wish, asked, alone.bits_per_key, "");
    Ok(alone.advice(Place::Module, wish, "the module's filter", paste))
}

/// Against an adversary the module keeps the digests of all keys.
pub(super) fn module_with_digests(wish: &Wish) -> Result<Advice, String> {
    /// With the filter, as measured (`docs/guide/module.md`).
    const BITS_PER_KEY: f64 = 21.0 * 8.0;
    /// The rate of `AF.ADD` without `AF.RESERVE`.
    const USUAL: f64 = 0.002;
    let asked = wish.rate.unwrap_or(USUAL);
    let keys = wish.keys.min(SIZED_KEYS);
    let rate = Filter::builder().rate(asked).capacity(keys).build().ok().and_then(|_| {
        let lines = twiceshy_filters::Spec::all().into_iter().find(|spec| spec.name() == "line")?;
        let fitting = (1..=32).filter_map(|bits| lines.with_fingerprint(bits).ok());
        let rates = fitting.filter_map(|spec| {
            let stats = spec.build(keys).ok()?.stats();
            Some(spec.first_pass_rate(keys as f64 / stats.cells as f64))
        });
        rates.into_iter().find(|rate| *rate <= asked)
    });
    let rate = rate.filter(|_| wish.has_room(BITS_PER_KEY)).ok_or_else(|| {
        format!(
            "against an adversary the module's filters take 21 bytes per key and have rates down \
             to 0.00001: that is not {}",
            wish.words()
        )
    })?;
    let sentence = format!(
        "Take the module's filter with the digests of its keys: {}, {} of first lookups of absent \
         keys are false positives, and it adapts to all of them.",
        size(wish, BITS_PER_KEY),
        percent(rate)
    );
    Ok(Advice {
        place: Place::Module,
        filter: "Filter".to_string(),
        spec: None,
        bits_per_key: BITS_PER_KEY,
        bytes: bytes_of(wish, BITS_PER_KEY),
        load: None,
        first_pass_rate: rate,
        reads_per_query: None,
        breaks_at: None,
        sentence,
        paste: reserve(wish, asked, BITS_PER_KEY, " REMOTE memory"),
    })
}

/// The command that makes a filter, and what the server needs for a large one.
fn reserve(wish: &Wish, rate: f64, bits_per_key: f64, options: &str) -> String {
    /// The module's `MAX-BYTES` unless it is told another.
    const MAX_BYTES: u64 = 128 << 20;
    let command = format!("AF.RESERVE users {} {}{options}", decimal(rate), wish.keys);
    let bytes = bytes_of(wish, bits_per_key);
    if bytes <= MAX_BYTES {
        return command;
    }
    // Room for a quarter more.
    format!("{command}\n# with: loadmodule libtwiceshy_module.so MAX-BYTES {}", bytes + bytes / 4)
}
