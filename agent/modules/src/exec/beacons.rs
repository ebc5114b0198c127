//! The `beacons` execution module. The running daemon holds the beacons; changes last until it
//! ends. `save` writes them to `minion.d/beacons.conf`.

use std::path::PathBuf;

use machine::fs;
use python::difflib;
use render::yaml::{self, Dump};
use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Manage the beacons of a running minion, which watch the machine and send events.
    mod beacons;

    /// Return the beacons.
    ///
    ///     salt-call beacons.list
    fn list(List {
        /// True to return YAML text instead of data.
        return_yaml: bool = true,
        /// True to include the beacons of the pillar.
        include_pillar: bool = true,
        /// True to include the beacons of the configuration.
        include_opts: bool = true,
        ..kwargs
    });

    /// Return the available kinds of beacons.
    ///
    ///     salt-call beacons.list_available
    fn list_available(ListAvailable {
        /// True to return YAML text instead of data.
        return_yaml: bool = true,
        ..kwargs
    });

    /// Add a beacon.
    ///
    ///     salt-call beacons.add load '[{averages: {1m: [0.0, 4.0]}}]'
    fn add(Add {
        /// The name of the beacon.
        name: String,
        /// The settings of the beacon.
        beacon_data: Value,
        ..kwargs
    });

    /// Change a beacon.
    ///
    ///     salt-call beacons.modify load '[{averages: {1m: [0.0, 8.0]}}]'
    fn modify(Modify {
        /// The name of the beacon.
        name: String,
        /// The settings of the beacon.
        beacon_data: Value,
        ..kwargs
    });

    /// Remove a beacon.
    ///
    ///     salt-call beacons.delete load
    fn delete(Delete {
        /// The name of the beacon.
        name: String,
        ..kwargs
    });

    /// Write the beacons to the configuration file.
    ///
    ///     salt-call beacons.save
    fn save(Save {..kwargs});

    /// Enable all beacons.
    ///
    ///     salt-call beacons.enable
    fn enable(Enable {..kwargs});

    /// Disable all beacons.
    ///
    ///     salt-call beacons.disable
    fn disable(Disable {..kwargs});

    /// Enable a beacon.
    ///
    ///     salt-call beacons.enable_beacon load
    fn enable_beacon(EnableBeacon {
        /// The name of the beacon.
        name: String,
        ..kwargs
    });

    /// Disable a beacon.
    ///
    ///     salt-call beacons.disable_beacon load
    fn disable_beacon(DisableBeacon {
        /// The name of the beacon.
        name: String,
        ..kwargs
    });

    /// Remove all configured beacons.
    ///
    ///     salt-call beacons.reset
    fn reset(Reset {..kwargs});
}

/// Sends a request about beacons to the daemon, and returns its answer.
fn send_to_minion(
    cx: &Exec,
    fun: &'static str,
    name: Option<&str>,
    data: Option<&Value>,
) -> Result<Map, Error> {
    let ask = Ask::Beacons {
        fun,
        name: name.map(str::to_owned),
        data: data.cloned(),
    };
    match cx.ask(ask)? {
        Some(Value::Map(answer)) => Ok(answer),
        _ => Err(Error::refused(
            "Beacon functions need a running minion: start salt-minion and call this without --local".to_owned(),
        )),
    }
}

fn has(answer: &Map, key: &str) -> bool {
    answer.get(key).is_some_and(Value::is_true)
}

fn part(answer: &Map, key: &str) -> Map {
    let part = answer.get(key).and_then(Value::as_map);
    part.cloned().unwrap_or_default()
}

fn all(cx: &Exec) -> Result<Map, Error> {
    Ok(part(&send_to_minion(cx, "list", None, None)?, "beacons"))
}

fn available(cx: &Exec) -> Result<Value, Error> {
    let answer = send_to_minion(cx, "list_available", None, None)?;
    Ok(answer.get("beacons").cloned().unwrap_or_default())
}

fn is_test(kwargs: &Map) -> bool {
    kwargs.get("test").is_some_and(Value::is_true)
}

fn answer(result: bool, comment: impl Into<Value>) -> Map {
    Map::new().with("comment", comment).with("result", result)
}

