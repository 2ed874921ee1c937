//! The filters that take part, by name ("cyclic-2") or by full spec.

use twiceshy_filters::{Result, Spec};

use crate::adaptive_quotient;
use crate::contestant::Contestant;
use crate::design::{CACHED, Design, WHITELIST};

/// A filter that takes part in a race.
#[derive(Clone, Debug, PartialEq)]
pub struct Entrant {
    /// As the user wrote it.
    pub name: String,
    /// The filter.
    pub design: Design,
}

impl Entrant {
    /// [`Design::build_within`].
    ///
    /// # Errors
    /// [`twiceshy_filters::Error::Spec`] where no fingerprint fits.
    pub fn build_within(&self, keys: usize, bits: f64) -> Result<Contestant> {
        self.design.build_within(keys, bits)
    }

    /// The same filter with the fingerprints of [`Design::at_paper_size`]: 11.6 bits per key at a
    /// load of 0.95, and with a list or cache about as many (an uncompressed filter, a
    /// broom filter, a line filter and an adaptive quotient filter are larger). A spec with an
    /// `f` keeps it.
    ///
    /// # Errors
    /// [`twiceshy_filters::Error::Spec`] where a selector leaves no bits for a fingerprint.
    pub fn at_paper_size(&self) -> Result<Self> {
        let parameters = self.name.split_once(':').map_or("", |(_, parameters)| parameters);
        let keeps_it = parameters.split(',').any(|parameter| parameter.trim().starts_with("f="));
        if keeps_it {
            return Ok(self.clone());
        }
        Ok(Entrant { name: self.name.clone(), design: self.design.at_paper_size()? })
    }

    /// [`Design::build`].
    ///
    /// # Errors
    /// [`twiceshy_filters::Error::Spec`] for a filter that cannot be built.
    pub fn build(&self, keys: usize) -> Result<Contestant> {
        self.design.build(keys)
    }
}

/// What one `--filters` names.
#[derive(Clone, Debug, PartialEq)]
pub struct Entrants(pub Vec<Entrant>);

/// Selector bits of the cyclic filters that take part by default.
const CYCLIC_SELECTORS: std::ops::RangeInclusive<u32> = 1..=3;

/// Every filter that exists: the library's, and those that only the lab has.
#[must_use]
pub fn all() -> Vec<Entrant> {
    let with = |spec: Spec, parameter: &str, value: &str| {
        spec.with(parameter, value).expect("the kind has such a parameter")
    };
    let specs = Spec::all().into_iter().flat_map(|spec| match spec {
        Spec::Cyclic(_) => CYCLIC_SELECTORS.map(|s| with(spec, "s", &s.to_string())).collect(),
        Spec::Telescoping(_) => vec![spec, with(spec, "spent", "reseed")],
        Spec::Broom(_) => vec![spec, with(spec, "form", "faithful")],
        _ => vec![spec],
    });
    let filters = specs.map(|spec| Entrant { name: spec.label(), design: spec.into() });
    let ours = [adaptive_quotient::NAME, CACHED, WHITELIST];
    filters.chain(ours.map(|name| entrant(name.to_string()).expect("it is known"))).collect()
}

/// The names of all of them, for people.
#[must_use]
pub fn names() -> String {
    let names: Vec<String> = all().into_iter().map(|entrant| entrant.name).collect();
    names.join(", ")
}

/// Reads names and specs, separated by commas or semicolons. A spec contains commas too, but
/// each is followed by `parameter=value`, which is not a name.
///
/// # Errors
/// Which name is wrong, and which ones there are.
pub fn parse(text: &str) -> Result<Entrants, String> {
    let mut parts: Vec<String> = Vec::new();
    for list in text.split(';') {
        let mut in_spec = false;
        for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let parameter = part.contains('=') && !part.contains(':');
            match parts.last_mut() {
                Some(spec) if parameter && in_spec => {
                    spec.push(',');
                    spec.push_str(part);
                }
                _ => {
                    in_spec = part.contains(':');
                    parts.push(part.to_string());
                }
            }
        }
    }
    if parts.is_empty() {
        return Err(format!("expected at least one of {}", names()));
    }
    parts.into_iter().map(entrant).collect::<Result<_, _>>().map(Entrants)
}

