//! The `highstate` outputter, which prints state runs and orchestrations.

mod chunk;
mod compress;
mod summary;

use value::{Map, Value};

use super::color::Color;
use super::{Mismatch, Output, nested, pprint, text};
use summary::Counts;

/// Formats the return of a state run: `{minion: {tag: ret}}`, with or without the envelope of a
/// runner or a job.
pub(super) fn output(data: &Value, how: &Output, level: usize) -> Result<String, Mismatch> {
    let data = without_envelope(data);
    let hosts = match &data {
        Value::Str(words) => return Ok(words.to_string()),
        Value::Null => return Ok("None".into()),
        Value::Map(hosts) => hosts,
        _ => return Err(Mismatch),
    };
    let mut hosts = hosts.clone();
    let masters = hosts
        .keys()
        .filter(|key| key.as_str().is_some_and(|key| key.ends_with("_master")))
        .count();
    if masters == 1 {
        hosts.remove("retcode");
    }
    if how.state.compress_ids {
        hosts = compress::compressed(&hosts).unwrap_or_else(|| {
            value::log::warning(format_args!(
                "Unable to compress state output by ID! Returning output normally."
            ));
            hosts
        });
    }
    let blocks: Result<Vec<String>, Mismatch> = hosts
        .iter()
        .map(|(host, data)| Ok(host_block(host, data, how, level)?.text))
        .collect();
    let blocks = blocks?;
    if blocks.is_empty() {
        value::log::error(format_args!(
            "Data passed to highstate outputter is not a valid highstate return: {}",
            data.to_text()
        ));
    }
    Ok(blocks.join("\n"))
}

/// Removes `return` (of a job), `data` (of a runner) and the envelope that a job lookup puts around
/// both.
fn without_envelope(data: &Value) -> Value {
    let mut data = data;
    for key in ["return", "data"] {
        data = data.get(key).unwrap_or(data);
    }
    let only = data
        .as_map()
        .filter(|map| map.len() == 1)
        .and_then(Map::first)
        .map(|(_, value)| value);
    match only {
        Some(job) if job.get("jid").is_some() && job.get("fun").is_some() => job
            .get("return")
            .and_then(|ret| ret.get("data"))
            .unwrap_or(data)
            .clone(),
        _ => data.clone(),
    }
}

/// The text of one minion, and whether anything changed on it.
struct Block {
    text: String,
    changed: bool,
}

/// The block of one minion while it is written.
struct Host<'a> {
    how: &'a Output,
    level: usize,
    /// The colour of the minion's name: that of the worst result.
    color: Color,
    lines: Vec<String>,
    counts: Counts,
}

fn host_block(host: &Value, data: &Value, how: &Output, level: usize) -> Result<Block, Mismatch> {
    let name = host.to_text();
    let mut block = Host {
        how,
        level,
        color: Color::Green,
        lines: Vec::new(),
        counts: Counts::default(),
    };
    match data {
        Value::Bool(_) | Value::Int(_) | Value::Big(_) => {
            block.put_function_lines(&[data.to_text().as_str()]);
        }
        Value::Str(words) => block.put_function_lines(&text::splitlines(words)),
        Value::List(faults) => block.put_faults(faults),
        Value::Map(chunks) => {
            block.put_chunks(chunks)?;
            summary::put(&mut block, &name)?;
        }
        _ => {}
    }
    let name = if how.strip_colors {
        text::without_escapes(&name)
    } else {
        name
    };
    block
        .lines
        .insert(0, how.paint(block.color, &format!("{name}:")));
    Ok(Block {
        text: block.lines.join("\n"),
        changed: block.counts.changed > 0,
    })
}

impl Host<'_> {
    /// Adds the return of `salt.function`, which always counts as a change.
    fn put_function_lines(&mut self, lines: &[&str]) {
        self.counts.changed = 1;
        for line in lines {
            self.lines
                .push(self.how.paint(Color::Green, &format!("    {line}")));
        }
        self.color = Color::Cyan;
    }

    fn put_faults(&mut self, faults: &[Value]) {
        self.color = Color::LightRed;
        let (start, end) = (
            Color::LightRed.code(self.how.color),
            Color::End.code(self.how.color),
        );
        self.lines
            .push(format!("    {start}Data failed to compile:{end}"));
        for fault in faults {
            let fault = match fault {
                Value::Str(words) if self.how.strip_colors => text::without_escapes(words),
                other => other.to_text(),
            };
            self.lines
                .push(format!("{start}----------\n    {fault}{end}"));
        }
    }

    fn put_chunks(&mut self, chunks: &Map) -> Result<(), Mismatch> {
        let mut rets: Vec<(&str, &Map)> = Vec::new();
        for (tag, ret) in chunks.iter() {
            let Some(ret) = ret.as_map() else { continue };
            if tag.as_str() != Some("changes") && !ret.is_empty() && !ret.contains("__run_num__") {
                self.put_missing_order(ret);
            }
            if ret.contains("result") {
                rets.push((tag.as_str().ok_or(Mismatch)?, ret));
            }
        }
        let number = |ret: &Map| ret.get("__run_num__").cloned().unwrap_or(Value::Int(0));
        value::sorted::sort_by_key(&mut rets, |(_, ret)| number(ret));
        rets.into_iter()
            .try_for_each(|(tag, ret)| chunk::put(self, tag, ret))
    }

    fn put_missing_order(&mut self, ret: &Map) {
        let text = "The State execution failed to record the order in which all states were executed. The state return missing data is:";
        self.lines
            .insert(0, pprint::pformat(&Value::Map(ret.clone()), 1));
        self.lines.insert(0, text.into());
    }
}

/// Reports whether a state has changes, and returns their text.
fn changes_text(changes: &Value, how: &Output) -> Result<(bool, String), Mismatch> {
    if !changes.is_true() {
        return Ok((false, String::new()));
    }
    let Some(map) = changes.as_map() else {
        return Ok((true, format!("Invalid Changes data: {}", changes.to_text())));
    };
    let out = map.get("out").and_then(Value::as_str);
    match map
        .get("ret")
        .filter(|ret| !ret.is_null() && out == Some("highstate"))
    {
        Some(hosts) => minions_text(hosts.as_map().ok_or(Mismatch)?, how),
        None => Ok((
            true,
            format!("\n{}", text::rstrip(&nested::output(changes, how, 14, 0))),
        )),
    }
}

/// Returns the indented text of the minions that a `salt.state` ran on, and whether any of them
/// changed.
fn minions_text(hosts: &Map, how: &Output) -> Result<(bool, String), Mismatch> {
    let (mut changed, mut out) = (false, String::new());
    for (host, data) in hosts.iter() {
        let block = host_block(host, data, how, 1)?;
        let lines: Vec<String> = text::splitlines(&block.text)
            .into_iter()
            .map(|line| format!("{:14}{line}", ""))
            .collect();
        out.push('\n');
        out.push_str(&lines.join("\n"));
        changed |= block.changed;
    }
    Ok((changed, out))
}
