//! The client: runs docker or podman, and converts the answers of podman into docker's format.

use std::net::Ipv4Addr;
use std::path::Path;

use machine::process::{Output, Process, which};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json};

use super::networks;
use crate::exec::config;

/// The default timeout of a request, in seconds.
pub(crate) const CLIENT_SECONDS: i64 = 60;

/// The maximum duration of a transfer, a build or a wait for a container, in seconds.
pub(crate) const WORK_SECONDS_MAX: i64 = 24 * 3600;

/// The prefixes of the annotations that podman itself adds to a container. They contain times and
/// other values that differ between any two containers.
const OWN_ANNOTATIONS: [&str; 4] = [
    "io.container.",
    "io.kubernetes.",
    "io.podman.",
    "org.opencontainers.image.stopSignal",
];

/// A kind of object that can be inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A container.
    Container,
    /// An image.
    Image,
    /// A network.
    Network,
    /// A volume.
    Volume,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Image => "image",
            Self::Network => "network",
            Self::Volume => "volume",
        }
    }

    /// Reports whether an error message means that the object does not exist, rather than that the
    /// lookup failed.
    fn is_absent(self, error: &str) -> bool {
        let (error, word) = (error.to_lowercase(), self.word());
        [
            "no such object",
            &format!("no such {word}"),
            &format!("{word} not found"),
        ]
        .iter()
        .any(|text| error.contains(text))
            || (self == Self::Image && error.contains("image not known"))
            || (self == Self::Network
                && error.contains("network ")
                && error.ends_with(" not found"))
    }
}

/// Returns the path of the program to use: the one of the option `docker.program`, else docker,
/// else podman.
///
/// # Errors
/// When the program is not installed.
pub(crate) fn program(cx: &Exec) -> Result<String, Error> {
    let chosen = config::found(cx, "docker.program")?;
    if chosen.is_true() {
        let chosen = chosen.to_text();
        return which(&chosen).ok_or_else(|| {
            Error::refused(format!(
                "the program {chosen} set in docker.program is not in the path"
            ))
        });
    }
    let found = which("docker").or_else(|| which("podman"));
    found.ok_or_else(|| "neither docker nor podman is in the path".into())
}

/// The program, with the first words of its command line and the timeout of a request.
pub(crate) struct Client<'a> {
    pub(crate) cx: &'a Exec,
    first: Vec<String>,
    /// True if the program is podman.
    pub(crate) podman: bool,
    /// The timeout of a request, in seconds.
    seconds: i64,
}

impl<'a> Client<'a> {
    /// Returns a client for the installed program.
    ///
    /// # Errors
    /// When no program is installed.
    pub(crate) fn detect(cx: &'a Exec) -> Result<Self, Error> {
        let program = program(cx)?;
        let podman = is_podman(cx, &program)?;
        let url = config::found(cx, "docker.url")?;
        let mut first = vec![program];
        if url.is_true() {
            let option = if podman { "--url" } else { "--host" };
            first.push(format!("{option}={}", url.to_text()));
        }
        Ok(Self {
            cx,
            first,
            podman,
            seconds: CLIENT_SECONDS,
        })
    }

    /// Returns the client with another timeout, in seconds.
    pub(crate) fn patient(self, seconds: i64) -> Self {
        Self { seconds, ..self }
    }

    /// Returns a command. The names follow a `--`, so the program cannot read them as options.
    pub(crate) fn command<S: Into<String>>(
        &self,
        words: &[&str],
        options: impl IntoIterator<Item = S>,
        names: &[&str],
    ) -> Process {
        let mut all = self.first.clone();
        all.extend(words.iter().map(|word| (*word).to_owned()));
        all.extend(options.into_iter().map(Into::into));
        if !names.is_empty() {
            all.push("--".into());
            all.extend(names.iter().map(|name| (*name).to_owned()));
        }
        Process {
            timeout: Some(self.seconds.into()),
            stdin: Some(String::new()),
            ..Process::words(all).quiet()
        }
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When the command takes longer than the timeout.
    pub(crate) fn run(&self, process: &Process, what: &str) -> Result<Output, Error> {
        let output = process.run(self.cx)?;
        if output.timed_out {
            let seconds = process.timeout.as_ref().map(Value::to_text);
            return Err(Error::refused(format!(
                "{} {what} did not finish in {} seconds; its result is unknown",
                self.name(),
                seconds.unwrap_or_default()
            )));
        }
        Ok(output)
    }

    fn name(&self) -> &'static str {
        if self.podman { "podman" } else { "docker" }
    }

