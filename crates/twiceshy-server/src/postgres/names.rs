//! Names of tables and columns, in SQL without surprises.

/// An SQL identifier of exactly this name.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table's name as SQL: `table` or `schema.table`, either part perhaps in double
/// quotes, in which a dot is a dot and `""` a quote. Names mean exactly what they
/// say: upper and lower case differ, also without quotes.
pub(super) fn table(name: &str) -> Result<String, String> {
    let parts = parts(name)?;
    if parts.len() > 2 || parts.iter().any(String::is_empty) {
        return Err(format!(
            "the table's name {name:?} has {} parts; expected TABLE or SCHEMA.TABLE, and \
             double quotes around a name with a dot",
            parts.len()
        ));
    }
    Ok(parts.iter().map(|part| quoted(part)).collect::<Vec<_>>().join("."))
}

fn parts(name: &str) -> Result<Vec<String>, String> {
    if name.contains('\0') {
        return Err(format!("the table's name {name:?} has a zero byte"));
    }
    let (mut parts, mut rest) = (Vec::new(), name);
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(inside) => in_quotes(inside).ok_or_else(|| {
                format!("the table's name {name:?} has a double quote that is not closed")
            })?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].to_string(), &rest[end..])
            }
        };
        parts.push(part);
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(parts),
            None => return Err(format!("the table's name {name:?} goes on after a closing quote")),
        }
    }
}

/// What is in quotes, and what follows them.
fn in_quotes(inside: &str) -> Option<(String, &str)> {
    let (mut part, mut rest) = (String::new(), inside);
    loop {
        let end = rest.find('"')?;
        part.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                part.push('"');
                rest = next;
            }
            None => return Some((part, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_what_they_say() {
        for (name, sql) in [
            ("users", r#""users""#),
            ("Users; drop table x", r#""Users; drop table x""#),
            ("shop.users", r#""shop"."users""#),
            (r#""shop.eu".users"#, r#""shop.eu"."users""#),
            (r#""say ""hi""".t"#, r#""say ""hi"""."t""#),
            (r#"a"b"#, r#""a""b""#),
            ("größe", r#""größe""#),
        ] {
            assert_eq!(table(name).as_deref(), Ok(sql), "{name}");
        }
        for name in ["", "a.", ".a", "a.b.c", r#""a"#, r#""a"b"#, "a\0b", r#""""#] {
            assert!(table(name).is_err(), "{name}");
        }
    }
}
