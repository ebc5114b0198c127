//! The `docker_image` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::not_watched;
use crate::exec::docker::{CLIENT_SECONDS, Client, Kind, images};

state::state_module! {
    /// Manage images of containers with the program docker or podman.
    #[module(virtual_ = super::missing)]
    #[facts(free_arguments = true)]
    mod docker_image;

    /// Make sure that an image exists.
    ///
    ///     nginx:
    ///       docker_image.present:
    ///         - tag: '1.27'
    fn present(Present {
        /// The name of the image.
        name: String,
        /// The tag of the image.
        tag: Option<String> = None,
        /// The folder to build the image from.
        build: Option<String> = None,
        /// The archive to load the image from.
        load: Option<String> = None,
        /// True to pull, build or load the image again.
        force: bool = false,
        /// Accepted but ignored: the configuration of the program determines which registries it
        /// trusts.
        insecure_registry: bool = false,
        /// Accepted but ignored: there is no time limit for a transfer.
        client_timeout: i64 = CLIENT_SECONDS,
        /// The name of the Dockerfile in the folder.
        dockerfile: Option<String> = None,
        /// Not supported.
        sls: Value = Value::Null,
        /// Belongs to `sls`. Not supported.
        base: String = "opensuse/python".into(),
        /// Belongs to `sls`. Not supported.
        saltenv: String = "base".into(),
        /// Belongs to `sls`. Not supported.
        pillarenv: Option<String> = None,
        /// Belongs to `sls`. Not supported.
        pillar: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that images do not exist.
    ///
    ///     nginx:1.25:
    ///       docker_image.absent
    fn absent(Absent {
        /// The name of the image.
        name: Option<String> = None,
        /// A list of images, instead of `name`.
        images: Option<Vec<String>> = None,
        /// True to remove even an image that is in use.
        force: bool = false,
    });

    /// Pull, build or load the image again because a watched state changed something.
    ///
    ///     shop:
    ///       docker_image.present:
    ///         - build: /srv/shop
    ///         - tag: '2.1'
    ///         - watch:
    ///           - file: /etc/app.conf
    fn mod_watch(ModWatch {
        /// The name of the image.
        name: String,
        /// The name of the watching function.
        sfun: Option<String> = None,
        ..kwargs
    });
}

/// The source of an image.
enum Way<'a> {
    Built(&'a str),
    Loaded(&'a str),
    Pulled,
}

impl Way<'_> {
    fn word(&self) -> &'static str {
        match self {
            Self::Built(_) => "built",
            Self::Loaded(_) => "loaded",
            Self::Pulled => "pulled",
        }
    }
}

/// Returns the source of the image that the arguments select.
fn way<'a>(args: &'a Present, tag: Option<&str>) -> Result<Way<'a>, &'static str> {
    let ways = [
        args.build.is_some(),
        args.load.is_some(),
        !args.sls.is_null(),
    ];
    match ways.into_iter().filter(|asked| *asked).count() {
        0 => Ok(Way::Pulled),
        1 if tag.is_none() => {
            Err("The 'tag' argument is required if any one of 'build', 'load', or 'sls' is used.")
        }
        1 => match (&args.build, &args.load) {
            (Some(path), _) => Ok(Way::Built(path)),
            (None, Some(path)) => Ok(Way::Loaded(path)),
            (None, None) => Err(
                "Building an image with `sls` is not supported: use a Dockerfile (`build`) whose RUN lines apply the states",
            ),
        },
        _ => Err("Only one of 'build', 'load', or 'sls' is permitted."),
    }
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let tag = args.tag.as_deref().filter(|tag| !tag.is_empty());
    let way = match way(&args, tag) {
        Ok(way) => way,
        Err(problem) => return Ok(Ret::failed(problem)),
    };
    let full = tag.map_or_else(|| args.name.clone(), |tag| format!("{}:{tag}", args.name));
    let client = Client::detect(cx)?;
    let there = match client.found(Kind::Image, &full) {
        Ok(there) => there,
        Err(why) => return Ok(Ret::failed(why.to_string())),
    };
    if there.is_some() && !args.force {
        return Ok(Ret::ok(format!("Image {full} already present")));
    }
    let would = Ret::would(format!("Image {full} will be {}", way.word()));
    cx.apply(would, || {
        let name = (args.name.as_str(), tag.unwrap_or_default());
        let made = match &way {
            Way::Built(path) => built(&client, path, name, &args),
            Way::Loaded(path) => images::load(&client, path, Some(name)),
            Way::Pulled => images::pull(&client, &full),
        };
        let made = match made {
            Ok(made) => made,
            Err(why) => {
                return Ok(Ret::failed(match &way {
                    Way::Built(path) => {
                        format!("Encountered error building {path} as {full}: {why}")
                    }
                    Way::Loaded(path) => {
                        format!("Encountered error loading {path} as {full}: {why}")
                    }
                    Way::Pulled => format!("Encountered error pulling {full}: {why}"),
                }));
            }
        };
        let has_changed = has_changed(&way, there.as_ref(), &made);
        concluded(
            &client,
            &full,
            (&way, &args.name),
            has_changed.then_some(made),
        )
    })
}

