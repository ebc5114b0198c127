//! Reports packages that were installed or removed, or that have an upgrade.

use modules::loader::call;
use value::{Map, Value};

use super::{Ask, Beacon, Settings};

struct Package {
    name: Value,
    last: Option<&'static str>,
}

struct Packages {
    all: Vec<Package>,
    refresh: bool,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let wrong = "Configuration for pkg beacon requires list of pkgs.";
    let lists = settings.list.iter().filter_map(|part| part.get("pkgs"));
    let lists: Vec<&[Value]> = lists.filter_map(Value::as_list).collect();
    if lists.is_empty() {
        return Err(wrong.to_owned());
    }
    let package = |name: &Value| Package {
        name: name.clone(),
        last: None,
    };
    Ok(Box::new(Packages {
        all: lists.into_iter().flatten().map(package).collect(),
        refresh: settings.get("refresh").is_some_and(Value::is_true),
    }))
}

/// Returns the version that a function of `pkg` answers, or `None` if the answer is empty.
fn version(ask: &Ask<'_>, function: &str, args: Vec<Value>) -> Result<Option<Value>, String> {
    Ok(Some(ask(function, args)?).filter(Value::is_true))
}

impl Beacon for Packages {
    fn poll(&mut self, ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let mut told = Vec::new();
        let refresh = Map::new().with("refresh", self.refresh);
        for package in &mut self.all {
            let name = package.name.clone();
            let installed = version(ask, "pkg.version", vec![name.clone()])?;
            let latest = match &installed {
                Some(_) => {
                    let args = call::joined(vec![name.clone()], refresh.clone());
                    version(ask, "pkg.latest_version", args)?
                }
                None => None,
            };
            let now = match (&installed, &latest) {
                (None, _) => "not-installed",
                (_, None) => "installed",
                _ => "upgrade",
            };
            // The first look only remembers the status.
            if package.last.replace(now).is_some_and(|last| last != now) {
                told.push(
                    Map::new()
                        .with("pkg", name)
                        .with("version", latest.or(installed))
                        .with("status", now),
                );
            }
        }
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_changes_is_told_and_the_first_look_remembers() {
        let said = value::json::read(r#"[{"pkgs": ["zsh"]}]"#).unwrap();
        let mut beacon = make(&Settings::read("pkg", &said).unwrap()).unwrap();
        let versions = Cell::new(("", ""));
        let ask = |function: &str, _args: Vec<Value>| match function {
            "pkg.version" => Ok(versions.get().0.into()),
            "pkg.latest_version" => Ok(versions.get().1.into()),
            other => Err(other.to_owned()),
        };
        let mut told = Vec::new();
        for now in [
            ("", ""),
            ("", ""),
            ("1", ""),
            ("1", "2"),
            ("1", "2"),
            ("", ""),
        ] {
            versions.set(now);
            for event in beacon.poll(&ask).unwrap() {
                told.push(value::json::write(&event.into(), Default::default()));
            }
        }
        let expected = [
            r#"{"pkg": "zsh", "version": "1", "status": "installed"}"#,
            r#"{"pkg": "zsh", "version": "2", "status": "upgrade"}"#,
            r#"{"pkg": "zsh", "version": null, "status": "not-installed"}"#,
        ];
        assert_eq!(told, expected);
    }
}
