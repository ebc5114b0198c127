//! The `slsutil` execution module.

use python::path;
use state::exec::Exec;
use state::host::ExecHost;
use state::module::Error;
use value::merge::{self, Strategy};
use value::{Map, Value, log};

use super::cp;
use crate::fileserver::fetch;
use crate::fileserver::template;
use crate::serializers::Serializer;

mod banner;

state::exec_module! {
    /// Utility functions for use with or in SLS files.
    #[facts(pure = true)]
    mod slsutil;

    /// Merge a dictionary into another one, level by level.
    ///
    ///     salt-call slsutil.update '{port: 80}' '{port: 8080}'
    fn update(Update {
        /// The dictionary to update.
        dest: Value,
        /// The dictionary whose values take precedence.
        upd: Value,
        /// True to merge nested dictionaries.
        recursive_update: bool = true,
        /// True to join lists.
        merge_lists: bool = false,
    });

    /// Merge two dictionaries by a strategy.
    ///
    ///     salt-call slsutil.merge '{port: 80}' '{host: web1}'
    fn merge(Merge {
        /// The first dictionary.
        obj_a: Value,
        /// The second dictionary, whose values take precedence.
        obj_b: Value,
        /// The strategy: smart, recurse, aggregate, overwrite, list or none.
        strategy: String = "smart".into(),
        /// The renderer that determines the strategy if it is `smart`.
        renderer: String = "yaml".into(),
        /// True to join lists.
        merge_lists: bool = false,
    });

    /// Merge a list of dictionaries in the order of the list.
    ///
    ///     salt-call slsutil.merge_all '[{port: 80}, {host: web1}]'
    fn merge_all(MergeAll {
        /// The list of dictionaries.
        lst: Vec<Value>,
        /// The strategy: smart, recurse, aggregate, overwrite, list or none.
        strategy: String = "smart".into(),
        /// The renderer that determines the strategy if it is `smart`.
        renderer: String = "yaml".into(),
        /// True to join lists.
        merge_lists: bool = false,
    });

    /// Render a file or a string and return its data or text.
    ///
    ///     salt-call slsutil.renderer salt://app/settings.yaml
    #[facts(pure = false)]
    fn renderer(Renderer {
        /// The path or URL of the file.
        path: Option<String> = None,
        /// The string to render.
        string: Option<String> = None,
        /// The render pipeline for texts that do not specify one.
        default_renderer: String = "jinja|yaml".into(),
        ..kwargs
    });

    /// Serialize data.
    ///
    ///     salt-call slsutil.serialize json '{port: 8080}'
    fn serialize(Serialize {
        /// The format: yaml, json, configparser or msgpack.
        serializer: String,
        /// The data to serialize.
        obj: Value,
        ..kwargs
    });

    /// Deserialize a string.
    ///
    ///     salt-call slsutil.deserialize yaml 'port: 8080'
    fn deserialize(Deserialize {
        /// The format: yaml, json or configparser.
        serializer: String,
        /// The string to deserialize.
        stream_or_string: String,
        ..kwargs
    });

    /// Return a comment block which says that Salt manages the file.
    ///
    ///     salt-call slsutil.banner title='Managed by Salt'
    fn banner(Banner {
        /// The width of the block.
        width: i64 = 72,
        /// The characters that begin and end each line.
        commentchar: String = "#".into(),
        /// The character of the border.
        borderchar: String = "#".into(),
        /// A line before the block.
        blockstart: Option<String> = None,
        /// A line after the block.
        blockend: Option<String> = None,
        /// The title.
        title: Option<String> = None,
        /// The text of the block.
        text: Option<String> = None,
        /// True to end the block with a newline.
        newline: bool = false,
    });

    /// Return one of two values, depending on the truth of a value.
    ///
    ///     salt-call slsutil.boolstr True true=yes false=no
    fn boolstr(Boolstr {
        /// The value to test.
        value: Value,
        /// The value to return for true.
        r#true: Value = "true".into(),
        /// The value to return for false.
        r#false: Value = "false".into(),
    });

    /// Return True if a file exists in the state tree.
    ///
    ///     salt-call slsutil.file_exists app/init.sls
    fn file_exists(FileExists {
        /// The path relative to the root of the state tree.
        path: String,
        /// The environment of the state tree.
        saltenv: String = "base".into(),
    });

    /// Return True if a folder exists in the state tree.
    ///
    ///     salt-call slsutil.dir_exists app
    fn dir_exists(DirExists {
        /// The path relative to the root of the state tree.
        path: String,
        /// The environment of the state tree.
        saltenv: String = "base".into(),
    });

    /// Return True if a file or folder exists in the state tree.
    ///
    ///     salt-call slsutil.path_exists app/init.sls
    fn path_exists(PathExists {
        /// The path relative to the root of the state tree.
        path: String,
        /// The environment of the state tree.
        saltenv: String = "base".into(),
    });

    /// Return the first path with one of the given names, in a folder of the state tree or in the
    /// folders above it.
    ///
    ///     salt-call slsutil.findup app/web settings.yaml
    fn findup(Findup {
        /// The path of the folder to start in.
        startpath: Option<String>,
        /// The name of a file, or a list of names.
        filenames: Value,
        /// The environment of the state tree.
        saltenv: String = "base".into(),
    });
}