    /// Runs a command, and returns its standard output.
    ///
    /// # Errors
    /// The message of the program when it fails.
    pub(crate) fn tell(
        &self,
        words: &[&str],
        options: &[String],
        names: &[&str],
    ) -> Result<String, Error> {
        let process = self.command(words, options.iter(), names);
        let output = self.run(&process, &words.join(" "))?;
        output
            .into_success()
            .map_err(|failed| program_error(&failed))
    }

    /// Returns the details of an object in docker's format, or `None` if the object does not exist.
    ///
    /// # Errors
    /// When the program fails.
    pub(crate) fn found(&self, kind: Kind, name: &str) -> Result<Option<Map>, Error> {
        let words = [kind.word(), "inspect"];
        let process = self.command(&words, [""; 0], &[name]);
        let output = self.run(&process, &words.join(" "))?;
        if output.success() {
            let found = self
                .read(kind, output.stdout_regardless())?
                .into_iter()
                .next();
            return found.map(|found| self.completed(kind, found)).transpose();
        }
        match program_error(&output) {
            error if kind.is_absent(&error.to_string()) => Ok(None),
            error => Err(error),
        }
    }

    /// Adds the containers to a network. Older versions of podman do not list them.
    fn completed(&self, kind: Kind, found: Map) -> Result<Map, Error> {
        if kind != Kind::Network || found.contains("Containers") {
            return Ok(found);
        }
        let name = found.get("Name").map(Value::to_text).unwrap_or_default();
        let containers = networks::containers(self, &name)?;
        Ok(found.with("Containers", containers))
    }

    /// Like [`Self::found`], but the object must exist.
    ///
    /// # Errors
    /// Salt's error, with the status code of docker's API, when the object does not exist.
    pub(crate) fn inspect(&self, kind: Kind, name: &str) -> Result<Map, Error> {
        let found = self.found(kind, name)?;
        found.ok_or_else(|| format!("Error 404: No such {}: {name}", kind.word()).into())
    }

    /// Returns all objects of a kind, in docker's format.
    ///
    /// # Errors
    /// When the program fails.
    pub(crate) fn all(&self, kind: Kind, list: &[&str]) -> Result<Vec<Map>, Error> {
        let ids = self.tell(list, &[], &[])?;
        let mut names: Vec<&str> = ids.lines().map(str::trim).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let said = self.command(&[kind.word(), "inspect"], [""; 0], &names);
        let output = self.run(&said, "inspect")?;
        // The command fails if an object was removed in the meantime. It still prints the other
        // objects.
        let all = self.read(kind, output.stdout_regardless());
        match output.success() || kind.is_absent(&program_error(&output).to_string()) {
            true => all,
            false => Err(program_error(&output)),
        }
    }

    fn read(&self, kind: Kind, output: &str) -> Result<Vec<Map>, Error> {
        let all = read(output)?;
        let all = all.as_list().unwrap_or_default().iter();
        let all = all.filter_map(Value::as_map).cloned();
        Ok(all.map(|one| self.in_dockers_form(kind, one)).collect())
    }

    fn in_dockers_form(&self, kind: Kind, mut one: Map) -> Map {
        if !self.podman {
            return one;
        }
        match kind {
            Kind::Container => {
                digest(&mut one, "Image");
                let name = one.get("Name").map(Value::to_text).unwrap_or_default();
                one.insert("Name", format!("/{name}"));
                let annotations = one.get_mut("Config").and_then(Value::as_map_mut);
                let annotations = annotations.and_then(|config| config.get_mut("Annotations"));
                if let Some(annotations) = annotations.and_then(Value::as_map_mut) {
                    annotations.retain(|key, _| {
                        let key = key.to_text();
                        !OWN_ANNOTATIONS.iter().any(|own| key.starts_with(own))
                    });
                }
                one
            }
            Kind::Image => {
                digest(&mut one, "Id");
                one
            }
            Kind::Network => network(&one),
            Kind::Volume => one,
        }
    }
}

/// Reports whether a program is podman. Its name does not decide: Debian's package podman-docker
/// installs podman as `docker`.
fn is_podman(cx: &Exec, program: &str) -> Result<bool, Error> {
    const KEY: &str = "docker.is_podman";
    let known = cx.context(|context| context.get(KEY).and_then(|all| all.get(program)?.as_bool()));
    if let Some(known) = known {
        return Ok(known);
    }
    let ask = Process {
        timeout: Some(CLIENT_SECONDS.into()),
        ..Process::words([program, "--version"]).quiet()
    };
    let said = ask.run(cx)?;
    let podman = match said.success() {
        true => said.stdout_regardless().to_lowercase().contains("podman"),
        false => Path::new(program).ends_with("podman"),
    };
    cx.context(|context| {
        let all = context.entry(KEY, || Map::new().into());
        if let Some(all) = all.as_map_mut() {
            all.insert(program, podman);
        }
    });
    Ok(podman)
}