fn dumped(beacons: Value) -> Result<String, Error> {
    let layout = Dump {
        default_flow_style: Some(false),
        sort_keys: true,
        ..Dump::default()
    };
    let data = Map::new().with("beacons", beacons).into();
    yaml::dump(&data, &layout).map_err(|error| Error::refused(error.to_string()))
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let answer = send_to_minion(cx, "list", None, None)?;
    let beacons = match (args.include_pillar, args.include_opts) {
        (true, true) => part(&answer, "beacons"),
        (true, false) => part(&answer, "pillar"),
        (false, true) => part(&answer, "opts"),
        (false, false) => Map::new(),
    };
    match args.return_yaml {
        true => Ok(dumped(beacons.into())?.into()),
        false => Ok(beacons.into()),
    }
}

fn list_available(cx: &Exec, args: ListAvailable) -> Result<Value, Error> {
    let available = available(cx)?;
    match args.return_yaml {
        true => Ok(dumped(available)?.into()),
        false => Ok(available),
    }
}

/// Returns the kind of a beacon with these settings.
fn kind(name: &str, data: &Value) -> String {
    let parts = data.as_list().unwrap_or_default();
    let module = parts.iter().find_map(|part| part.get("beacon_module"));
    module.map_or_else(|| name.to_owned(), Value::to_text)
}

/// Returns what the daemon finds wrong with the settings, or `None` if they are valid.
fn invalid(cx: &Exec, name: &str, data: &Value) -> Result<Option<String>, Error> {
    let answer = send_to_minion(cx, "validate", Some(name), Some(data))?;
    let comment = answer.get("vcomment").map(Value::to_text);
    Ok(match has(&answer, "valid") {
        true => None,
        false => Some(comment.unwrap_or_default()),
    })
}

/// Returns the result of a call that the daemon has refused.
fn rejection(changed: &Map) -> Map {
    let comment = changed.get("comment").cloned();
    answer(false, comment.unwrap_or_default())
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    let (name, data) = (args.name.as_str(), &args.beacon_data);
    if all(cx)?.contains(name) {
        return Ok(answer(true, format!("Beacon {name} is already configured.")).into());
    }
    let kind = kind(name, data);
    if !available(cx)?.texts().contains(&kind) {
        return Ok(answer(false, format!("Beacon \"{kind}\" is not available.")).into());
    }
    if is_test(&args.kwargs) {
        return Ok(answer(true, format!("Beacon: {name} would be added.")).into());
    }
    if let Some(problem) = invalid(cx, name, data)? {
        let comment = format!("Beacon {name} configuration invalid, not adding.\n{problem}");
        return Ok(answer(false, comment).into());
    }
    let added = send_to_minion(cx, "add", Some(name), Some(data))?;
    Ok(match has(&added, "complete") {
        true => answer(true, format!("Added beacon: {name}.")),
        false => rejection(&added),
    }
    .into())
}

/// Returns the settings as lines that can be compared.
fn lines(data: &Value) -> Vec<String> {
    let parts = data.as_list().unwrap_or_default();
    let parts = parts.iter().filter_map(Value::as_map).flat_map(Map::iter);
    parts
        .map(|(key, value)| format!("{}:{}\n", key.to_text(), value.to_text()))
        .collect()
}

fn modify(cx: &Exec, args: Modify) -> Result<Value, Error> {
    let (name, data) = (args.name.as_str(), &args.beacon_data);
    let current = all(cx)?;
    let Some(current) = current.get(name) else {
        return Ok(answer(true, format!("Beacon {name} is not configured.")).into());
    };
    if is_test(&args.kwargs) {
        return Ok(answer(true, format!("Beacon: {name} would be modified.")).into());
    }
    if let Some(problem) = invalid(cx, name, data)? {
        let comment = format!("Beacon {name} configuration invalid, not modifying.\n{problem}");
        return Ok(answer(false, comment).into());
    }
    if data == current {
        return Ok(answer(true, format!("Job {name} in correct state")).into());
    }
    let diff = difflib::unified(&lines(current), &lines(data), "", "").concat();
    let changes = Map::new().with("diff", diff);
    let modified = send_to_minion(cx, "modify", Some(name), Some(data))?;
    let answer = match has(&modified, "complete") {
        true => answer(true, format!("Modified beacon: {name}.")),
        false => rejection(&modified),
    };
    Ok(answer.with("changes", changes).into())
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    let name = args.name.as_str();
    if is_test(&args.kwargs) {
        return Ok(answer(true, format!("Beacon: {name} would be deleted.")).into());
    }
    let deleted = send_to_minion(cx, "delete", Some(name), None)?;
    Ok(match has(&deleted, "complete") {
        true => answer(true, format!("Deleted beacon: {name}.")),
        false => rejection(&deleted),
    }
    .into())
}