fn dictionary(value: Value) -> Result<Map, Error> {
    match value {
        Value::Map(map) => Ok(map),
        _ => Err("Cannot update using non-dict types in dictupdate.update()".into()),
    }
}

fn update(_cx: &Exec, args: Update) -> Result<Value, Error> {
    let (mut lower, upper) = (dictionary(args.dest)?, dictionary(args.upd)?);
    if args.recursive_update {
        return Ok(merge::recurse(&lower, &upper, args.merge_lists).into());
    }
    lower.update(upper);
    Ok(lower.into())
}

fn strategy(word: &str, renderer: &str) -> Strategy {
    Strategy::from_name(word, renderer).unwrap_or_else(|| {
        log::warning(format!(
            "Unknown merging strategy '{word}', fallback to recurse"
        ));
        Strategy::Recurse
    })
}

fn merge(_cx: &Exec, args: Merge) -> Result<Value, Error> {
    let strategy = strategy(&args.strategy, &args.renderer);
    let (lower, upper) = (dictionary(args.obj_a)?, dictionary(args.obj_b)?);
    Ok(merge::merge(&lower, &upper, strategy, args.merge_lists).into())
}

fn merge_all(_cx: &Exec, args: MergeAll) -> Result<Value, Error> {
    let strategy = strategy(&args.strategy, &args.renderer);
    let mut merged = Map::new();
    for upper in args.lst {
        merged = merge::merge(&merged, &dictionary(upper)?, strategy, args.merge_lists);
    }
    Ok(merged.into())
}

fn renderer(cx: &Exec, args: Renderer) -> Result<Value, Error> {
    let path = args.path.filter(|path| !path.is_empty());
    let string = args.string.filter(|string| !string.is_empty());
    let saltenv = args.kwargs.get("saltenv").map(Value::to_text);
    let saltenv = saltenv.unwrap_or_else(|| "base".into());
    let (name, text) = match (path, string) {
        (None, None) => return Err("Must pass path or string.".into()),
        (Some(_), Some(_)) => return Err("Must not pass both path and string.".into()),
        (None, Some(string)) => (":string:".to_owned(), string),
        (Some(path), None) => {
            let found = fetch::cached(cx, &path, &saltenv, fetch::How::default())?;
            let Some(file) = found.filter(|file| path::isfile(file)) else {
                log::error(format_args!("slsutil.renderer: cannot find {path}"));
                return Ok(Map::new().into());
            };
            let text = machine::fs::text(&file)?;
            (file, text)
        }
    };
    let variables = variables(args.kwargs, &name)?;
    let context = template::context(cx, &name, &saltenv, variables)?;
    let rendered = render::render(
        &text,
        &args.default_renderer,
        &context,
        &ExecHost::in_state_tree(cx),
    )
    .map_err(|error| Error::refused(error.to_string()))?;
    Ok(rendered.value)
}

