//! The `cloud` execution module, and the requests of all functions about clouds. The crate `cloud`
//! answers them; a program that contains it calls [`serve`] when it starts.

use std::sync::OnceLock;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Make, list and remove machines of clouds.
    mod cloud;

    /// Return the sizes of machines that providers offer.
    ///
    ///     salt-call cloud.list_sizes my-ec2
    fn list_sizes(ListSizes {
        /// The provider, its driver, or `all`.
        provider: String = "all".into(),
    });

    /// Return the images that providers offer.
    ///
    ///     salt-call cloud.list_images my-ec2
    fn list_images(ListImages {
        /// The provider, its driver, or `all`.
        provider: String = "all".into(),
    });

    /// Return the locations that providers offer.
    ///
    ///     salt-call cloud.list_locations my-ec2
    fn list_locations(ListLocations {
        /// The provider, its driver, or `all`.
        provider: String = "all".into(),
    });

    /// Return the machines of all providers.
    ///
    ///     salt-call cloud.query
    fn query(Query {
        /// `list_nodes`, `list_nodes_full`, `list_nodes_select` or `list_nodes_min`.
        query_type: String = "list_nodes".into(),
    });

    /// Return the machines of all providers with everything that is known of them.
    ///
    ///     salt-call cloud.full_query
    fn full_query(FullQuery {
        /// The kind of query, as for `cloud.query`.
        query_type: String = "list_nodes_full".into(),
    });

    /// Return what the option `query.selection` selects of each machine.
    ///
    ///     salt-call cloud.select_query
    fn select_query(SelectQuery {
        /// The kind of query, as for `cloud.query`.
        query_type: String = "list_nodes_select".into(),
    });

    /// Return whether a machine exists.
    ///
    ///     salt-call cloud.has_instance web1
    fn has_instance(HasInstance {
        /// The name of the machine.
        name: String,
        /// The provider; without one, all are searched.
        provider: Option<String> = None,
    });

    /// Return what is known of a machine, or nothing if it does not exist.
    ///
    ///     salt-call cloud.get_instance web1
    fn get_instance(GetInstance {
        /// The name of the machine.
        name: String,
        /// The provider; without one, all are searched.
        provider: Option<String> = None,
    });

    /// Make machines by a profile.
    ///
    ///     salt-call cloud.profile web web1,web2
    fn profile(Profile {
        /// The profile.
        profile: String,
        /// The names of the machines: a list, or a text with commas.
        names: Value,
        /// Settings of single machines, by name.
        vm_overrides: Option<Map> = None,
        /// Settings below those of the provider and the profile.
        opts: Option<Map> = None,
        ..kwargs
    });

    /// Make the machines of a map that do not exist yet.
    ///
    ///     salt-call cloud.map_run /etc/salt/cloud.maps.d/web.map
    fn map_run(MapRun {
        /// The file of the map. Instead, `map_data` is the map itself, or `map_pillar` its name below
        /// `cloud:maps` of the pillar.
        path: Option<String> = None,
        ..kwargs
    });

    /// Remove machines, and their keys from the master.
    ///
    ///     salt-call cloud.destroy web1
    fn destroy(Destroy {
        /// The names of the machines: a list, or a text with commas.
        names: Value,
    });

    /// Call an action of machines, or a function of a provider.
    ///
    ///     salt-call cloud.action stop instance=web1
    fn action(Action {
        /// The action or function.
        fun: Option<String> = None,
        /// No effect, as in Salt.
        cloudmap: Value = Value::Null,
        /// The names of the machines: a list, or a text with commas.
        names: Value = Value::Null,
        /// The provider whose function is called.
        provider: Option<String> = None,
        /// The name of one machine.
        instance: Option<String> = None,
        ..kwargs
    });

    /// Make machines without a profile.
    ///
    ///     salt-call cloud.create my-ec2 web1 image=ami-1624987f size=t3.micro
    fn create(Create {
        /// The provider.
        provider: String,
        /// The names of the machines: a list, or a text with commas.
        names: Value,
        /// Settings below those of the provider.
        opts: Option<Map> = None,
        ..kwargs
    });

    /// Return the machines that a call has begun to make and not finished. Call the function that
    /// made them again to finish them, or `cloud.destroy` to remove them.
    ///
    ///     salt-call cloud.orphans
    fn orphans(Orphans {});
}

/// A list of what a provider offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Images.
    Images,
    /// Sizes of machines.
    Sizes,
    /// Locations.
    Locations,
}

