//! The image functions of the `docker` execution module.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::client::{CLIENT_SECONDS, Client, Kind};
use super::{flag, images, lists, registries};

state::exec_module! {
    /// Manage container images with the program docker or podman.
    mod docker;

    /// Build an image.
    ///
    ///     salt-call docker.build /srv/shop repository=shop tag=2.1
    fn build(Build {
        /// The path or URL of the build context.
        path: String,
        /// The repository of the image's name.
        repository: Option<String> = None,
        /// The tag of the image's name.
        tag: Option<String> = None,
        /// True to reuse the layers of earlier builds.
        cache: bool = true,
        /// True to remove the containers of the build.
        rm: bool = true,
        /// Accepted and ignored: there is no API response, since a program does the work.
        api_response: bool = false,
        /// Not supported.
        fileobj: Value = Value::Null,
        /// The name of the Dockerfile in the folder.
        dockerfile: Option<String> = None,
        /// The build arguments.
        buildargs: Map = Map::new(),
    });

    /// Return the containers and images that are based on an image.
    ///
    ///     salt-call docker.depends nginx
    fn depends(Depends {
        /// The name or id of the image.
        name: String,
    });

    /// Return the images.
    ///
    ///     salt-call docker.images
    fn images(Images {
        /// True to return the details of each image.
        verbose: bool = false,
        ..kwargs
    });

    /// Return the details of an image.
    ///
    ///     salt-call docker.inspect_image nginx:1.27
    fn inspect_image(InspectImage {
        /// The name or id of the image.
        name: String,
    });

    /// Return the names of the images.
    ///
    ///     salt-call docker.list_tags
    fn list_tags(ListTags {});

    /// Load images from an archive.
    ///
    ///     salt-call docker.load /srv/shop.tar
    fn load(Load {
        /// The path or URL of the archive.
        path: String,
        /// The repository of the image's new name.
        repository: Option<String> = None,
        /// The tag of the image's new name.
        tag: Option<String> = None,
    });

    /// Log in to registries.
    ///
    ///     salt-call docker.login registry.example.com
    fn login(Login {
        *registries,
        ..kwargs
    });

    /// Fetch an image.
    ///
    ///     salt-call docker.pull nginx:1.27
    fn pull(Pull {
        /// The name of the image.
        image: String,
        /// Accepted and ignored: the program's own configuration lists the registries to trust.
        insecure_registry: bool = false,
        /// Accepted and ignored: there is no API response, since a program does the work.
        api_response: bool = false,
        /// Accepted and ignored: a transfer may take as long as it needs.
        client_timeout: i64 = CLIENT_SECONDS,
    });

    /// Return the id of an image, or False if the image does not exist.
    ///
    ///     salt-call docker.resolve_image_id nginx:1.27
    fn resolve_image_id(ResolveImageId {
        /// The name of the image.
        name: String,
    });

    /// Return the first name of an image, or False if the image does not exist.
    ///
    ///     salt-call docker.resolve_tag nginx
    fn resolve_tag(ResolveTag {
        /// The name or id of the image.
        name: String,
        ..kwargs
    });

    /// Remove images.
    ///
    ///     salt-call docker.rmi nginx:1.25
    fn rmi(Rmi {
        *names,
        ..kwargs
    });

    /// Save an image to an uncompressed archive.
    ///
    ///     salt-call docker.save shop:2.1 /srv/shop.tar
    fn save(Save {
        /// The name or id of the image.
        name: String,
        /// The absolute path of the archive.
        path: String,
        /// True to overwrite an existing archive.
        overwrite: bool = false,
    });

    /// Add a name to an image.
    ///
    ///     salt-call docker.tag 0c8e2ac5ff4d shop tag=2.1
    fn tag(Tag {
        /// The name or id of the image.
        name: String,
        /// The repository of the new name.
        repository: String,
        /// The tag of the new name.
        tag: String = "latest".into(),
        /// Accepted and ignored: the name is always moved to this image.
        force: bool = false,
    });
}

fn build(cx: &Exec, args: Build) -> Result<Value, Error> {
    if args.fileobj.is_true() {
        return Err("`fileobj` is not supported: give a directory in `path`".into());
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
    images::build(&Client::detect(cx)?, &wanted).map(Value::from)
}

fn depends(cx: &Exec, args: Depends) -> Result<Value, Error> {
    let client = Client::detect(cx)?;
    let image = client.inspect(Kind::Image, &args.name)?;
    let id = image.get("Id").map(Value::to_text).unwrap_or_default();
    let (containers, images) = images::depends(&client, &id)?;
    Ok(Map::new()
        .with("Containers", containers)
        .with("Images", images)
        .into())
}

fn images(cx: &Exec, args: Images) -> Result<Value, Error> {
    lists::images(
        &Client::detect(cx)?,
        args.verbose,
        flag(&args.kwargs, "all"),
    )
    .map(Value::from)
}

fn inspect_image(cx: &Exec, args: InspectImage) -> Result<Value, Error> {
    images::inspect(&Client::detect(cx)?, &args.name).map(Value::from)
}

fn list_tags(cx: &Exec, _: ListTags) -> Result<Value, Error> {
    images::all_tags(&Client::detect(cx)?).map(Value::from)
}

fn load(cx: &Exec, args: Load) -> Result<Value, Error> {
    let name = match (args.repository.as_deref(), args.tag.as_deref()) {
        (None, None) => None,
        (Some(repository), Some(tag)) => Some((repository, tag)),
        _ => return Err("If tagging, both a repository and tag are required".into()),
    };
    images::load(&Client::detect(cx)?, &args.path, name).map(Value::from)
}

fn login(cx: &Exec, args: Login) -> Result<Value, Error> {
    registries::login(&Client::detect(cx)?, &args.registries).map(Value::from)
}

fn pull(cx: &Exec, args: Pull) -> Result<Value, Error> {
    images::pull(&Client::detect(cx)?, &args.image).map(Value::from)
}

fn resolve_image_id(cx: &Exec, args: ResolveImageId) -> Result<Value, Error> {
    let id = images::id(&Client::detect(cx)?, &args.name)?;
    Ok(id.map_or(Value::Bool(false), Value::from))
}

fn resolve_tag(cx: &Exec, args: ResolveTag) -> Result<Value, Error> {
    let client = Client::detect(cx)?;
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
    images::rmi(&Client::detect(cx)?, &names, force, prune).map(Value::from)
}

fn save(cx: &Exec, args: Save) -> Result<Value, Error> {
    lists::save(&Client::detect(cx)?, &args.name, &args.path, args.overwrite).map(Value::from)
}

fn tag(cx: &Exec, args: Tag) -> Result<Value, Error> {
    images::tag(
        &Client::detect(cx)?,
        &args.name,
        &args.repository,
        &args.tag,
    )?;
    Ok(true.into())
}