fn file(cx: &Exec) -> PathBuf {
    let include = cx.opts().text("default_include");
    let include = include.unwrap_or("minion.d/*.conf");
    let folder = include.rsplit_once('/').map_or("", |(folder, _)| folder);
    let conf = cx.opts().path("conf_file");
    conf.with_file_name(folder).join("beacons.conf")
}

fn save(cx: &Exec, _args: Save) -> Result<Value, Error> {
    let own = part(&send_to_minion(cx, "list", None, None)?, "opts");
    let text = match own.is_empty() {
        true => String::new(),
        false => dumped(own.into())?,
    };
    let path = file(cx);
    let shown = path.display();
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        fs::mkdir(cx, folder).map_err(Error::io(folder))?;
    }
    Ok(
        match fs::write(cx, &path, text.as_bytes(), fs::Owner::default()) {
            Ok(_) => answer(true, format!("Beacons saved to {shown}.")),
            Err(error) => answer(
                false,
                format!("Unable to write to beacons file at {shown}. Check permissions. ({error})"),
            ),
        }
        .into(),
    )
}

/// Sends a request that concerns all beacons. In test mode only reports what would be done.
fn together(
    cx: &Exec,
    fun: &'static str,
    kwargs: &Map,
    would: &str,
    done: &str,
) -> Result<Value, Error> {
    if is_test(kwargs) {
        return Ok(answer(true, would).into());
    }
    let changed = send_to_minion(cx, fun, None, None)?;
    Ok(match has(&changed, "complete") {
        true => answer(true, done),
        false => rejection(&changed),
    }
    .into())
}

fn enable(cx: &Exec, args: Enable) -> Result<Value, Error> {
    let would = "Beacons would be enabled.";
    let done = "Enabled beacons on minion.";
    together(cx, "enable", &args.kwargs, would, done)
}

fn disable(cx: &Exec, args: Disable) -> Result<Value, Error> {
    let would = "Beacons would be disabled.";
    let done = "Disabled beacons on minion.";
    together(cx, "disable", &args.kwargs, would, done)
}

fn reset(cx: &Exec, args: Reset) -> Result<Value, Error> {
    let would = "Beacons would be reset.";
    let done = "Beacon configuration reset.";
    together(cx, "reset", &args.kwargs, would, done)
}

/// Enables or disables one beacon.
fn switch(
    cx: &Exec,
    fun: &'static str,
    name: &str,
    kwargs: &Map,
    would: String,
    done: &str,
) -> Result<Value, Error> {
    if name.is_empty() {
        return Ok(answer(false, "Beacon name is required.").into());
    }
    if is_test(kwargs) {
        return Ok(answer(true, would).into());
    }
    if !all(cx)?.contains(name) {
        let comment = format!("Beacon {name} is not currently configured.");
        return Ok(answer(false, comment).into());
    }
    let switched = send_to_minion(cx, fun, Some(name), None)?;
    Ok(match has(&switched, "complete") {
        true => answer(true, format!("{done} beacon {name} on minion.")),
        false => rejection(&switched),
    }
    .into())
}

fn enable_beacon(cx: &Exec, args: EnableBeacon) -> Result<Value, Error> {
    let would = format!("Beacon {} would be enabled.", args.name);
    switch(
        cx,
        "enable_beacon",
        &args.name,
        &args.kwargs,
        would,
        "Enabled",
    )
}

fn disable_beacon(cx: &Exec, args: DisableBeacon) -> Result<Value, Error> {
    // Salt uses the plural here, too.
    let would = "Beacons would be disabled.".to_owned();
    switch(
        cx,
        "disable_beacon",
        &args.name,
        &args.kwargs,
        would,
        "Disabled",
    )
}