/// The work of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// List what providers offer.
    Offers(Offer, String),
    /// List the machines, by the kind of query.
    Query(String),
    /// Make machines by a profile.
    Profile {
        /// The profile.
        profile: String,
        /// The names of the machines.
        names: Vec<String>,
        /// Settings of single machines, by name.
        overrides: Map,
    },
    /// Make the machines of a map. `map`, `map_data` or `map_pillar` of the settings is the map.
    Map,
    /// Remove machines.
    Destroy(Vec<String>),
    /// Call an action of machines.
    Action {
        /// The action.
        fun: String,
        /// The names of the machines.
        names: Vec<String>,
        /// Its arguments.
        kwargs: Map,
    },
    /// Call a function of a provider.
    Function {
        /// The function.
        fun: String,
        /// The provider.
        provider: String,
        /// Its arguments.
        kwargs: Map,
    },
    /// Make machines without a profile.
    Create {
        /// The provider.
        provider: String,
        /// The names of the machines.
        names: Vec<String>,
        /// Their settings.
        settings: Map,
    },
    /// List the machines that are half-made.
    Orphans,
}

/// A request to the clouds.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The work.
    pub work: Work,
    /// Settings that are added to those of the file `cloud`, such as `parallel` and `deploy`.
    pub settings: Map,
    /// Providers, profiles and maps that are added to those of the files.
    pub pillar: Map,
}

impl From<Work> for Request {
    fn from(work: Work) -> Self {
        Self {
            work,
            settings: Map::new(),
            pillar: Map::new(),
        }
    }
}

/// A function that answers requests.
pub type Clouds = fn(&Exec, Request) -> Result<Value, Error>;

static CLOUDS: OnceLock<Clouds> = OnceLock::new();

/// Sets the function that answers requests. Only the first one counts.
pub fn serve(clouds: Clouds) {
    CLOUDS.get_or_init(|| clouds);
}

/// Answers a request.
///
/// # Errors
/// When the program contains no clouds, or the answer is an error.
pub(crate) fn ask(cx: &Exec, request: Request) -> Result<Value, Error> {
    match CLOUDS.get() {
        Some(clouds) => clouds(cx, request),
        None => Err(Error::refused(
            "this program has no clouds (feature `cloud`): use the package pinch-master".to_owned(),
        )),
    }
}

/// Answers a request with the providers, profiles and maps of the pillar.
fn with_pillar(cx: &Exec, work: Work, settings: Map) -> Result<Value, Error> {
    let pillar = cx.pillar()?.get("cloud").and_then(Value::as_map).cloned();
    let request = Request {
        work,
        settings,
        pillar: pillar.unwrap_or_default(),
    };
    ask(cx, request)
}

/// Returns the names of machines: a list, or a text with commas.
pub(crate) fn names(given: &Value) -> Vec<String> {
    match given {
        Value::Null => Vec::new(),
        Value::List(_) | Value::Tuple(_) => given.texts(),
        one => {
            let text = one.to_text();
            let names = text.split(',').map(str::trim);
            let names = names.filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        }
    }
}

/// Returns keyword arguments without those that the caller's program has added.
pub(crate) fn own(mut kwargs: Map) -> Map {
    kwargs.retain(|key, _| !key.as_str().is_some_and(|key| key.starts_with("__")));
    kwargs
}

/// Returns the work of an action: of machines, or of a provider. `None` if both or none are named.
pub(crate) fn work_of_action(
    fun: Option<String>,
    (given, instance): (&Value, Option<String>),
    provider: Option<String>,
    kwargs: Map,
) -> Result<Work, String> {
    let fun = fun.unwrap_or_default();
    let named = names(given);
    if !named.is_empty() && instance.is_some() {
        return Err(
            "Please specify either a list of 'names' or a single 'instance', but not both."
                .to_owned(),
        );
    }
    let names = instance.map_or(named, |instance| vec![instance]);
    match (provider, names.is_empty()) {
        (None, false) => Ok(Work::Action { fun, names, kwargs }),
        (Some(provider), true) => Ok(Work::Function {
            fun,
            provider,
            kwargs,
        }),
        _ => Err(
            "Either an instance (or list of names) or a provider must be specified, but not both."
                .to_owned(),
        ),
    }
}

fn list_sizes(cx: &Exec, args: ListSizes) -> Result<Value, Error> {
    with_pillar(cx, Work::Offers(Offer::Sizes, args.provider), Map::new())
}

fn list_images(cx: &Exec, args: ListImages) -> Result<Value, Error> {
    with_pillar(cx, Work::Offers(Offer::Images, args.provider), Map::new())
}

fn list_locations(cx: &Exec, args: ListLocations) -> Result<Value, Error> {
    with_pillar(
        cx,
        Work::Offers(Offer::Locations, args.provider),
        Map::new(),
    )
}

