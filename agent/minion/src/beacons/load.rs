//! Reports the load averages when they are outside the configured limits.

use value::{Map, Value};

use super::{Ask, Beacon, Settings, number};

const NAMES: [&str; 3] = ["1m", "5m", "15m"];

struct Load {
    /// The lowest and the highest wanted value of each configured average.
    wanted: [Option<(f64, f64)>; 3],
    onchangeonly: bool,
    emitatstartup: bool,
    last: Option<[f64; 3]>,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let onchangeonly = settings.flag("load", "onchangeonly", false)?;
    let emitatstartup = settings.flag("load", "emitatstartup", true)?;
    let averages = settings
        .get("averages")
        .ok_or("Averages configuration is required for load beacon.")?;
    if !NAMES.iter().any(|name| averages.get(name).is_some()) {
        return Err(
            "Averages configuration for load beacon must contain 1m, 5m or 15m items.".to_owned(),
        );
    }
    let mut wanted = [None; 3];
    for (name, wanted) in NAMES.iter().zip(&mut wanted) {
        if let Some(pair) = averages.get(name) {
            let read = match pair.as_list() {
                Some([low, high]) => number(low).zip(number(high)),
                _ => None,
            };
            let read = read.ok_or(
                "Configuration for load beacon: 1m, 5m and 15m items must be a list of two items.",
            )?;
            *wanted = Some(read);
        }
    }
    Ok(Box::new(Load {
        wanted,
        onchangeonly,
        emitatstartup,
        last: None,
    }))
}

impl Load {
    /// Returns true if these averages are to be reported.
    fn tells(&mut self, now: [f64; 3]) -> bool {
        if !self.onchangeonly {
            let outside = |(now, wanted): (f64, Option<(f64, f64)>)| {
                wanted.is_some_and(|(low, high)| now < low || now > high)
            };
            return now.into_iter().zip(self.wanted).any(outside);
        }
        let first = self.last.is_none();
        let last = self.last.replace(now).unwrap_or(now);
        if first && !self.emitatstartup {
            return false;
        }
        let mut all = now.into_iter().zip(last).zip(self.wanted);
        all.any(|((now, last), wanted)| {
            wanted.is_some_and(|(low, high)| now > high && last < high || now < low && last > low)
        })
    }
}

impl Beacon for Load {
    fn poll(&mut self, _ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let text = std::fs::read_to_string("/proc/loadavg").map_err(|error| error.to_string())?;
        let mut words = text
            .split_whitespace()
            .map(|word| word.parse::<f64>().unwrap_or(0.0));
        let now = [(); 3].map(|()| words.next().unwrap_or(0.0));
        if !self.tells(now) {
            return Ok(Vec::new());
        }
        let told = NAMES.into_iter().zip(now);
        Ok(vec![
            told.map(|(name, value)| (Value::from(name), Value::from(value)))
                .collect(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(onchangeonly: bool, emitatstartup: bool) -> Load {
        let wanted = [Some((0.1, 2.0)), None, None];
        Load {
            wanted,
            onchangeonly,
            emitatstartup,
            last: None,
        }
    }

    #[test]
    fn what_is_outside_is_told_each_time_or_when_it_goes_out() {
        let told = |mut load: Load, values: &[f64]| -> Vec<bool> {
            values
                .iter()
                .map(|value| load.tells([*value, 9.0, 9.0]))
                .collect()
        };
        let values = [3.0, 3.0, 1.0, 3.0, 0.0, 0.0];
        assert_eq!(
            told(load(false, true), &values),
            [true, true, false, true, true, true]
        );
        assert_eq!(
            told(load(true, true), &values),
            [false, false, false, true, true, false]
        );
        assert_eq!(
            told(load(true, false), &values),
            [false, false, false, true, true, false]
        );
    }
}
