//! `file.serialize`.
#![expect(
    clippy::disallowed_methods,
    reason = "a temporary file need not outlive the run"
)]

use std::path::Path;

use machine::process::Process;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, remove};

use super::texts::{self, named};
use crate::exec::file::managed::{self as work, Request};
use crate::exec::file::stat::normalized;
use crate::serializers::Serializer;

state::state_module! {
    /// Create files from data.
    #[facts(effects = Effects::Files(&["name"]), also_takes = &["formatter"])]
    mod file;

    /// Serialize a dataset and store it into a managed file.
    ///
    ///     /etc/app.json:
    ///       file.serialize:
    ///         - dataset:
    ///             port: 8080
    ///         - serializer: json
    fn serialize(Serialize {
        /// The path of the file.
        name: String,
        /// The data.
        dataset: Value = Value::Null,
        /// The pillar key that contains the data.
        dataset_pillar: Option<String> = None,
        /// The user that owns the file.
        user: Value = Value::Null,
        /// The group that owns the file.
        group: Value = Value::Null,
        /// The mode of the file.
        mode: Value = Value::Null,
        /// The backup of the replaced file.
        backup: String = String::new(),
        /// True to create the parent folders.
        makedirs: bool = false,
        /// True to include a diff in the changes.
        show_changes: bool = true,
        /// True to create the file if it does not exist.
        create: bool = true,
        /// True to keep existing data that is not in the dataset.
        merge_if_exists: bool = false,
        /// The encoding of the file. If it is given, characters outside ASCII are not escaped.
        encoding: Option<String> = None,
        /// The handling of characters that the encoding does not have.
        encoding_errors: String = "strict".into(),
        /// The format: yaml, json, configparser or msgpack.
        serializer: Option<String> = None,
        /// Options for writing.
        serializer_opts: Option<Map> = None,
        /// Options for reading the existing file.
        deserializer_opts: Option<Map> = None,
        /// A command that checks the new file before it is put in place. The file is its last
        /// argument.
        check_cmd: Option<String> = None,
        /// The folder for the temporary file that `check_cmd` checks.
        tmp_dir: Option<String> = None,
        /// The suffix of the temporary file that `check_cmd` checks.
        tmp_ext: String = String::new(),
        ..kwargs
    });
}

fn serialize(cx: &Exec, args: Serialize) -> Result<Ret, Error> {
    let name = texts::expanded(&args.name);
    let ret = stored(cx, args, &name).unwrap_or_else(|error| Ret::failed(error.to_string()));
    Ok(named(ret, &name))
}

fn stored(cx: &Exec, mut args: Serialize, name: &str) -> Result<Ret, Error> {
    if name.is_empty() {
        return Err("Must provide name to file.serialize".into());
    }
    if !args.create && !Path::new(name).is_file() {
        return Ok(Ret::ok(format!(
            "File {name} is not present and is not set for creation"
        )));
    }
    let format = format(&mut args)?;
    let dataset = dataset(cx, &args)?;
    let serializer = Serializer::from_name(&format).ok_or_else(|| {
        Error::refused(format!(
            "The {format} serializer could not be found. It either does not exist or its prerequisites are not installed."
        ))
    })?;
    let mut start = Ret::ok("");
    if !args.merge_if_exists
        && args
            .deserializer_opts
            .as_ref()
            .is_some_and(|opts| !opts.is_empty())
    {
        start = start.warning(
            "The 'deserializer_opts' option is ignored unless merge_if_exists is set to True.",
        );
    }
    let merged = merged(&args, name, serializer, &dataset)?;
    if merged.as_ref().is_some_and(|(old, new)| old == new) {
        return Ok(Ret::ok(format!("The file {name} is in the correct state")));
    }
    let dataset = merged.as_ref().map_or(&dataset, |(_, new)| new);
    let contents = match serializer.serialize(dataset, &options(&args, serializer))? {
        Value::Bytes(bytes) => bytes.to_vec(),
        text => format!("{}\n", text.to_text()).into_bytes(),
    };
    let mut ret = placed(cx, &args, name, contents, start)?;
    if let Some((Value::Map(old), Value::Map(new))) = &merged {
        ret = ret.change("diff", recursive_diff(old, new));
    }
    Ok(ret)
}

/// Returns the name of the format: `serializer`, or its former name `formatter`.
fn format(args: &mut Serialize) -> Result<String, Error> {
    let formatter = args.kwargs.remove("formatter").filter(Value::is_true);
    let serializer = args.serializer.clone().filter(|name| !name.is_empty());
    match (serializer, formatter) {
        (Some(_), Some(_)) => Err("Only one of serializer and formatter are allowed".into()),
        (Some(name), None) => Ok(name.to_lowercase()),
        (None, Some(name)) => Ok(name.to_text().to_lowercase()),
        (None, None) => Ok("yaml".into()),
    }
}

fn dataset(cx: &Exec, args: &Serialize) -> Result<Value, Error> {
    let key = args.dataset_pillar.as_deref().filter(|key| !key.is_empty());
    if args.dataset.is_true() && key.is_some() {
        return Err("Only one of 'dataset' and 'dataset_pillar' is permitted".into());
    }
    let dataset = match key {
        Some(key) => {
            let pillar = Value::from(cx.pillar()?);
            pillar
                .traverse(key, ":")
                .cloned()
                .unwrap_or_else(|| "".into())
        }
        None => args.dataset.clone(),
    };
    if dataset.is_null() {
        return Err("Neither 'dataset' nor 'dataset_pillar' was defined".into());
    }
    Ok(dataset)
}