fn query(cx: &Exec, args: Query) -> Result<Value, Error> {
    with_pillar(cx, Work::Query(args.query_type), Map::new())
}

fn full_query(cx: &Exec, args: FullQuery) -> Result<Value, Error> {
    with_pillar(cx, Work::Query(args.query_type), Map::new())
}

fn select_query(cx: &Exec, args: SelectQuery) -> Result<Value, Error> {
    with_pillar(cx, Work::Query(args.query_type), Map::new())
}

/// Returns what is known of a machine, if it exists.
pub(crate) fn instance(
    cx: &Exec,
    name: &str,
    provider: Option<&str>,
) -> Result<Option<Value>, Error> {
    let all = with_pillar(cx, Work::Query("list_nodes_full".to_owned()), Map::new())?;
    let aliases = all.as_map().into_iter().flatten();
    let aliases =
        aliases.filter(|(alias, _)| provider.is_none_or(|wanted| alias.as_text() == wanted));
    let drivers = aliases.flat_map(|(_, drivers)| drivers.as_map().into_iter().flatten());
    let mut found = drivers.filter_map(|(_, machines)| machines.get(name));
    Ok(found.next().cloned())
}

fn has_instance(cx: &Exec, args: HasInstance) -> Result<Value, Error> {
    Ok(instance(cx, &args.name, args.provider.as_deref())?
        .is_some()
        .into())
}

fn get_instance(cx: &Exec, args: GetInstance) -> Result<Value, Error> {
    Ok(instance(cx, &args.name, args.provider.as_deref())?.unwrap_or_default())
}

fn profile(cx: &Exec, args: Profile) -> Result<Value, Error> {
    let mut settings = args.opts.unwrap_or_default();
    settings.update(own(args.kwargs));
    let work = Work::Profile {
        profile: args.profile,
        names: names(&args.names),
        overrides: args.vm_overrides.unwrap_or_default(),
    };
    with_pillar(cx, work, settings)
}

fn map_run(cx: &Exec, args: MapRun) -> Result<Value, Error> {
    let mut settings = own(args.kwargs);
    if let Some(path) = args.path {
        settings.insert("map", path);
    }
    with_pillar(cx, Work::Map, settings)
}

fn destroy(cx: &Exec, args: Destroy) -> Result<Value, Error> {
    with_pillar(cx, Work::Destroy(names(&args.names)), Map::new())
}

fn action(cx: &Exec, args: Action) -> Result<Value, Error> {
    let names = (&args.names, args.instance);
    let work = work_of_action(args.fun, names, args.provider, own(args.kwargs));
    match work {
        Ok(work) => with_pillar(cx, work, Map::new()),
        Err(text) => Err(Error::refused(text)),
    }
}

fn create(cx: &Exec, args: Create) -> Result<Value, Error> {
    let work = Work::Create {
        provider: args.provider,
        names: names(&args.names),
        settings: own(args.kwargs),
    };
    with_pillar(cx, work, args.opts.unwrap_or_default())
}

fn orphans(cx: &Exec, _args: Orphans) -> Result<Value, Error> {
    ask(cx, Work::Orphans.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_list_or_a_text_with_commas() {
        assert_eq!(names(&"a, b,,c".into()), ["a", "b", "c"]);
        assert_eq!(names(&Value::list(["a".into(), "b".into()])), ["a", "b"]);
        assert!(names(&Value::Null).is_empty());
    }

    #[test]
    fn an_action_is_of_machines_or_of_a_provider() {
        let of = |names: &str, instance: Option<&str>, provider: Option<&str>| {
            let instance = instance.map(str::to_owned);
            let provider = provider.map(str::to_owned);
            work_of_action(
                Some("stop".to_owned()),
                (&names.into(), instance),
                provider,
                Map::new(),
            )
        };
        assert!(matches!(of("a", None, None), Ok(Work::Action { names, .. }) if names == ["a"]));
        assert!(
            matches!(of("", Some("b"), None), Ok(Work::Action { names, .. }) if names == ["b"])
        );
        assert!(matches!(of("", None, Some("p")), Ok(Work::Function { .. })));
        assert!(of("a", Some("b"), None).is_err_and(|text| text.contains("not both")));
        assert!(of("a", None, Some("p")).is_err());
        assert!(of("", None, None).is_err());
    }

    #[test]
    fn a_program_without_clouds_says_so() {
        let error = ask(&crate::testing::exec(), Work::Orphans.into()).unwrap_err();
        assert!(error.to_string().contains("has no clouds"));
    }
}
