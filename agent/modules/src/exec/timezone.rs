//! The `timezone` execution module.

use std::path::Path;

use machine::fs;
use machine::process::{Output, Process, which};
use machine::systemd::booted;
use python::text;
use state::exec::Exec;
use state::module::Error;
use value::pyre::{Flags, Regex};
use value::{Map, Value};

const LOCALTIME: &str = "/etc/localtime";
const ZONES: &str = "/usr/share/zoneinfo";

state::exec_module! {
    /// Manage the time zone of this machine and of its hardware clock.
    mod timezone;

    /// Return the name of the time zone.
    ///
    ///     salt-call timezone.get_zone
    fn get_zone(GetZone {});

    /// Return the abbreviation of the time zone, such as CET.
    ///
    ///     salt-call timezone.get_zonecode
    fn get_zonecode(GetZonecode {});

    /// Return the offset of the time zone from UTC, such as +0100.
    ///
    ///     salt-call timezone.get_offset
    fn get_offset(GetOffset {});

    /// Set the time zone.
    ///
    ///     salt-call timezone.set_zone Europe/Berlin
    fn set_zone(SetZone {
        /// The name of the time zone, such as Europe/Berlin.
        timezone: String,
    });

    /// Return True when the machine has this time zone.
    ///
    ///     salt-call timezone.zone_compare Europe/Berlin
    fn zone_compare(ZoneCompare {
        /// The name of the time zone, such as Europe/Berlin.
        timezone: String,
    });

    /// Return the time that the hardware clock keeps: UTC, LOCAL or localtime.
    ///
    ///     salt-call timezone.get_hwclock
    fn get_hwclock(GetHwclock {});

    /// Set the time that the hardware clock keeps.
    ///
    ///     salt-call timezone.set_hwclock UTC
    fn set_hwclock(SetHwclock {
        /// The time: UTC or localtime.
        clock: String,
    });
}

/// Returns the path of `timedatectl`, which only works if systemd runs.
fn timedatectl() -> Option<String> {
    which("timedatectl").filter(|_| booted())
}

fn run_timedatectl(cx: &Exec, timedatectl: String) -> Result<Output, Error> {
    let out = Process::words([timedatectl]).run(cx)?;
    if out.success() {
        return Ok(out);
    }
    Err(Error::refused(format!(
        "timedatectl failed: {}",
        out.stderr
    )))
}

fn unparsed(out: &Output) -> Error {
    Error::refused(format!(
        "Failed to parse timedatectl output: {}",
        out.stdout_regardless()
    ))
}

fn family(cx: &Exec) -> String {
    let grains = cx.grains();
    grains
        .get("os_family")
        .map(Value::to_text)
        .unwrap_or_default()
}

fn read(path: &str) -> Result<String, Error> {
    let bytes = fs::raw::read(path).map_err(|error| {
        let why = error.to_string();
        let why = why.split(" (os error").next().unwrap_or_default();
        Error::refused(format!("Problem reading timezone file {path}: {why}"))
    })?;
    Ok(text::decoded(&bytes))
}

fn zone(cx: &Exec) -> Result<String, Error> {
    if let Some(timedatectl) = timedatectl() {
        let out = run_timedatectl(cx, timedatectl)?;
        let pattern = Regex::new(r"^Time ?zone:\s+\S", Flags::default())?;
        for line in out.stdout_regardless().lines().map(str::trim) {
            if pattern.is_match(line)? {
                let (_, zone) = line.split_once(':').unwrap_or_default();
                return Ok(zone
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned());
            }
        }
        return Err(unparsed(&out));
    }
    match family(cx).as_str() {
        "RedHat" | "Suse" => {
            let path = "/etc/sysconfig/clock";
            let clock = read(path)?;
            let mut lines = clock.lines().filter(|line| !line.trim().starts_with('#'));
            let line = lines.find(|line| line.contains("ZONE") && line.contains('='));
            let zone = line.and_then(|line| line.rsplit('=').next());
            let zone =
                zone.ok_or_else(|| Error::refused(format!("Unable to get timezone from {path}")))?;
            Ok(match zone.trim_matches(['\'', '"']) {
                "" => "UTC".to_owned(),
                zone => zone.to_owned(),
            })
        }
        "Debian" | "Gentoo" => Ok(read("/etc/timezone")?.trim().to_owned()),
        "NILinuxRT" | "Slackware" => linked_zone(),
        _ => Err("Unable to get timezone".into()),
    }
}

