//! Numbers as people write them: `1M` keys, `64MiB` of memory, a rate of `0.1%`.

/// A whole number, perhaps of thousands (k), millions (M) or billions (G).
pub fn keys(text: &str) -> Result<u64, String> {
    let expected =
        || "expected a number of keys, at least 1, such as 250000, 250k or 1M".to_string();
    let (digits, factor) = match text.strip_suffix(['k', 'K', 'M', 'G']) {
        None => (text, 1),
        Some(digits) => (
            digits,
            match &text[digits.len()..] {
                "M" => 1_000_000,
                "G" => 1_000_000_000,
                _ => 1000,
            },
        ),
    };
    if let Ok(number) = digits.replace('_', "").parse::<u64>() {
        return number.checked_mul(factor).filter(|keys| *keys > 0).ok_or_else(expected);
    }
    let number: f64 = digits.parse().map_err(|_| expected())?;
    let keys = number * factor as f64;
    // Half of a million is a number of keys, half of a key is none.
    if factor == 1 || !(1.0..1e18).contains(&keys) {
        return Err(expected());
    }
    Ok(keys.round() as u64)
}

/// Bytes, in units of 1024 or 1000.
pub fn memory(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 13] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("K", 1024.0),
        ("M", 1_048_576.0),
        ("G", 1_073_741_824.0),
        ("B", 1.0),
    ];
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (number, unit) = unit.unwrap_or((text, 1.0));
    let bytes = number.trim().parse::<f64>().ok().map(|number| number * unit);
    let bytes = bytes.filter(|bytes| (1.0..1e18).contains(bytes));
    bytes.ok_or_else(|| {
        "expected bytes, or an amount in KiB, MiB, GiB, kB, MB or GB, such as 64MiB".to_string()
    })
}

/// A share between 0 and 1, or a percentage.
pub fn rate(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(number) => (number.trim(), 100.0),
        None => (text, 1.0),
    };
    let rate = number.parse::<f64>().ok().map(|number| number / unit);
    let rate = rate.filter(|rate| *rate > 0.0 && *rate < 1.0);
    rate.ok_or_else(|| {
        "expected a rate above 0 % and below 100 %, such as 0.1% or 0.001".to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_may_be_thousands_and_millions() {
        for (text, number) in [
            ("1", 1),
            ("250000", 250_000),
            ("1_000", 1000),
            ("250k", 250_000),
            ("1M", 1_000_000),
            ("1.5M", 1_500_000),
            ("2G", 2_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(keys(text), Ok(number), "{text}");
        }
        for text in ["", "0", "-1", "1.5", "M", "1Q", "nan", "infM", "18446744073709551615k"] {
            assert!(keys(text).is_err(), "{text}");
        }
    }

    #[test]
    fn memory_has_units() {
        for (text, bytes) in [
            ("64MiB", 67_108_864.0),
            ("64M", 67_108_864.0),
            ("1.5 GiB", 1_610_612_736.0),
            ("10MB", 1e7),
            ("10KB", 1e4),
            ("512", 512.0),
            ("512B", 512.0),
        ] {
            assert_eq!(memory(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "-1MiB", "MiB", "1 XB", "nan", "inf"] {
            assert!(memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_may_be_percentages() {
        assert_eq!(rate("0.1%"), Ok(0.001));
        assert_eq!(rate("0.1 %"), Ok(0.001));
        assert_eq!(rate("0.001"), Ok(0.001));
        for text in ["", "0", "1", "100%", "-1%", "nan", "%"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
