//! Reports when the usage of memory has reached a percentage.

use value::{Map, Value};

use super::{Ask, Beacon, Settings, number};

struct MemUsage {
    percent: f64,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let percent = settings.get("percent").and_then(number);
    let percent = percent.ok_or("Configuration for memusage beacon requires percent.")?;
    Ok(Box::new(MemUsage { percent }))
}

impl Beacon for MemUsage {
    fn poll(&mut self, ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let memory = ask("ps.virtual_memory", Vec::new())?;
        let used = memory.get("percent").and_then(Value::as_float);
        let used = used.ok_or("ps.virtual_memory returned no percentage")?;
        Ok(match used >= self.percent {
            true => vec![Map::new().with("memusage", used)],
            false => Vec::new(),
        })
    }
}
