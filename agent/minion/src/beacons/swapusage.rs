//! Reports when the usage of swap has reached a percentage.

use value::{Map, Value};

use super::{Ask, Beacon, Settings, number};

struct SwapUsage {
    percent: f64,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let percent = settings.get("percent").and_then(number);
    let percent = percent.ok_or("Configuration for swapusage beacon requires percent.")?;
    Ok(Box::new(SwapUsage { percent }))
}

impl Beacon for SwapUsage {
    fn poll(&mut self, ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let swap = ask("ps.swap_memory", Vec::new())?;
        let used = swap.get("percent").and_then(Value::as_float);
        let used = used.ok_or("ps.swap_memory returned no percentage")?;
        Ok(match used >= self.percent {
            true => vec![Map::new().with("swapusage", used)],
            false => Vec::new(),
        })
    }
}
