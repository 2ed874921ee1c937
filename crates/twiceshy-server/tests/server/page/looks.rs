//! What the page shows in a browser, and that it can be read.

use serde_json::Value as Json;

use super::browser::{Between, Scheme, attribute, between, dom, element};
use super::shown::{Shown, show};

pub const FILES: [(&str, &str); 3] =
    [("/", "text/html"), ("/style.css", "text/css"), ("/script.js", "text/javascript")];

/// A number with commas.
fn with_commas(number: i64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn the_page_shows_what_ts_stats_says() {
    let shown = show();
    shown.traffic();
    // A line takes two.
    (0..2).for_each(|_| shown.watch.look());
    let Some(dom) = dom(shown.page, Scheme::Light) else { return };
    let stats = shown.running.client().line("TS.STATS");
    for (id, field) in [
        ("reads-avoided", "reads_avoided"),
        ("store-reads", "store_reads"),
        ("false-positives", "false_positives"),
        ("adapted", "adapted"),
        ("spent", "spent"),
    ] {
        let number = stats.field(field).integer();
        let (tag, text) = element(&dom, id);
        assert_eq!(attribute(tag, "data-value"), number.to_string(), "{id}");
        assert_eq!(text, with_commas(number), "{id}");
    }
    let bytes = stats.field("filter_bytes").integer();
    let (tag, text) = element(&dom, "filter-bytes");
    assert_eq!(attribute(tag, "data-value"), bytes.to_string());
    assert!(text.ends_with(" KiB"), "{text}");
    assert_eq!(element(&dom, "status").1, "live");
    let (tag, text) = element(&dom, "about");
    assert_eq!(attribute(tag, "data-value"), "2000");
    assert!(text.starts_with("2,000 keys, embedded store, "), "{text}");
    // There is neither an attack to see nor a store of others.
    for id in ["phase", "try", "store"] {
        assert!(element(&dom, id).0.contains(" hidden"), "{id}");
    }
    // Misses are rarely wrong: of 20,000 at most 1/256, and of them again hardly any.
    // A filter that is a third full is wrong 26 times; never has probability 1e-11.
    let share: f64 =
        element(&dom, "reads-avoided-share").1.trim_end_matches(" %").parse().expect("%");
    assert!((98.0..100.0).contains(&share), "{share}");
    // The charts have lines, the tables rows, and the heat map all 64 shards.
    assert_eq!(dom.matches("<path class=\"line").count(), 4);
    assert_eq!(dom.matches("<path class=\"line with\" d=\"M").count(), 1);
    assert_eq!(dom.matches("fill-opacity=").count(), 64);
    for row in ["miss", "hit", "set"] {
        assert!(dom.contains(&format!("<th scope=\"row\">{row}</th>")), "{row}");
    }
    assert!(dom.contains("aria-label=\"Heat map of 64 shards; the hottest is shard "));
    assert!(dom.contains(" queries per second, ") && !dom.contains("nothing yet"));
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let shown = show();
    for (path, _) in FILES {
        let body = shown.get(path).body;
        for outside in ["http:", "https:", "url(", "@import", "\"//", "'//", "`//", "=//", "ws:"] {
            assert!(!body.contains(outside), "{path} has {outside}");
        }
    }
}

/// The page of a server, with numbers as large as they get.
fn after_years(shown: &Shown) -> String {
    shown.watch.look();
    let mut report: Json = serde_json::from_str(&shown.get("/stats.json").body).expect("JSON");
    fn enlarge(json: &mut Json) {
        match json {
            Json::Number(_) => *json = 987_654_321_098_765_u64.into(),
            Json::Array(items) => items.iter_mut().for_each(enlarge),
            Json::Object(fields) => fields.values_mut().for_each(enlarge),
            _ => (),
        }
    }
    // Everything that can be shown at once.
    report["backend"] = "postgres".into();
    (report["lag"], report["retained"]) = (1.into(), 1.into());
    report["attack"] = true.into();
    for second in report["history"].as_array_mut().expect("a list") {
        second["attack"] = true.into();
    }
    for part in
        ["total", "now", "history", "process_bytes", "connections", "uptime", "lag", "retained"]
    {
        enlarge(&mut report[part]);
    }
    for list in ["latencies", "groups"] {
        for item in report[list].as_array_mut().expect("a list") {
            let fields = item.as_object_mut().expect("an object");
            fields
                .iter_mut()
                .filter(|(name, _)| !["first", "shards"].contains(&name.as_str()))
                .for_each(|(_, it)| enlarge(it));
        }
    }
    report.to_string()
}

/// The page of a server, with another report.
pub fn reporting(shown: &Shown, report: String) -> Between {
    let files = FILES.map(|(path, kind)| (path, kind, shown.get(path).body));
    between(move |path| match path {
        "/stats.json" => Some(("application/json", report.clone())),
        _ => {
            let found = files.iter().find(|(known, ..)| *known == path);
            found.map(|(_, kind, body)| (*kind, body.clone()))
        }
    })
}

/// A store of others may be down, the filter not trusted, and keys may vanish.
#[test]
fn the_page_tells_how_the_store_is() {
    let shown = show();
    let mut report: Json = serde_json::from_str(&shown.get("/stats.json").body).expect("JSON");
    assert_eq!((&report["store_up"], &report["filter_trusted"]), (&true.into(), &true.into()));
    report["backend"] = "postgres".into();
    report["total"]["vanished"] = 1234.into();
    for (up, trusted, state, status) in [
        (true, true, "live", "live"),
        (true, false, "trouble", "every lookup goes to the store"),
        (false, true, "trouble", "the store does not answer"),
    ] {
        (report["store_up"], report["filter_trusted"]) = (up.into(), trusted.into());
        report["lag"] = if trusted { 7.into() } else { Json::Null };
        report["retained"] = if up { 4096.into() } else { Json::Null };
        let Some(dom) = dom(reporting(&shown, report.to_string()).address, Scheme::Light) else {
            return;
        };
        let (tag, text) = element(&dom, "status");
        assert_eq!((attribute(tag, "data-state"), text), (state, status));
        assert!(element(&dom, "about").1.contains(" keys, in front of PostgreSQL, "));
        assert!(!element(&dom, "store").0.contains(" hidden"));
        let lag_note = match (up, trusted) {
            (true, true) => "at most; the store keeps 4 KiB of log for it",
            (true, false) => "not known; the store keeps 4 KiB of log for it",
            (false, _) => "measured with --follow of PostgreSQL",
        };
        for (id, shown) in [
            ("store-state", if up { "up" } else { "down" }),
            ("store-name", "PostgreSQL"),
            ("trust", if trusted { "trusted" } else { "not trusted" }),
            ("lag", if trusted { "7 ms" } else { "–" }),
            ("lag-note", lag_note),
            ("vanished", "1,234"),
        ] {
            assert_eq!(element(&dom, id).1, shown, "{id}: {up} {trusted}");
        }
    }
}

/// Old latencies are not shown as those of now.
#[test]
fn a_server_without_traffic_shows_dashes_for_latencies() {
    let shown = show();
    shown.traffic();
    let p50s = || {
        let report: Json = serde_json::from_str(&shown.get("/stats.json").body).expect("JSON");
        let latencies = report["latencies"].as_array().expect("a list").clone();
        latencies.into_iter().map(|latency| latency["p50"].clone()).collect::<Vec<_>>()
    };
    shown.watch.look();
    assert!(p50s()[..2].iter().all(Json::is_u64), "misses and hits: {:?}", p50s());
    // More readings than are averaged over.
    (0..12).for_each(|_| shown.watch.look());
    assert!(p50s().iter().all(Json::is_null), "{:?}", p50s());
    let Some(dom) = dom(shown.page, Scheme::Light) else { return };
    for row in ["miss", "hit", "set"] {
        let dashes = "<td>–</td>".repeat(3);
        assert!(dom.contains(&format!("<th scope=\"row\">{row}</th>{dashes}")), "{row}");
    }
}

#[test]
fn a_phone_in_the_dark_shows_the_largest_numbers() {
    let shown = show();
    shown.traffic();
    let proxy = reporting(&shown, after_years(&shown));
    let Some(dom) = dom(proxy.address, Scheme::Dark) else { return };
    assert_eq!(element(&dom, "reads-avoided").1, "987,654,321,098,765");
    assert_eq!(element(&dom, "status").1, "live");
    let root = &dom[..dom.find("<head").expect("a head")];
    assert_eq!(attribute(root, "data-inner"), "390");
    assert_eq!(attribute(root, "data-scroll"), "390", "it is wider than the phone");
    assert_eq!(attribute(root, "data-ground"), "rgb(18, 22, 27)");
    assert_eq!(proxy.asked(), ["/", "/page", "/script.js", "/stats.json", "/style.css"]);
}

#[test]
fn a_server_that_is_gone_is_told_of() {
    let shown = show();
    let files = FILES.map(|(path, kind)| (path, kind, shown.get(path).body));
    let proxy = between(move |path| {
        let found = files.iter().find(|(known, ..)| *known == path);
        found.map(|(_, kind, body)| (*kind, body.clone()))
    });
    let Some(dom) = dom(proxy.address, Scheme::Light) else { return };
    let (tag, text) = element(&dom, "status");
    assert_eq!(attribute(tag, "data-state"), "lost");
    assert_eq!(text, "the server does not answer; trying again");
    let root = &dom[..dom.find("<head").expect("a head")];
    assert_eq!(attribute(root, "data-scroll"), "390");
    assert_eq!(attribute(root, "data-ground"), "rgb(246, 247, 249)");
}

/// The contrast of two colours, from WCAG 2.2, "contrast ratio".
fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let luminance = |colour: [u8; 3]| {
        let linear = colour.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn every_text_has_the_contrast_that_wcag_asks_for() {
    assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
    let style = show().get("/style.css").body;
    let (light, dark) = style.split_once("prefers-color-scheme: dark").expect("two schemes");
    for (scheme, text) in [("light", light), ("dark", dark)] {
        let colour = |name: &str| -> [u8; 3] {
            let (_, rest) = text.split_once(&format!("--{name}: #")).expect("a colour");
            let digits = &rest[..6];
            [0, 2, 4].map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex"))
        };
        for ground in ["ground", "card"] {
            for ink in ["ink", "soft", "ours", "theirs", "good"] {
                let ratio = contrast(colour(ink), colour(ground));
                assert!(ratio >= 4.5, "{scheme}: {ink} on {ground} has {ratio:.2}");
            }
        }
    }
}
