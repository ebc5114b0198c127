//! Reports network interfaces with a counter that equals or exceeds its configured value.

use value::{Map, Value};

use super::{Ask, Beacon, Settings};

/// The counters, and their columns in the kernel's table.
const COUNTERS: [(&str, usize); 8] = [
    ("bytes_sent", 8),
    ("bytes_recv", 0),
    ("packets_sent", 9),
    ("packets_recv", 1),
    ("errin", 2),
    ("errout", 10),
    ("dropin", 3),
    ("dropout", 11),
];

const TABLE: &str = "/proc/net/dev";

struct Interface {
    name: String,
    /// True if a counter must exceed the configured value, false if it must equal it.
    is_greater: bool,
    /// The configured values, in the order of [`COUNTERS`].
    wanted: [Option<i64>; 8],
}

struct NetworkInfo(Vec<Interface>);

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let interfaces = settings.get("interfaces").and_then(Value::as_map);
    let interfaces = interfaces.into_iter().flat_map(Map::iter);
    let read = interfaces.map(|(name, said)| Interface::read(&name.to_text(), said));
    Ok(Box::new(NetworkInfo(read.collect::<Result<_, _>>()?)))
}

impl Interface {
    fn read(name: &str, said: &Value) -> Result<Self, String> {
        let said = said
            .as_map()
            .ok_or("Configuration for network_info beacon must be a list of dictionaries.")?;
        let known = |key: &Value| {
            let key = key.to_text();
            key == "type" || COUNTERS.iter().any(|(counter, _)| *counter == key)
        };
        if !said.keys().any(known) {
            return Err("Invalid configuration item in Beacon configuration.".to_owned());
        }
        let mut wanted = [None; 8];
        for ((counter, _), wanted) in COUNTERS.iter().zip(&mut wanted) {
            if let Some(value) = said.get(counter) {
                let number = value.to_text().trim().parse();
                let number = number.map_err(|_| {
                    format!("The {counter} of {name} for network_info beacon must be a number.")
                })?;
                *wanted = Some(number);
            }
        }
        Ok(Self {
            name: name.to_owned(),
            is_greater: said.get("type").and_then(Value::as_str) == Some("greater"),
            wanted,
        })
    }

    fn tells(&self, now: &[i64; 8]) -> bool {
        let mut both = now.iter().zip(self.wanted);
        both.any(|(now, wanted)| {
            wanted.is_some_and(|wanted| match self.is_greater {
                true => *now > wanted,
                false => *now == wanted,
            })
        })
    }
}

/// Returns the counters of an interface from the kernel's table.
fn counted(table: &str, name: &str) -> Option<[i64; 8]> {
    let columns = table.lines().find_map(|line| {
        let (interface, columns) = line.rsplit_once(':')?;
        (interface.trim() == name).then_some(columns)
    })?;
    let columns: Vec<i64> = columns
        .split_whitespace()
        .map(|column| column.parse().unwrap_or(0))
        .collect();
    let of = |(_, column): (&str, usize)| columns.get(column).copied().unwrap_or(0);
    Some(COUNTERS.map(of))
}

fn events(interfaces: &[Interface], table: &str) -> Vec<Map> {
    let mut told = Vec::new();
    for interface in interfaces {
        let Some(now) = counted(table, &interface.name).filter(|now| interface.tells(now)) else {
            continue;
        };
        let named = COUNTERS.into_iter().zip(now);
        let info: Map = named
            .map(|((counter, _), now)| (Value::from(counter), Value::from(now)))
            .collect();
        told.push(
            Map::new()
                .with("interface", interface.name.as_str())
                .with("network_info", info),
        );
    }
    told
}

impl Beacon for NetworkInfo {
    fn poll(&mut self, _ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let table = std::fs::read_to_string(TABLE);
        let table = table.map_err(|error| format!("{TABLE}: {error}"))?;
        Ok(events(&self.0, &table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the events of Salt's beacon for the same table.
    #[test]
    fn counters_are_told_as_salt_tells_them() {
        let corpus = super::super::tests::corpus("network_info.json");
        let table = corpus.get("table").and_then(Value::as_str).unwrap();
        let cases = corpus.get("cases").and_then(Value::as_list).unwrap();
        assert!(cases.len() > 5);
        for case in cases {
            let said = case.get("interfaces").and_then(Value::as_map).unwrap();
            let read = said
                .iter()
                .map(|(name, said)| Interface::read(&name.to_text(), said).unwrap());
            let found = events(&read.collect::<Vec<_>>(), table);
            let found = Value::list(found.into_iter().map(Value::from));
            assert_eq!(Some(&found), case.get("events"), "{said:?}");
        }
    }
}
