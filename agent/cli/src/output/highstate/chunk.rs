//! Formats one state of a run.

use value::{Map, Value, python};

use super::super::color::Color;
use super::super::format::format;
use super::super::{Mismatch, Mode, Output, Tabular, text};
use super::{Host, changes_text};

/// Adds a state to its minion's block, in the requested detail, and counts it.
pub(super) fn put(host: &mut Host<'_>, tag: &str, ret: &Map) -> Result<(), Mismatch> {
    let how = host.how;
    let mut parts: Vec<&str> = tag.split("_|-").collect();
    let result = ret.get("result").ok_or(Mismatch)?;
    let names = names_in(how, tag);
    host.counts.add(result, names, ret)?;
    let changes = ret.get("changes").ok_or(Mismatch)?;
    let (changed, changes_text) = changes_of(host, ret, changes)?;
    if changed {
        let compressed = changes
            .get("compressed changes")
            .and_then(Value::as_map)
            .map_or(0, Map::len);
        host.counts.changed += if names > 1 { compressed.max(1) } else { 1 };
    }
    if result.is_true() && !changed && (how.state.output_diff || !how.state.verbose) {
        return Ok(());
    }
    let color = color_of(host, result, changed);
    if how.state.by_id && parts.len() > 2 {
        parts = with_id_for_name(&parts);
    }
    let [state, id, name, .., function] = parts.as_slice() else {
        return Err(Mismatch);
    };
    let chunk = Chunk {
        how,
        color,
        state,
        id,
        name,
        function,
        ret,
        result,
    };
    match view(how, result, changed) {
        View::Nothing => {}
        View::Terse => host.lines.push(chunk.terse(changes.is_true())?),
        View::Full => {
            host.lines.extend(chunk.full(&changes_text)?);
            if let Some(warnings) = ret.get("warnings") {
                host.counts.warnings += 1;
                host.lines.push(warning_lines(how, warnings)?);
            }
        }
    }
    Ok(())
}

/// Returns the number of names in a compressed state.
fn names_in(how: &Output, tag: &str) -> usize {
    if !how.state.compress_ids || !tag.contains("_|-state_compressed_") {
        return 1;
    }
    let id = tag.split("_|-").nth(1).unwrap_or_default();
    let count = id
        .strip_suffix(')')
        .and_then(|id| id.rsplit_once('('))
        .and_then(|(_, count)| count.parse().ok());
    count.unwrap_or(1)
}

fn with_id_for_name<'a>(parts: &[&'a str]) -> Vec<&'a str> {
    let id = parts.get(1).copied().unwrap_or_default();
    parts
        .iter()
        .enumerate()
        .map(|(index, part)| if index == 2 { id } else { *part })
        .collect()
}

fn changes_of(host: &Host<'_>, ret: &Map, changes: &Value) -> Result<(bool, String), Mismatch> {
    let name = ret.get("name").and_then(Value::as_str);
    if !matches!(name, Some("state.orch" | "state.orchestrate" | "state.sls")) {
        return changes_text(changes, host.how);
    }
    let nested = super::output(changes, host.how, host.level + 1)?;
    let indent = " ".repeat(14 * host.level);
    Ok((
        true,
        format!("\n{nested}")
            .split('\n')
            .map(|line| format!("{indent}{line}"))
            .collect::<Vec<_>>()
            .join("\n"),
    ))
}

fn color_of(host: &mut Host<'_>, result: &Value, changed: bool) -> Color {
    let color = match result {
        Value::Bool(false) => Color::Red,
        Value::Null => Color::LightYellow,
        _ if changed => return Color::Cyan,
        _ => return Color::Green,
    };
    host.color = color;
    color
}

enum View {
    Full,
    Terse,
    Nothing,
}

fn view(how: &Output, result: &Value, changed: bool) -> View {
    let failed = *result == Value::Bool(false) && result.as_bool().is_some();
    let terse = match how.state.mode {
        Mode::Full => false,
        Mode::Terse => true,
        Mode::Mixed => !failed,
        Mode::Changes => result.is_true() && !changed,
        Mode::Filter => {
            let listed = |list: &[String]| list.contains(&result.to_text());
            if listed(&how.state.exclude) && !listed(&how.state.terse) {
                return View::Nothing;
            }
            listed(&how.state.terse)
        }
    };
    if terse { View::Terse } else { View::Full }
}

struct Chunk<'a> {
    how: &'a Output,
    color: Color,
    state: &'a str,
    id: &'a str,
    name: &'a str,
    function: &'a str,
    ret: &'a Map,
    result: &'a Value,
}