/// Returns the variables of a template: the keywords, overridden by `context`, and the names that
/// are derived from the path and from `sls`, if neither of the two has them.
fn variables(mut kwargs: Map, path: &str) -> Result<Map, Error> {
    let sls = kwargs.get("sls").map(Value::to_text).unwrap_or_default();
    let context = match kwargs.remove("context") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Map(context)) => context,
        Some(other) => {
            let kind = other.type_name();
            return Err(format!("context must be a dictionary, got {kind}").into());
        }
    };
    let mut variables = template::sls_names(path, &sls).with("sls", sls);
    variables.update(kwargs);
    variables.update(context);
    Ok(variables)
}

fn find_serializer(serializer: &str) -> Result<Serializer, Error> {
    Serializer::from_name(serializer)
        .ok_or_else(|| Error::refused(format!("Serializer '{serializer}' not found.")))
}

/// Removes the keywords that a template or a command line adds to each call, because they are not
/// options.
fn options(mut kwargs: Map) -> Map {
    kwargs.retain(|key, _| !key.as_str().is_some_and(|key| key.starts_with("__")));
    kwargs
}

fn serialize(_cx: &Exec, args: Serialize) -> Result<Value, Error> {
    find_serializer(&args.serializer)?.serialize(&args.obj, &options(args.kwargs))
}

fn deserialize(_cx: &Exec, args: Deserialize) -> Result<Value, Error> {
    find_serializer(&args.serializer)?.deserialize(&args.stream_or_string, &options(args.kwargs))
}

fn banner(_cx: &Exec, args: Banner) -> Result<Value, Error> {
    banner::text(&args).map(Value::from)
}

fn boolstr(_cx: &Exec, args: Boolstr) -> Result<Value, Error> {
    Ok(if args.value.is_true() {
        args.r#true
    } else {
        args.r#false
    })
}

fn is_file(cx: &Exec, path: &str, saltenv: &str) -> Result<bool, Error> {
    let files = cx.shared.sources.list(saltenv)?;
    Ok(files.iter().any(|file| file == path))
}

fn is_path(cx: &Exec, path: &str, saltenv: &str) -> Result<bool, Error> {
    Ok(is_file(cx, path, saltenv)? || cp::dirs(cx, saltenv)?.contains(path))
}

fn file_exists(cx: &Exec, args: FileExists) -> Result<Value, Error> {
    is_file(cx, &args.path, &args.saltenv).map(Value::from)
}

fn dir_exists(cx: &Exec, args: DirExists) -> Result<Value, Error> {
    Ok(cp::dirs(cx, &args.saltenv)?.contains(&args.path).into())
}

fn path_exists(cx: &Exec, args: PathExists) -> Result<Value, Error> {
    is_path(cx, &args.path, &args.saltenv).map(Value::from)
}

fn findup(cx: &Exec, args: Findup) -> Result<Value, Error> {
    let start = args.startpath.unwrap_or_default();
    let mut start = match start.as_str() {
        "" => String::new(),
        start => path::normpath(start),
    };
    if !start.is_empty() && !is_path(cx, &start, &args.saltenv)? {
        return Err(Error::refused(format!(
            "Starting path not found in the state tree: {start}"
        )));
    }
    let names = match &args.filenames {
        Value::Str(name) => vec![name.to_string()],
        Value::List(names) => names.iter().map(Value::to_text).collect(),
        _ => return Err("Filenames argument must be a string or list of strings".into()),
    };
    loop {
        for name in &names {
            let whole = path::normpath(&format!("{start}/{name}"));
            let whole = whole.trim_start_matches('/');
            if is_path(cx, whole, &args.saltenv)? {
                return Ok(whole.into());
            }
        }
        if start.is_empty() {
            return Err("File pattern(s) not found in path ancestry".into());
        }
        start = path::dirname(&start).to_owned();
    }
}