/// Returns the time zone that the link `/etc/localtime` refers to.
fn linked_zone() -> Result<String, Error> {
    let target = Path::new(LOCALTIME)
        .canonicalize()
        .map_err(Error::io(LOCALTIME))?;
    let zone = target.strip_prefix(ZONES);
    let zone = zone.map_err(|_| Error::refused("Unable to determine timezone".into()))?;
    Ok(zone.display().to_string())
}

/// Returns an error for a name that would lead outside the folder of time zones.
fn check_name(zone: &str) -> Result<(), Error> {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with(['.', '-']);
    if zone.split('/').all(is_plain) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "Can't find a local timezone \"{zone}\""
    )))
}

fn get_zone(cx: &Exec, _args: GetZone) -> Result<Value, Error> {
    zone(cx).map(Value::from)
}

fn date(cx: &Exec, format: &str) -> Result<Value, Error> {
    let output = Process::words(["date", format]).run(cx)?;
    Ok(output.stdout_of_success("date")?.into())
}

fn get_zonecode(cx: &Exec, _args: GetZonecode) -> Result<Value, Error> {
    date(cx, "+%Z")
}

fn get_offset(cx: &Exec, _args: GetOffset) -> Result<Value, Error> {
    date(cx, "+%z")
}

fn link(cx: &Exec, zone: &str) -> Result<(), Error> {
    let path = Path::new(ZONES).join(zone);
    if !path.exists() {
        return Err(Error::refused(format!(
            "Zone does not exist: {}",
            path.display()
        )));
    }
    fs::replace_with_symlink(cx, &path, Path::new(LOCALTIME)).map_err(Error::io(LOCALTIME))
}

/// Replaces the lines of a configuration file that match a pattern by `line`, if the file exists.
fn edit(cx: &Exec, file: &str, pattern: &str, line: &str) -> Result<(), Error> {
    if Path::new(file).exists() {
        let given = [file, pattern, line].map(Value::from);
        cx.call_internal("file.sed", given.into(), Map::new())?;
    }
    Ok(())
}

/// Updates the file in which Red Hat and SUSE store the time zone in addition to the link.
fn edit_clock(cx: &Exec, zone: &str) -> Result<(), Error> {
    let key = match family(cx).as_str() {
        "RedHat" => "ZONE",
        "Suse" => "TIMEZONE",
        _ => return Ok(()),
    };
    let line = format!("{key}=\"{zone}\"");
    edit(cx, "/etc/sysconfig/clock", &format!("^{key}=.*"), &line)
}

fn set_zone(cx: &Exec, args: SetZone) -> Result<Value, Error> {
    let zone = args.timezone.trim();
    check_name(zone)?;
    if let Some(timedatectl) = timedatectl() {
        // The code below makes the changes that this command does not make.
        Process::words([&timedatectl, "set-timezone", zone]).run(cx)?;
    }
    link(cx, zone)?;
    edit_clock(cx, zone)?;
    if matches!(family(cx).as_str(), "Debian" | "Gentoo") {
        let contents = format!("{zone}\n");
        let path = Path::new("/etc/timezone");
        fs::write(cx, path, contents.as_bytes(), fs::Owner::default())?;
    }
    Ok(true.into())
}

