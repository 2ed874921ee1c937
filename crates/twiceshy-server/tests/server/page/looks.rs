//! What the page shows in a browser, and that it can be read.

use serde_json::Value as Json;

use super::browser::{Between, Scheme, attribute, between, dom, element};
use super::shown::{Shown, show};

const FILES: [(&str, &str); 3] =
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
    for part in ["total", "now", "history", "process_bytes", "connections", "uptime"] {
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
fn reporting(shown: &Shown, report: String) -> Between {
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
    report["backend"] = "redis".into();
    report["total"]["vanished"] = 1234.into();
    for (up, trusted, state, status, about) in [
        (true, true, "live", "live", "redis store up, filter trusted"),
        (true, false, "trouble", "every lookup goes to the store", "up, filter not trusted"),
        (false, true, "trouble", "the store does not answer", "redis store down, filter trusted"),
    ] {
        (report["store_up"], report["filter_trusted"]) = (up.into(), trusted.into());
        report["lag"] = if trusted { 7.into() } else { Json::Null };
        let Some(dom) = dom(reporting(&shown, report.to_string()).address, Scheme::Light) else {
            return;
        };
        let (tag, text) = element(&dom, "status");
        assert_eq!((attribute(tag, "data-state"), text), (state, status));
        let text = element(&dom, "about").1;
        assert!(text.contains(&format!("{about}, 1,234 keys vanished, ")), "{text}");
        assert_eq!(text.contains("at most 7 ms behind it, "), trusted, "{text}");
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
