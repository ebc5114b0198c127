//! Formats text by the part of Python's `str.format` that line layouts need: `{0}`,
//! `{6[duration]!s:>7}`.

use value::{Value, python};

/// Fills the fields of a layout. Returns `None` if the layout names a field that does not exist.
pub(crate) fn format(layout: &str, fields: &[Value]) -> Option<String> {
    let mut out = String::new();
    let mut rest = layout;
    while let Some(found) = rest.find(['{', '}']) {
        let (text, tail) = rest.split_at(found);
        out.push_str(text);
        let doubled = tail
            .strip_prefix("{{")
            .map(|t| ('{', t))
            .or_else(|| tail.strip_prefix("}}").map(|t| ('}', t)));
        if let Some((brace, after)) = doubled {
            out.push(brace);
            rest = after;
            continue;
        }
        let (field, after) = tail.strip_prefix('{')?.split_once('}')?;
        out.push_str(&put(field, fields)?);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

fn put(field: &str, fields: &[Value]) -> Option<String> {
    let (target, spec) = field.split_once(':').unwrap_or((field, ""));
    let (target, conversion) = target.split_once('!').unwrap_or((target, ""));
    let (index, key) = target
        .split_once('[')
        .map_or((target, None), |(index, key)| {
            (index, key.strip_suffix(']'))
        });
    let mut value = fields.get(index.parse::<usize>().ok()?)?;
    if let Some(key) = key {
        value = value.get(key)?;
    }
    let text = if conversion == "r" {
        python::repr(value)
    } else {
        value.to_text()
    };
    let right_by_default = conversion.is_empty() && value.as_float().is_some();
    Some(align(&text, spec, right_by_default))
}

/// Aligns text by a spec `[[fill]align][width]`.
fn align(text: &str, spec: &str, right_by_default: bool) -> String {
    let chars: Vec<char> = spec.chars().collect();
    let is_align = |c: &char| matches!(c, '<' | '>' | '^');
    let (fill, side, width) = match chars.as_slice() {
        [fill, side, width @ ..] if is_align(side) => (*fill, *side, width),
        [side, width @ ..] if is_align(side) => (' ', *side, width),
        width => (' ', if right_by_default { '>' } else { '<' }, width),
    };
    let width: String = width.iter().take_while(|c| c.is_ascii_digit()).collect();
    let missing = width
        .parse::<usize>()
        .unwrap_or(0)
        .saturating_sub(text.chars().count());
    let before = match side {
        '>' => missing,
        '^' => missing / 2,
        _ => 0,
    };
    let pad = |count: usize| std::iter::repeat_n(fill, count).collect::<String>();
    format!("{}{text}{}", pad(before), pad(missing - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_filled_as_python_fills_them() {
        let ret: Value = [("duration", Value::from(1.5))].into_iter().collect();
        let fields = [Value::from("a"), ret];
        assert_eq!(
            format("{{{0:>3}|{0:^4}|{0:*<3}}} {1[duration]!s:>7} ms", &fields).unwrap(),
            "{  a| a  |a**}     1.5 ms"
        );
        assert_eq!(format("{2}", &fields), None);
    }
}