/// Parses the JSON output of the program.
///
/// # Errors
/// When the output is not JSON.
pub(crate) fn read(output: &str) -> Result<Value, Error> {
    json::read(output)
        .map_err(|why| Error::refused(format!("Cannot parse the output of the program: {why}")))
}

/// Returns the error message of the program, without the prefix that it puts in front of each
/// message.
pub(crate) fn program_error(output: &Output) -> Error {
    let said = match output.stderr.trim() {
        "" => output.stdout_regardless().trim(),
        said => said,
    };
    let mut said = said.strip_prefix("docker: ").unwrap_or(said);
    for first in ["Error response from daemon: ", "Error: "] {
        said = said.strip_prefix(first).unwrap_or(said);
    }
    match said {
        "" => {
            let code = output.retcode.unwrap_or_default();
            format!("The program exited with status {code} and no message").into()
        }
        said => said.into(),
    }
}

fn digest(one: &mut Map, key: &str) {
    if let Some(id) = one.get(key).and_then(Value::as_str)
        && !id.starts_with("sha256:")
    {
        let whole = format!("sha256:{id}");
        one.insert(key, whole);
    }
}

/// Returns a network of podman in docker's format.
fn network(one: &Map) -> Map {
    let get = |key: &str| one.get(key).cloned().unwrap_or_default();
    let truth = |key: &str| Value::Bool(get(key).is_true());
    let pools = get("subnets");
    let pools = pools.as_list().unwrap_or_default().iter();
    let pools = pools.filter_map(Value::as_map).map(|pool| {
        let mut told = Map::new();
        for (theirs, ours) in [("subnet", "Subnet"), ("gateway", "Gateway")] {
            if let Some(value) = pool.get(theirs).filter(|value| value.is_true()) {
                told.insert(ours, value.clone());
            }
        }
        if let Some(range) = pool.get("lease_range").and_then(range) {
            told.insert("IPRange", range);
        }
        Value::from(told)
    });
    let ipam = Map::new()
        .with("Driver", "default")
        .with("Options", Value::Null)
        .with("Config", Value::list(pools));
    let labels = one.get("labels").cloned();
    let options = one.get("options").cloned();
    Map::new()
        .with("Name", get("name"))
        .with("Id", get("id"))
        .with("Created", get("created"))
        .with("Driver", get("driver"))
        .with("EnableIPv6", truth("ipv6_enabled"))
        .with("IPAM", ipam)
        .with("Internal", truth("internal"))
        .with("Options", options.unwrap_or_else(|| Map::new().into()))
        .with("Labels", labels.unwrap_or_else(|| Map::new().into()))
}

/// Returns the smallest network that contains both ends of a range.
fn range(range: &Value) -> Option<String> {
    let end = |key: &str| range.get(key)?.as_str()?.parse::<Ipv4Addr>().ok();
    let (start, end) = (end("start_ip")?.to_bits(), end("end_ip")?.to_bits());
    let length = (start ^ end).leading_zeros();
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    Some(format!("{}/{length}", Ipv4Addr::from_bits(start & mask)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    #[test]
    fn what_is_not_there_is_told_from_what_could_not_be_asked() {
        for (kind, said) in [
            (Kind::Container, "No such container: x"),
            (Kind::Container, "inspecting object: no such container x"),
            (Kind::Image, "inspecting object: x: image not known"),
            (Kind::Network, "network x not found"),
            (
                Kind::Network,
                "network x: unable to find network with name or ID x: network not found",
            ),
            (Kind::Volume, "get x: no such volume"),
        ] {
            assert!(kind.is_absent(said), "{said}");
        }
        let down = "dial unix /run/docker.sock: connect: no such file or directory";
        let all = [Kind::Container, Kind::Image, Kind::Network, Kind::Volume];
        assert!(all.iter().all(|kind| !kind.is_absent(down)));
    }

    #[test]
    fn a_network_of_podmans_has_dockers_form() {
        let told = network(&json(
            r#"{"name": "n", "id": "1", "driver": "bridge", "subnets": [{"subnet": "10.9.0.0/24", "gateway": "10.9.0.1",
                "lease_range": {"start_ip": "10.9.0.129", "end_ip": "10.9.0.254"}}], "internal": true, "ipv6_enabled": false}"#,
        ));
        let pool = told
            .get("IPAM")
            .and_then(|ipam| ipam.get("Config")?.as_list()?.first().cloned());
        let wanted =
            json(r#"{"Subnet": "10.9.0.0/24", "Gateway": "10.9.0.1", "IPRange": "10.9.0.128/25"}"#);
        assert_eq!(pool, Some(wanted.into()));
        assert_eq!(told.get("Internal"), Some(&Value::Bool(true)));
    }
}