fn entrant(name: String) -> Result<Entrant, String> {
    let (label, parameters) = name.split_once(':').unwrap_or((&name, ""));
    if let Some(design) = Design::of_the_lab(label, parameters) {
        return Ok(Entrant { design: design?, name });
    }
    let text = match label.strip_prefix("cyclic-").map(str::parse::<u32>) {
        Some(Ok(selector)) => format!("cyclic:s={selector},{parameters}"),
        _ if label.starts_with("line-") => format!("line:f={},{parameters}", &label[5..]),
        _ if label == "telescoping-reseed" => format!("telescoping:spent=reseed,{parameters}"),
        _ if label == "broom-faithful" => format!("broom:form=faithful,{parameters}"),
        _ if Spec::all().iter().any(|spec| spec.name() == label) => format!("{label}:{parameters}"),
        _ => {
            let known = names();
            return Err(format!(
                "no filter is called \"{label}\"; there are {known}, and full specs such as \
                 \"cyclic:s=2,k=3\""
            ));
        }
    };
    let spec: Spec = text.parse().map_err(|error: twiceshy_filters::Error| error.to_string())?;
    Ok(Entrant { name, design: spec.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(String, String)> {
        let entrants = parse(text).expect(text).0;
        entrants.into_iter().map(|entrant| (entrant.name, entrant.design.label())).collect()
    }

    #[test]
    fn every_kind_takes_part_under_its_own_label() {
        let names = names();
        for spec in Spec::all() {
            assert!(names.split(", ").any(|name| name == spec.label()), "{names}: {spec}");
        }
        for several in [
            "cyclic-1, cyclic-2, cyclic-3",
            "telescoping, telescoping-reseed",
            "broom, broom-faithful",
        ] {
            assert!(names.contains(several), "{names}");
        }
        assert!(
            names.starts_with("plain, ") && names.ends_with(", aqf, cached, whitelist"),
            "{names}"
        );
        assert_eq!(parse(&names), Ok(Entrants(all())));
    }

    #[test]
    fn names_and_specs_mix() {
        for text in [
            "plain,cyclic:s=2,k=3,swapping",
            "plain;cyclic:s=2,k=3;swapping",
            " plain , cyclic:s=2,k=3; swapping;",
        ] {
            let names: Vec<String> = parsed(text).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, ["plain", "cyclic:s=2,k=3", "swapping"], "{text}");
        }
        for text in ["cyclic-2", "cyclic:s=2", "cyclic-2:k=3", "cyclic:k=3,s=2"] {
            assert_eq!(parsed(text), [(text.to_string(), "cyclic-2".to_string())]);
        }
        for text in ["line-12", "line:f=12"] {
            assert_eq!(parsed(text), [(text.to_string(), "line-12".to_string())]);
        }
    }

    /// Quotient filters have 2.125 bits of metadata a slot and 0.875 to adapt, so
    /// that 8 + 3 bits at a load of 0.95 are 11.6 a key; the largest subtable of a
    /// simplified filter is 2^11 bins, which 100,000 keys fill well enough.
    #[test]
    fn filters_at_the_papers_size_take_about_the_same_space() {
        for entrant in all() {
            let filter = entrant.at_paper_size().unwrap().build(100_000).unwrap();
            let bits = filter.stats().bits as f64 / 100_000.0;
            let expected = match entrant.name.as_str() {
                "rsqf" => 10.5..10.8,
                "uncompressed" => 18.9..19.2,
                "broom" | "broom-faithful" => 18.0..22.0,
                "whitelist" => 11.0..11.6,
                // 3.125 bits of metadata, at a load of 0.9.
                "aqf" => 12.3..12.4,
                "simplified" => 11.4..12.5,
                // Nine bits are its least.
                "line" => 12.4..12.6,
                _ => 11.4..11.8,
            };
            assert!(expected.contains(&bits), "{}: {bits}", entrant.name);
        }
        for (text, bits) in [("cyclic-3", 11), ("cyclic-3:f=9", 12), ("rsqf:f=5", 5)] {
            let entrant = parse(text).unwrap().0.remove(0).at_paper_size().unwrap();
            assert_eq!(entrant.design.cell_bits(), bits, "{text}");
        }
        assert!(parse("varying:s=8,r=4").unwrap().0[0].at_paper_size().is_err());
    }

    #[test]
    fn errors_name_the_problem() {
        for (text, expected) in [
            ("bloom", "no filter is called \"bloom\"; there are plain, plain-full,"),
            ("plain,cyclic-x", "no filter is called \"cyclic-x\""),
            ("plain,f=7", "no filter is called \"f=7\""),
            ("cyclic-9", "use 1 to 8"),
            ("cyclic:q=1", "no parameter \"q\""),
            ("cached:share=99", "use 1 to 90"),
            ("cached:q=1", "no parameter \"q\""),
            ("aqf:load=96", "load=1 to 95"),
            ("aqf:load=much", "load is a number, not \"much\""),
            ("aqf:s=2", "no \"s=2\""),
            (" ,;", "at least one of plain,"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
