//! The functions of the `docker` execution module that are about images.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::client::{CLIENT_SECONDS, Client, Kind};
use super::{flag, images, lists, registries};

state::exec_module! {
    /// Images of containers, through the program docker or podman.
    mod docker;

    /// Build an image.
    fn build(Build {
        /// The folder, or an address, with what it is built of.
        path: String,
        /// The repository that it is named by.
        repository: Option<String> = None,
        /// The tag that it is named by.
        tag: Option<String> = None,
        /// Whether layers of earlier builds are used.
        cache: bool = true,
        /// Whether containers of the build are removed.
        rm: bool = true,
        /// Has no meaning with a program.
        api_response: bool = false,
        /// Is not served.
        fileobj: Value = Value::Null,
        /// The name of the Dockerfile in the folder.
        dockerfile: Option<String> = None,
        /// Arguments of the build.
        buildargs: Map = Map::new(),
    });

    /// The containers and images that are made of an image.
    fn depends(Depends {
        /// Which image.
        name: String,
    });

    /// The images.
    fn images(Images {
        /// Whether all is told of each.
        verbose: bool = false,
        ..kwargs
    });

    /// What is known of an image.
    fn inspect_image(InspectImage {
        /// Its name or id.
        name: String,
    });

    /// The names of the images.
    fn list_tags(ListTags {});

    /// Load images from an archive.
    fn load(Load {
        /// Where it is: a path or an address.
        path: String,
        /// The repository that the image is named by.
        repository: Option<String> = None,
        /// The tag that the image is named by.
        tag: Option<String> = None,
    });

    /// Log in to registries.
    fn login(Login {
        *registries,
        ..kwargs
    });

    /// Fetch an image.
    fn pull(Pull {
        /// Its name.
        image: String,
        /// Has no meaning with a program: its own configuration says which registries may be trusted.
        insecure_registry: bool = false,
        /// Has no meaning with a program.
        api_response: bool = false,
        /// Has no meaning here: a transfer has all the time that it needs.
        client_timeout: i64 = CLIENT_SECONDS,
    });

    /// The id of an image; False where there is none.
    fn resolve_image_id(ResolveImageId {
        /// Its name.
        name: String,
    });

    /// The first name of an image; False where there is none.
    fn resolve_tag(ResolveTag {
        /// Its name or id.
        name: String,
        ..kwargs
    });

    /// Remove images.
    fn rmi(Rmi {
        *names,
        ..kwargs
    });

    /// Write an image into an archive, not compressed.
    fn save(Save {
        /// The image.
        name: String,
        /// The archive.
        path: String,
        /// Whether one that is there is replaced.
        overwrite: bool = false,
    });

    /// Give an image a name.
    fn tag(Tag {
        /// Its name or id.
        name: String,
        /// The repository of the name.
        repository: String,
        /// Its tag.
        tag: String = "latest".into(),
        /// Has no meaning any more: a name always goes to the last who asks for it.
        force: bool = false,
    });
}

fn build(cx: &Exec, args: Build) -> Result<Value, Error> {
    if args.fileobj.is_true() {
        return Err("`fileobj` is not served: name a folder by `path`".into());
    }
    let name = match (args.repository, args.tag) {
        (None, Some(_)) => return Err("If tagging, both a repository and tag are required".into()),
        (Some(repository), Some(tag)) => Some((repository, tag)),
        _ => None,
    };
    let wanted = images::Build {
        path: &args.path,
        name,
        cache: args.cache,
        rm: args.rm,
        dockerfile: args.dockerfile.as_deref(),
        buildargs: args.buildargs,
    };
    images::build(&Client::of(cx)?, &wanted).map(Value::from)
}

fn depends(cx: &Exec, args: Depends) -> Result<Value, Error> {
    let client = Client::of(cx)?;
    let image = client.inspect(Kind::Image, &args.name)?;
    let id = image.get("Id").map(Value::to_text).unwrap_or_default();
    let (containers, images) = images::depends(&client, &id)?;
    Ok(Map::new()
        .with("Containers", containers)
        .with("Images", images)
        .into())
}

fn images(cx: &Exec, args: Images) -> Result<Value, Error> {
    lists::images(&Client::of(cx)?, args.verbose, flag(&args.kwargs, "all")).map(Value::from)
}

fn inspect_image(cx: &Exec, args: InspectImage) -> Result<Value, Error> {
    images::inspect(&Client::of(cx)?, &args.name).map(Value::from)
}

fn list_tags(cx: &Exec, _: ListTags) -> Result<Value, Error> {
    images::all_tags(&Client::of(cx)?).map(Value::from)
}

fn load(cx: &Exec, args: Load) -> Result<Value, Error> {
    let name = match (args.repository.as_deref(), args.tag.as_deref()) {
        (None, None) => None,
        (Some(repository), Some(tag)) => Some((repository, tag)),
        _ => return Err("If tagging, both a repository and tag are required".into()),
    };
    images::load(&Client::of(cx)?, &args.path, name).map(Value::from)
}

fn login(cx: &Exec, args: Login) -> Result<Value, Error> {
    registries::login(&Client::of(cx)?, &args.registries).map(Value::from)
}

fn pull(cx: &Exec, args: Pull) -> Result<Value, Error> {
    images::pull(&Client::of(cx)?, &args.image).map(Value::from)
}

fn resolve_image_id(cx: &Exec, args: ResolveImageId) -> Result<Value, Error> {
    let id = images::id(&Client::of(cx)?, &args.name)?;
    Ok(id.map_or(Value::Bool(false), Value::from))
}

fn resolve_tag(cx: &Exec, args: ResolveTag) -> Result<Value, Error> {
    let client = Client::of(cx)?;
    if !flag(&args.kwargs, "all") {
        let tag = images::tag_of(&client, &args.name)?;
        return Ok(tag.map_or(Value::Bool(false), Value::from));
    }
    let Some(image) = client.found(Kind::Image, &args.name)? else {
        return Ok(false.into());
    };
    let tags = images::tags(&image);
    Ok(match tags.is_empty() {
        true => Value::list(image.get("Id").cloned()),
        false => tags.into(),
    })
}

fn rmi(cx: &Exec, args: Rmi) -> Result<Value, Error> {
    let names: Vec<String> = args.names.iter().map(Value::to_text).collect();
    let (force, prune) = (flag(&args.kwargs, "force"), args.kwargs.get("prune"));
    let prune = prune.is_none_or(Value::is_true);
    images::rmi(&Client::of(cx)?, &names, force, prune).map(Value::from)
}

fn save(cx: &Exec, args: Save) -> Result<Value, Error> {
    lists::save(&Client::of(cx)?, &args.name, &args.path, args.overwrite).map(Value::from)
}

fn tag(cx: &Exec, args: Tag) -> Result<Value, Error> {
    images::tag(&Client::of(cx)?, &args.name, &args.repository, &args.tag)?;
    Ok(true.into())
}
