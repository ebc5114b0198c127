//! Reports disks whose usage has reached a percentage. Their mount points are given as regular
//! expressions.

use value::pyre::{Flags, Regex};
use value::{Map, Value};

use super::{Ask, Beacon, Settings, number};

struct DiskUsage {
    mounts: Vec<(Regex, f64)>,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let mut mounts = Vec::new();
    for (mount, percent) in settings.own().filter_map(Map::first) {
        let mount = mount.to_text();
        let end = if mount.ends_with('$') { "" } else { "$" };
        let regex = Regex::new(&format!("\\A(?:{mount}{end})"), Flags::default());
        let regex = regex.map_err(|error| format!("{mount}: {error}"))?;
        let percent = number(percent);
        let percent =
            percent.ok_or_else(|| format!("The usage of {mount} must be a percentage."))?;
        mounts.push((regex, percent));
    }
    Ok(Box::new(DiskUsage { mounts }))
}

impl Beacon for DiskUsage {
    fn poll(&mut self, ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let active = ask("mount.active", Vec::new())?;
        let places: Vec<String> = active
            .as_map()
            .into_iter()
            .flat_map(Map::keys)
            .map(Value::to_text)
            .collect();
        let mut told = Vec::new();
        for (regex, percent) in &self.mounts {
            for place in places
                .iter()
                .filter(|place| regex.is_match(place).unwrap_or(false))
            {
                // A mount point whose usage cannot be read is left out.
                let Ok(usage) = ask("ps.disk_usage", vec![place.as_str().into()]) else {
                    continue;
                };
                let used = usage
                    .get("percent")
                    .and_then(Value::as_float)
                    .unwrap_or(0.0);
                if used >= *percent {
                    told.push(
                        Map::new()
                            .with("diskusage", used)
                            .with("mount", place.as_str()),
                    );
                }
            }
        }
        Ok(told)
    }
}
