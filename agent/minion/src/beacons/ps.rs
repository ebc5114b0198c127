//! Reports whether processes run, by their names.

use std::fs;

use machine::procfs;
use value::{Map, Value};

use super::{Ask, Beacon, Settings};

struct Ps {
    processes: Map,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let processes = settings
        .get("processes")
        .ok_or("Configuration for ps beacon requires processes.")?;
    let processes = processes
        .as_map()
        .ok_or("Processes for ps beacon must be a dictionary.")?;
    Ok(Box::new(Ps {
        processes: processes.clone(),
    }))
}

/// The length at which the kernel cuts the name of a process. The full name is in its command line.
const NAME_MAX: usize = 15;

/// Returns the names of the running processes.
fn names() -> Result<Vec<String>, String> {
    let entries = fs::read_dir("/proc").map_err(|error| error.to_string())?;
    let pids = entries.flatten().map(|entry| entry.path());
    // A process without a name has ended meanwhile.
    let named = pids.filter_map(|path| {
        let name = procfs::text_or_none(path.join("comm"))?;
        let name = name.trim_end_matches('\n').to_owned();
        if name.len() < NAME_MAX {
            return Some(name);
        }
        let line = procfs::bytes(path.join("cmdline"));
        let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let first = String::from_utf8_lossy(first);
        let whole = first.rsplit('/').next().unwrap_or_default();
        Some(if whole.starts_with(&name) {
            whole.to_owned()
        } else {
            name
        })
    });
    Ok(named.collect())
}

impl Beacon for Ps {
    fn poll(&mut self, _ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let names = names()?;
        let mut told = Vec::new();
        for (process, wanted) in self.processes.iter() {
            let runs = names.contains(&process.to_text());
            let tell: Value = match (wanted.as_str(), runs) {
                (Some("running"), true) => "Running".into(),
                (Some("stopped"), false) => "Stopped".into(),
                (Some("running" | "stopped"), _) | (_, true) => continue,
                (_, false) => false.into(),
            };
            let mut data = Map::new();
            data.insert(process.clone(), tell);
            told.push(data);
        }
        Ok(told)
    }
}
