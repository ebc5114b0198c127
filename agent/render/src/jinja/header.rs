//! Reads the line `#jinja2: {"trim_blocks": true}`, which sets options for one template.

use value::json;

use crate::JinjaOptions;

/// Removes the line from a template and applies its options; an unreadable line stays in the
/// template.
pub(super) fn take(source: &str, options: &mut JinjaOptions) -> String {
    let lines: Vec<&str> = source.split_inclusive('\n').collect();
    let shebang = lines
        .first()
        .is_some_and(|line| line.starts_with("#!") && !line.starts_with("#!/"));
    let at = usize::from(shebang);
    let settings = lines
        .get(at)
        .and_then(|line| line.strip_prefix("#jinja2:"))
        .and_then(|text| json::read(text).ok());
    let Some(settings) = settings.as_ref().and_then(value::Value::as_map) else {
        return source.to_owned();
    };
    for (key, value) in settings {
        match key.as_str().unwrap_or_default().to_lowercase().as_str() {
            "trim_blocks" => options.trim_blocks = value.is_true(),
            "lstrip_blocks" => options.lstrip_blocks = value.is_true(),
            _ => {}
        }
    }
    lines
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != at)
        .map(|(_, line)| *line)
        .collect()
}
