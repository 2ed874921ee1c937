//! Numbers for people, and text that is safe where it is put.

use std::fmt::Write;

/// Text as HTML and SVG take it, between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // What XML cannot say at all, not even escaped.
            c if c.is_control() && !matches!(c, '\n' | '\t') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Text as a `data:` address takes it.
pub(super) fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes everything");
        }
    }
    encoded
}

/// A number in four significant digits: "0.03125", "12.5", "1.234×10⁻⁷".
pub(super) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return (value + 0.0).to_string();
    }
    let scientific = format!("{value:.3e}");
    let (digits, exponent) = scientific.split_once('e').expect("the format has an e");
    let exponent: i32 = exponent.parse().expect("the format has an exponent");
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(3 - exponent).unwrap_or(0);
        return trim(&format!("{value:.decimals$}")).to_string();
    }
    format!("{}×{}", trim(digits), power_of_ten(exponent))
}

/// "10⁻³".
pub(super) fn power_of_ten(exponent: i32) -> String {
    let digits = exponent.to_string();
    let superscript = digits.chars().map(|character| match character {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        // The others lie together: U+2070 is the 0, U+2074 the 4.
        digit => char::from_u32(0x2070 + digit.to_digit(10).expect("a digit")).expect("a digit"),
    });
    format!("10{}", superscript.collect::<String>())
}

/// Without zeros that say nothing: "1.50" as "1.5", "2.0" as "2".
pub(super) fn trim(decimal: &str) -> &str {
    if !decimal.contains('.') {
        return decimal;
    }
    decimal.trim_end_matches('0').trim_end_matches('.')
}

/// Lines of at most that many characters, broken at spaces; a longer word keeps a
/// line of its own.
pub(super) fn wrap(text: &str, characters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= characters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_a_tag_or_an_attribute() {
        assert_eq!(escape(r#"<a b="c" d='e'>&"#), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
        assert_eq!(escape("a\u{1}b\nc"), "a\u{fffd}b\nc");
    }

    #[test]
    fn addresses_take_every_byte() {
        assert_eq!(percent_encode("a,\"é\"\n"), "a%2C%22%C3%A9%22%0A");
    }

    #[test]
    fn numbers_have_four_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (12.5, "12.5"),
            (0.031_25, "0.03125"),
            (0.000_123_456, "0.0001235"),
            (0.000_012_345_6, "1.235×10⁻⁵"),
            (123_456.0, "123456"),
            (99.999_9, "100"),
            (999_999.9, "1×10⁶"),
            (1_234_567.0, "1.235×10⁶"),
            (-0.5, "-0.5"),
            (4e-10, "4×10⁻¹⁰"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
        assert_eq!(power_of_ten(-1_234_567_890), "10⁻¹²³⁴⁵⁶⁷⁸⁹⁰");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("false positives a query", 15), ["false positives", "a query"]);
        assert_eq!(wrap("incomprehensible", 5), ["incomprehensible"]);
        assert!(wrap(" ", 5).is_empty());
    }
}
