//! The catalogue: every kind is known by its name, describes itself in full, and is driven
//! by the other tests.

use std::collections::HashSet;

use crate::harness::{SPECS, parsed};
use twiceshy_filters::internals::{block_code, ordered};
use twiceshy_filters::{Error, Spec, WhenFull};

#[test]
fn every_kind_has_a_name_of_its_own_and_is_in_the_tests_list() {
    let mut names = HashSet::new();
    for spec in Spec::all() {
        assert!(names.insert(spec.name()), "{} comes twice", spec.name());
        assert_eq!(parsed::<Spec>(spec.name()), spec, "its name alone is the usual filter");
        let tested = SPECS.iter().any(|text| parsed::<Spec>(text).name() == spec.name());
        assert!(tested, "{}: add a line to SPECS", spec.name());
    }
}

/// What the text cannot say, a description cannot have: guards compare the text of a
/// snapshot's filters with that of their own.
#[test]
fn two_descriptions_are_equal_where_their_texts_are() {
    let fulls = [WhenFull::Error, WhenFull::Rebuild, WhenFull::Grow];
    let specs: Vec<Spec> = SPECS
        .iter()
        .flat_map(|text| fulls.map(|full| parsed::<Spec>(text).when_full(full)))
        .chain(Spec::all())
        .chain([Spec::default()])
        .collect();
    for one in &specs {
        assert_eq!(parsed::<Spec>(&one.to_string()), *one, "{one}");
        for other in &specs {
            assert_eq!(one == other, one.to_string() == other.to_string(), "{one}, {other}");
        }
    }
}

#[test]
fn the_default_is_a_filter_that_withstands_adversaries() {
    let text = "telescoping:f=8,budget=56,code=general,spent=reseed,full=rebuild";
    assert_eq!(Spec::default().to_string(), text);
    assert!(Spec::default().guards_a_store() && Spec::default().adapts());
}

#[test]
fn a_change_that_makes_no_filter_is_an_error() {
    for (text, parameter, value, expected) in [
        ("rsqf", "spent", "reseed", "rsqf has no parameter \"spent\"; it has f, full"),
        ("telescoping:budget=8", "spent", "reseed", "use 16 to 128"),
        ("telescoping:spent=reseed", "budget", "8", "use 16 to 128"),
        ("telescoping:code=tuned", "f", "9", "use code=general"),
        ("telescoping", "budget", "57", "no whole number of bytes"),
        ("extension", "budget", "136", "use 8 to 128"),
        ("cyclic:s=8", "f", "25", "use 2 to 24"),
        ("varying:r=4", "f", "4", "use 5 to 31"),
        ("swapping", "b", "1", "use 2 to 64"),
        ("simplified", "f", "25", "use 2 to 24"),
        ("cuckooing", "tags", "both", "one of table, common is expected"),
        ("broom", "ghosts", "2", "0 or 1 is expected"),
        ("plain", "f", "x", "a number is expected"),
    ] {
        let spec: Spec = parsed(text);
        match spec.with(parameter, value) {
            Err(Error::Spec { reason, .. }) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{text} with {parameter}={value}: {other:?}"),
        }
    }
}

/// A filter guards a store if a guard's constructor takes it, and only then; the error
/// names those that do.
#[test]
fn filters_that_guard_a_store_are_those_that_can_be_built_in_front_of_one() {
    let mut names = HashSet::new();
    for text in SPECS {
        let spec: Spec = parsed(text);
        match ordered(spec, 10) {
            Ok(filter) => {
                assert_eq!(filter.description(), spec.to_string());
                names.insert(spec.name());
            }
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("digest order") && error.contains("telescoping"), "{error}");
            }
        }
        assert_eq!(ordered(spec, 10).is_ok(), spec.guards_a_store(), "{spec}");
    }
    for known in ["plain", "rsqf", "telescoping", "uncompressed", "extension", "broom"] {
        assert!(names.contains(known), "{known}");
    }
    assert!(!parsed::<Spec>("broom:form=faithful").guards_a_store());
}

/// A slot with a state of probability `p` takes `-log2 p` bits, so the states' probabilities add up
/// to 1: those of all strings of a length, where a state is one. What lengths are rounded up for is
/// not half of all.
#[test]
fn ideal_lengths_are_those_of_a_distribution() {
    for text in [
        "telescoping:f=8,code=tuned",
        "telescoping:f=8",
        "telescoping:f=2,budget=24,spent=reseed",
        "extension:f=8,budget=56",
        "extension:f=1,budget=8",
    ] {
        let code = block_code(&parsed(text)).expect("it has one");
        let strings = if text.starts_with("extension") { 1.0 } else { 0.0 };
        let shares =
            (0..).zip(&code.bits).map(|(state, bits)| (strings * f64::from(state) - bits).exp2());
        let sum: f64 = shares.sum();
        assert!((0.5..1.0 + 1e-9).contains(&sum), "{text}: {sum}");
    }
}
