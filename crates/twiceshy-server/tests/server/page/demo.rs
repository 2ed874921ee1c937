//! The page of a demonstration: its phases, and the box in which to try a key.

use serde_json::Value as Json;

use super::browser::{Scheme, attribute, between, dom, element};
use super::looks::{FILES, reporting};
use super::shown::{Response, Shown, get, show_demo};

fn json(response: &Response) -> Json {
    assert_eq!(response.status, 200, "{response:?}");
    serde_json::from_str(&response.body).expect("JSON")
}

/// Of a demonstration with 2000 keys.
fn shown() -> Shown {
    let shown = show_demo();
    shown.traffic();
    shown
}

/// The filter has room for 2000 keys and is full: it is wrong about some of a thousand missing
/// keys, so about one of 100,000 but for a probability below 1e-40.
#[test]
fn a_key_is_followed_through_filter_and_store() {
    let shown = shown();
    let stored = json(&shown.get("/lookup?key=key%3A7"));
    assert_eq!((&stored["key"], &stored["filter"]), (&"key:7".into(), &"maybe".into()));
    assert_eq!((&stored["stored"], &stored["value"]), (&true.into(), &"v".into()));
    assert_eq!(stored["adapted"], Json::Null);
    let wrong = json(&shown.get("/mistake"));
    let key = wrong["key"].as_str().expect("a key");
    assert_eq!((&wrong["filter"], &wrong["stored"]), (&"maybe".into(), &false.into()));
    assert_eq!((&wrong["adapted"], &wrong["adapted_before"]), (&true.into(), &false.into()));
    // Never the same mistake twice.
    let again = json(&shown.get(&format!("/lookup?key={key}")));
    assert_eq!((&again["filter"], &again["stored"]), (&"absent".into(), &Json::Null));
    assert_eq!(again["adapted_before"], true);
    assert_ne!(json(&shown.get("/mistake"))["key"], key, "it looks for another");
    assert_eq!(shown.get("/lookup").status, 400);
    // A value that is too large for the page is found all the same.
    shown.running.client().line(&format!("SET large {}", "x".repeat(5000)));
    let large = json(&shown.get("/lookup?key=large"));
    assert_eq!((&large["stored"], &large["value"]), (&true.into(), &Json::Null));
}

#[test]
fn the_phases_of_the_attack_are_labelled() {
    let shown = shown();
    shown.watch.look();
    let mut report = json(&shown.get("/stats.json"));
    assert_eq!(report["attack"], false, "nobody has begun to attack");
    let second = report["history"][0].clone();
    let history = (0..90).map(|at| {
        let mut second = second.clone();
        second["attack"] = (at % 50 < 40).into();
        second
    });
    report["history"] = history.collect();
    for (attack, phase) in [(true, "attack on"), (false, "attack paused")] {
        report["attack"] = attack.into();
        let page = reporting(&shown, report.to_string());
        let Some(dom) = dom(page.address, Scheme::Light) else { return };
        let (tag, text) = element(&dom, "phase");
        assert_eq!((attribute(tag, "data-attack"), text), (&*attack.to_string(), phase));
        assert!(!tag.contains("hidden"), "{tag}");
        // In both charts two attacks are shaded. A phone has no room for the words of the pause.
        assert_eq!(
            dom.matches("<path class=\"band\" d=\"M0 0H39V100H0ZM49 0H89V100H49Z\"").count(),
            2
        );
        assert_eq!(dom.matches(">attack on</span>").count(), 4, "{dom}");
        assert_eq!(dom.matches(">attack paused</span>").count(), 0, "{dom}");
    }
}

/// Somebody clicks where the script ends, and reads what the box says.
fn clicked(shown: &Shown, click: &'static str) -> Option<String> {
    let page = shown.page;
    let clicking = between(move |path| {
        let mut body = get(page, path).body;
        if path == "/script.js" {
            body += &format!("setTimeout(() => {{ {click} }}, 300);");
        }
        let kind = FILES.iter().find(|(known, _)| *known == path);
        Some((kind.map_or("application/json", |(_, kind)| kind), body))
    });
    dom(clicking.address, Scheme::Light)
}

#[test]
fn the_box_says_what_happens_to_a_key() {
    let shown = shown();
    let says = |dom: &str, steps: [&str; 3], said: &str| {
        for (id, step) in ["try-filter", "try-store", "try-adapted"].iter().zip(steps) {
            let (_, rest) = dom.split_once(&format!(" id=\"{id}\"")).expect(id);
            let (_, rest) = rest.split_once("<span>").expect("a step");
            assert_eq!(rest.split('<').next(), Some(step), "{id}");
        }
        let text = element(dom, "try-said").1;
        assert!(text.contains(said), "{text}");
    };
    let look_up = "byId('try-key').value = 'key:7'; byId('try-form').requestSubmit();";
    let Some(dom) = clicked(&shown, look_up) else { return };
    let steps = ["maybe stored", "found: v", "not needed"];
    says(&dom, steps, "“key:7” is stored, so it takes one read.");
    assert!(!element(&dom, "try").0.contains("hidden"));
    let dom = clicked(&shown, "byId('try-mistake').click();").expect("a browser");
    let steps = ["maybe stored", "read for nothing", "now, to this key"];
    says(&dom, steps, "A false positive: “nobody:");
    let both = "byId('try-mistake').click(); \
                setTimeout(() => byId('try-form').requestSubmit(), 700);";
    let dom = clicked(&shown, both).expect("a browser");
    let steps = ["absent, for certain", "not asked", "earlier, to this key"];
    says(&dom, steps, "once, and is not wrong again.");
}