fn built(
    client: &Client<'_>,
    path: &str,
    (name, tag): (&str, &str),
    args: &Present,
) -> Result<Map, Error> {
    let more = args
        .kwargs
        .get("kwargs")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    let is = |key: &str| more.get(key).is_none_or(Value::is_true);
    images::build(
        client,
        &images::Build {
            path,
            name: Some((name.to_owned(), tag.to_owned())),
            cache: is("cache"),
            rm: is("rm"),
            dockerfile: args.dockerfile.as_deref(),
            buildargs: more
                .get("buildargs")
                .and_then(Value::as_map)
                .cloned()
                .unwrap_or_default(),
        },
    )
}

/// Returns whether the image differs from the one that existed before.
fn has_changed(way: &Way<'_>, there: Option<&Map>, made: &Map) -> bool {
    let Some(there) = there else {
        return true;
    };
    let id = there.get("Id").map(Value::to_text).unwrap_or_default();
    let id = id.strip_prefix("sha256:").unwrap_or(&id);
    let layers = made.get("Layers");
    match way {
        Way::Built(_) => made.get("Id").map(Value::to_text).as_deref() != id.get(..12),
        Way::Loaded(_) => layers.is_some_and(Value::is_true),
        Way::Pulled => layers
            .and_then(|layers| layers.get("Pulled"))
            .is_some_and(Value::is_true),
    }
}

fn concluded(
    client: &Client<'_>,
    full: &str,
    (way, name): (&Way<'_>, &str),
    changes: Option<Map>,
) -> Result<Ret, Error> {
    let word = way.word();
    match client.found(Kind::Image, full) {
        Err(why) => Ok(Ret::failed(format!(
            "Failed to inspect image '{full}' after it was {word}: {why}"
        ))
        .changes(changes.unwrap_or_default())),
        Ok(_) => Ok(match changes {
            Some(changes) => Ret::ok(format!("Image '{full}' was {word}")).changes(changes),
            None => {
                let name = if matches!(way, Way::Pulled) {
                    full
                } else {
                    name
                };
                Ret::ok(format!(
                    "Image '{name}' was {word}, but there were no changes"
                ))
            }
        }),
    }
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let name = args.name.unwrap_or_default();
    let targets = match args.images {
        Some(images) => images,
        None if name.is_empty() => {
            return Ok(Ret::failed("One of 'name' and 'images' must be provided"));
        }
        None => vec![name.clone()],
    };
    let client = Client::detect(cx)?;
    let mut gone = Vec::new();
    for target in &targets {
        gone.extend(images::tag_of(&client, target)?);
    }
    if gone.is_empty() {
        return Ok(Ret::ok(match targets.as_slice() {
            [_] => format!("Image {name} is not present"),
            _ => "All specified images are not present".to_owned(),
        }));
    }
    let names = gone.join(", ");
    let would = Ret::would(match gone.as_slice() {
        [one] => format!("Image {one} will be removed"),
        _ => format!("The following images will be removed: {names}"),
    });
    cx.apply(would, || {
        let done = images::rmi(&client, &gone, args.force, true)?;
        let left = images::all_tags(&client)?;
        let (failed, removed): (Vec<&String>, Vec<&String>) =
            gone.iter().partition(|tag| left.contains(tag));
        let errors = done.get("Errors").map(Value::texts);
        Ok(match (failed.is_empty(), removed.is_empty()) {
            (true, _) => Ret::ok(match gone.as_slice() {
                [one] => format!("Image {one} was removed"),
                _ => format!("The following images were removed: {names}"),
            })
            .changes(done),
            (false, false) => {
                let failed: Vec<&str> = failed.iter().map(|tag| tag.as_str()).collect();
                let failed = failed.join(", ");
                Ret::failed(format!(
                    "The following image(s) failed to be removed: {failed}"
                ))
                .changes(done)
            }
            (false, true) => {
                let why = errors.map(|errors| {
                    let errors = errors.join("; ");
                    format!(". The following errors were encountered: {errors}")
                });
                let why = why.unwrap_or_default();
                Ret::failed(format!("None of the specified images were removed{why}"))
            }
        })
    })
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    let function = args.sfun.as_deref();
    let Some(found) = function
        .filter(|name| *name == "present")
        .and_then(|name| MODULE.function(name))
    else {
        return Ok(not_watched(function));
    };
    let kwargs = args.kwargs.with("force", true).with("name", args.name);
    found.invoke(
        "docker_image.present",
        cx,
        state::module::Arguments::new(Vec::new(), kwargs),
    )
}