impl Chunk<'_> {
    fn full(&self, changes: &str) -> Result<Vec<String>, Mismatch> {
        let mut lines = vec![self.how.paint(self.color, "----------")];
        self.field(&mut lines, "      ID", self.id);
        self.field(
            &mut lines,
            "Function",
            &format!("{}.{}", self.state, self.function),
        );
        if self.id != self.name {
            self.field(&mut lines, "    Name", self.name);
        }
        self.field(&mut lines, "  Result", &self.result.to_text());
        self.field(&mut lines, " Comment", &self.comment()?);
        if let Some(start) = self
            .ret
            .get("start_time")
            .filter(|_| self.how.state.profile)
        {
            self.field(&mut lines, " Started", &start.to_text());
            self.field(&mut lines, "Duration", &self.duration());
        }
        lines.push(
            self.how
                .paint(self.color, &format!("     Changes:   {changes}")),
        );
        Ok(lines)
    }

    fn field(&self, lines: &mut Vec<String>, label: &str, text: &str) {
        lines.push(format!(
            "    {}",
            self.how.paint(self.color, &format!("{label}: {text}"))
        ));
    }

    fn duration(&self) -> String {
        match self.ret.get("duration").map(Value::to_text) {
            Some(number) if !number.is_empty() => format!("{number} ms"),
            _ => String::new(),
        }
    }

    fn comment(&self) -> Result<String, Mismatch> {
        let words = self.ret.get("comment").ok_or(Mismatch)?.to_text();
        let mut comment = text::strip(&words).replace('\n', &format!("\n{:14}", ""));
        match self.ret.get("data") {
            Some(Value::List(items)) => {
                for item in items.iter() {
                    comment.push_str(&format!(" {}", item.to_text()));
                }
            }
            Some(Value::Map(map)) => {
                for (key, value) in map.iter() {
                    comment.push_str(&format!("\n\t\t{}: {}", key.to_text(), value.to_text()));
                }
            }
            Some(other) => comment.push_str(&format!(" {}", other.to_text())),
            None => {}
        }
        Ok(comment)
    }

    fn terse(&self, changed: bool) -> Result<String, Mismatch> {
        let result = match self.result {
            Value::Bool(false) => "Failed",
            Value::Null => "Differs",
            _ if changed => "Changed",
            _ => "Clean",
        };
        let timed = self.how.state.profile && self.ret.contains("start_time");
        let layout = match &self.how.state.tabular {
            Tabular::Own(layout) => layout.clone(),
            Tabular::Yes => {
                let times = if timed {
                    "{6[start_time]!s} [{6[duration]!s:>7} ms] "
                } else {
                    ""
                };
                format!("{{0}}{times}{{2:>10}}.{{3:<10}} {{4:7}}   Name: {{1}}{{5}}")
            }
            Tabular::No => {
                let times = if timed {
                    " - Started: {6[start_time]!s} - Duration: {6[duration]!s} ms"
                } else {
                    ""
                };
                format!(" {{0}} Name: {{1}} - Function: {{2}}.{{3}} - Result: {{4}}{times}{{5}}")
            }
        };
        let words = [
            self.color.code(self.how.color),
            self.name,
            self.state,
            self.function,
            result,
            Color::End.code(self.how.color),
        ];
        let mut fields: Vec<Value> = words.into_iter().map(Value::from).collect();
        fields.push(Value::Map(self.ret.clone()));
        Ok(self.terse_warnings()? + &format(&layout, &fields).ok_or(Mismatch)?)
    }

    /// Returns the warnings before a terse state. As in Salt, a line break follows them only in
    /// tables.
    fn terse_warnings(&self) -> Result<String, Mismatch> {
        let Some(warnings) = self.ret.get("warnings") else {
            return Ok(String::new());
        };
        let end = match self.how.state.tabular {
            Tabular::Own(_) => return Ok(String::new()),
            Tabular::Yes => "\n",
            Tabular::No => "",
        };
        let text = format!("Warnings:\n{}", joined(warnings)?);
        Ok(self.how.paint(Color::LightRed, &text) + end)
    }
}

fn warning_lines(how: &Output, warnings: &Value) -> Result<String, Mismatch> {
    let text = text::fill(&joined(warnings)?);
    Ok(format!(
        "   {}",
        how.paint(
            Color::LightRed,
            &format!(" Warnings: {}", text.trim_start())
        )
    ))
}

fn joined(warnings: &Value) -> Result<String, Mismatch> {
    let lines: Option<Vec<&str>> = warnings
        .as_list()
        .ok_or(Mismatch)?
        .iter()
        .map(Value::as_str)
        .collect();
    Ok(lines.ok_or(Mismatch)?.join("\n"))
}

/// Returns the duration in milliseconds. It can be a number or a text such as `12.3 ms`.
pub(super) fn milliseconds(ret: &Map) -> Result<f64, Mismatch> {
    match ret.get("duration") {
        None => Ok(0.0),
        Some(Value::Str(words)) => {
            let number = words.split(" ms").next().unwrap_or_default();
            Ok(number.trim().parse().unwrap_or_else(|_| {
                value::log::error(format_args!("Cannot parse a float from duration {words}"));
                0.0
            }))
        }
        Some(Value::Bool(truth)) => Ok(f64::from(u8::from(*truth))),
        Some(other) => other.as_float().ok_or(Mismatch),
    }
}

/// Returns `round(number, digits)` as Python prints it.
pub(super) fn rounded(number: f64, digits: usize) -> String {
    python::float(format!("{number:.digits$}").parse().unwrap_or(number))
}