fn options(args: &Serialize, serializer: Serializer) -> Map {
    let mut options = match serializer {
        Serializer::Yaml => Map::new().with("default_flow_style", false),
        Serializer::Json => Map::new()
            .with("indent", 2)
            .with("separators", vec![",", ": "])
            .with("sort_keys", true),
        Serializer::Configparser | Serializer::Msgpack => Map::new(),
    };
    if args.encoding.is_some() {
        match serializer {
            Serializer::Yaml => drop(options.insert("allow_unicode", true)),
            Serializer::Json => drop(options.insert("ensure_ascii", false)),
            Serializer::Configparser | Serializer::Msgpack => {}
        }
    }
    options.update(args.serializer_opts.clone().unwrap_or_default());
    options
}

/// Returns the existing data, and the same with the dataset merged into it.
fn merged(
    args: &Serialize,
    name: &str,
    serializer: Serializer,
    dataset: &Value,
) -> Result<Option<(Value, Value)>, Error> {
    let path = Path::new(name);
    if !args.merge_if_exists || !path.is_file() {
        return Ok(None);
    }
    let text = machine::fs::text(path)?;
    let old = serializer
        .deserialize(&text, &args.deserializer_opts.clone().unwrap_or_default())
        .map_err(|error| Error::refused(format!("Failed to deserialize existing data: {error}")))?;
    match (&old, dataset) {
        (Value::Null, _) => Ok(None),
        (Value::Map(lower), Value::Map(upper)) => {
            let merged = value::merge::recurse(lower, upper, false);
            Ok(Some((old, merged.into())))
        }
        _ => Err("Cannot update using non-dict types in dictupdate.update()".into()),
    }
}

/// Returns the new and changed entries with their old values, like Salt's `RecursiveDictDiffer`.
fn recursive_diff(old: &Map, new: &Map) -> Map {
    let mut diff = Map::new();
    for (key, value) in new {
        match (old.get_value(key), value) {
            (Some(was), value) if was == value => {}
            (Some(Value::Map(was)), Value::Map(is)) => {
                let below = recursive_diff(was, is);
                if !below.is_empty() {
                    diff.insert(key.clone(), below);
                }
            }
            (was, value) => {
                let was = was.cloned().unwrap_or_else(|| "<_null_>".into());
                let entry = Map::new().with("new", value.clone()).with("old", was);
                diff.insert(key.clone(), entry);
            }
        }
    }
    diff
}

fn placed(
    cx: &Exec,
    args: &Serialize,
    name: &str,
    contents: Vec<u8>,
    start: Ret,
) -> Result<Ret, Error> {
    let request = Request {
        name: name.to_owned(),
        contents: Some(contents.clone()),
        saltenv: cx.saltenv.clone(),
        user: args.user.clone(),
        group: args.group.clone(),
        mode: normalized(&args.mode),
        backup: args.backup.clone(),
        makedirs: args.makedirs,
        show_changes: args.show_changes,
        follow: true,
        ..Request::default()
    };
    if cx.test {
        return would(cx, args, &request, start);
    }
    if let Some(ret) = refused(cx, args, &request, &contents)? {
        return Ok(ret);
    }
    let found = work::find(cx, &request)?;
    cx.apply(Ret::default(), || work::manage(cx, request, found, start))
}

fn would(cx: &Exec, args: &Serialize, request: &Request, start: Ret) -> Result<Ret, Error> {
    let name = &request.name;
    let (mut changes, _) = work::changes(cx, request)?;
    if changes.is_empty() {
        let comment = format!("The file {name} is in the correct state");
        return Ok(Ret { comment, ..start });
    }
    if !args.show_changes {
        changes.insert("diff", "<show_changes=False>");
    }
    Ok(Ret {
        result: None,
        comment: format!("Dataset will be serialized and stored into {name}"),
        changes: changes.into(),
        ..start
    })
}

/// Returns the failure if the `check_cmd` rejects the contents.
fn refused(
    cx: &Exec,
    args: &Serialize,
    request: &Request,
    contents: &[u8],
) -> Result<Option<Ret>, Error> {
    let Some(command) = &args.check_cmd else {
        return Ok(None);
    };
    let (mut changes, _) = work::changes(cx, request)?;
    if changes.is_empty() {
        return Ok(None);
    }
    if changes.remove("newfile").is_some() {
        changes.insert("diff", "New file");
    }
    let folder = args.tmp_dir.clone().unwrap_or_else(|| "/tmp".into());
    let place = format!("{folder}/.pinch.{}{}", std::process::id(), args.tmp_ext);
    let owner = machine::fs::Owner {
        mode: Some(0o600),
        ..machine::fs::Owner::default()
    };
    machine::fs::write(cx, Path::new(&place), contents, owner)?;
    let output = Process::shell_line(format!("{command} {place}")).run(cx);
    remove::or_log(&place, std::fs::remove_file(&place));
    let output = output?;
    if output.success() {
        return Ok(None);
    }
    let mut comment = String::from("check_cmd execution failed");
    for text in [output.stdout_regardless(), &output.stderr] {
        if !text.is_empty() {
            comment.push('\n');
            comment.push_str(text);
        }
    }
    Ok(Some(
        Ret::failed(comment)
            .changes(changes)
            .with("skip_watch", true),
    ))
}