fn zone_compare(cx: &Exec, args: ZoneCompare) -> Result<Value, Error> {
    let wanted = &args.timezone;
    match zone(cx) {
        Ok(zone) => return Ok((zone == *wanted).into()),
        Err(error) if error.is_of_command() => {}
        Err(error) => return Err(error),
    }
    check_name(wanted)?;
    let now = fs::read(LOCALTIME).map_err(|_| {
        Error::refused(format!(
            "Failed to read {LOCALTIME} to determine current timezone: No such file or directory"
        ))
    })?;
    let zone = fs::read(Path::new(ZONES).join(wanted))
        .map_err(|_| Error::refused(format!("Can't find a local timezone \"{wanted}\"")))?;
    Ok((now == zone).into())
}

/// Returns the last line of `/etc/adjtime`. Without that file a hardware clock is assumed to be in
/// UTC.
fn adjtime() -> Result<Value, Error> {
    Ok(match fs::text_or_none("/etc/adjtime")? {
        Some(text) => text.lines().last().unwrap_or_default().into(),
        None if Path::new("/dev/rtc").exists() => "UTC".into(),
        None => Value::Null,
    })
}

/// Returns the value in the first line of a file that contains a key.
fn setting(path: &str, key: &str) -> Result<Option<String>, Error> {
    let text = fs::text_or_none(path)?;
    Ok(text.and_then(|text| value_in(&text, key)))
}

fn value_in(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines().filter(|line| !line.trim().starts_with('#'));
    let value = lines.find(|line| line.contains(key))?.rsplit('=').next()?;
    Some(value.trim_matches(['\'', '"']).to_owned())
}

fn get_hwclock(cx: &Exec, _args: GetHwclock) -> Result<Value, Error> {
    if let Some(timedatectl) = timedatectl() {
        let out = run_timedatectl(cx, timedatectl)?;
        let lines = out.stdout_regardless().lines().map(str::to_lowercase);
        let line = lines
            .into_iter()
            .find(|line| line.contains("rtc in local tz"));
        let line = line.ok_or_else(|| unparsed(&out))?;
        let is_local = line
            .rsplit(':')
            .next()
            .is_some_and(|word| word.trim() == "yes");
        return Ok(if is_local { "localtime" } else { "UTC" }.into());
    }
    let said = match family(cx).as_str() {
        "Debian" => setting("/etc/default/rcS", "UTC=")?.map(|utc| {
            if utc.eq_ignore_ascii_case("yes") {
                "UTC"
            } else {
                "localtime"
            }
        }),
        "Gentoo" if !Path::new("/etc/adjtime").exists() => {
            setting("/etc/conf.d/hwclock", "clock=")?
                .map(|clock| if clock == "UTC" { "UTC" } else { "LOCAL" })
        }
        _ => None,
    };
    said.map_or_else(adjtime, |said| Ok(said.into()))
}

fn set_hwclock(cx: &Exec, args: SetHwclock) -> Result<Value, Error> {
    let is_local = args.clock == "localtime";
    if let Some(timedatectl) = timedatectl() {
        let local = if is_local { "true" } else { "false" };
        let words = [timedatectl.as_str(), "set-local-rtc", local];
        return Ok(Process::words(words).run(cx)?.success().into());
    }
    if !is_local && args.clock != "UTC" {
        return Err("Only 'UTC' and 'localtime' are allowed".into());
    }
    let zone = zone(cx)?;
    check_name(&zone)?;
    link(cx, &zone)?;
    edit_clock(cx, &zone)?;
    match family(cx).as_str() {
        "Debian" => {
            let line = if is_local { "UTC=no" } else { "UTC=yes" };
            edit(cx, "/etc/default/rcS", "^UTC=.*", line)?;
        }
        "Gentoo" => {
            let line = if is_local {
                "clock=\"local\""
            } else {
                "clock=\"UTC\""
            };
            edit(cx, "/etc/conf.d/hwclock", "^clock=.*", line)?;
        }
        _ => {}
    }
    Ok(true.into())
}
