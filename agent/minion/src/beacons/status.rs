//! Reports the answers of functions of `status`, as a sign of life.

use value::{Map, Value};

use super::{Ask, Beacon, Settings};

/// The functions that are called if none are configured.
const DEFAULT: [&str; 5] = ["loadavg", "cpustats", "meminfo", "vmstats", "time"];

struct Status {
    /// The functions, and the wanted parts of their answers: `all`, keys, or places in a list.
    functions: Vec<(String, Vec<Value>)>,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let mut functions = Vec::new();
    for (function, items) in settings.own().flat_map(Map::iter) {
        let items = items
            .as_list()
            .map_or_else(|| vec![items.clone()], <[Value]>::to_vec);
        functions.push((function.to_text(), items));
    }
    if functions.is_empty() {
        functions = DEFAULT
            .map(|name| (name.to_owned(), vec!["all".into()]))
            .into();
    }
    Ok(Box::new(Status { functions }))
}

/// Returns a part of an answer: the value of a key in a dictionary, or the item at a place in a
/// list.
fn part(answer: &Value, item: &Value) -> Option<Value> {
    match (answer, answer.as_list()) {
        (Value::Map(map), _) => map.get_value(item).cloned(),
        (_, Some(list)) => list.get(usize::try_from(item.as_int()?).ok()?).cloned(),
        _ => None,
    }
}

fn requested_parts(answer: Value, items: &[Value]) -> Value {
    let mut parts = Map::new();
    for item in items {
        if item.as_str() == Some("all") {
            return answer;
        }
        // A single value may be requested as its part 0.
        if answer.as_map().is_none() && answer.as_list().is_none() && item.as_int() == Some(0) {
            return answer;
        }
        match part(&answer, item) {
            Some(value) => parts.insert(item.clone(), value),
            None => {
                let shown = match item.as_str() {
                    Some(text) => format!("'{text}'"),
                    None => item.to_text(),
                };
                return format!("Status beacon is incorrectly configured: {shown}").into();
            }
        };
    }
    parts.into()
}

impl Beacon for Status {
    fn poll(&mut self, ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let mut data = Map::new();
        for (function, items) in &self.functions {
            let answer = ask(&format!("status.{function}"), Vec::new())?;
            data.insert(function.as_str(), requested_parts(answer, items));
        }
        let stamp = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%S.%6f")
            .to_string();
        Ok(vec![Map::new().with("tag", stamp).with("data", data)])
    }
}
