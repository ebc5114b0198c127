//! The `cloud` runner: makes, lists and removes machines of clouds, for orchestrations.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::cloud::{Offer, Request, Work, ask, names, own, work_of_action};

state::exec_module! {
    /// Make, list and remove machines of clouds.
    mod cloud;

    /// Return the sizes of machines that providers offer.
    ///
    ///     salt-run cloud.list_sizes my-ec2
    fn list_sizes(ListSizes {
        /// The provider, its driver, or `all`.
        provider: String = "all".into(),
    });

    /// Return the images that providers offer.
    ///
    ///     salt-run cloud.list_images my-ec2
    fn list_images(ListImages {
        /// The provider, its driver, or `all`.
        provider: String = "all".into(),
    });

    /// Return the locations that providers offer.
    ///
    ///     salt-run cloud.list_locations my-ec2
    fn list_locations(ListLocations {
        /// The provider, its driver, or `all`.
        provider: String = "all".into(),
    });

    /// Return the machines of all providers.
    ///
    ///     salt-run cloud.query
    fn query(Query {
        /// `list_nodes`, `list_nodes_full`, `list_nodes_select` or `list_nodes_min`.
        query_type: String = "list_nodes".into(),
    });

    /// Return the machines of all providers with everything that is known of them.
    ///
    ///     salt-run cloud.full_query
    fn full_query(FullQuery {
        /// The kind of query, as for `cloud.query`.
        query_type: String = "list_nodes_full".into(),
    });

    /// Return what the option `query.selection` selects of each machine.
    ///
    ///     salt-run cloud.select_query
    fn select_query(SelectQuery {
        /// The kind of query, as for `cloud.query`.
        query_type: String = "list_nodes_select".into(),
    });

    /// Make machines by a profile. The call fails if one of them cannot be made.
    ///
    ///     salt-run cloud.profile prof=web instances=web1,web2
    #[facts(continues = true)]
    fn profile(Profile {
        /// The profile; also `profile`.
        prof: Option<String> = None,
        /// The names of the machines: a list, or a text with commas; also `names`.
        instances: Value = Value::Null,
        /// Settings below those of the provider and the profile.
        opts: Option<Map> = None,
        ..kwargs
    });

    /// Make the machines of a map that do not exist yet.
    ///
    ///     salt-run cloud.map_run /etc/salt/cloud.maps.d/web.map
    #[facts(continues = true)]
    fn map_run(MapRun {
        /// The file of the map. Instead, `map_data` is the map itself.
        path: Option<String> = None,
        ..kwargs
    });

    /// Remove machines, and their keys from the master.
    ///
    ///     salt-run cloud.destroy web1
    #[facts(continues = true)]
    fn destroy(Destroy {
        /// The names of the machines: a list, or a text with commas.
        instances: Value,
        /// Settings that are added to those of the file `cloud`.
        opts: Option<Map> = None,
    });

    /// Call an action of machines, or a function of a provider.
    ///
    ///     salt-run cloud.action stop instance=web1
    fn action(Action {
        /// The action or function; also `fun`.
        func: Option<String> = None,
        /// No effect, as in Salt.
        cloudmap: Value = Value::Null,
        /// The names of the machines: a list, or a text with commas; also `names`.
        instances: Value = Value::Null,
        /// The provider whose function is called.
        provider: Option<String> = None,
        /// The name of one machine.
        instance: Option<String> = None,
        /// Settings that are added to those of the file `cloud`.
        opts: Option<Map> = None,
        ..kwargs
    });

    /// Make machines without a profile.
    ///
    ///     salt-run cloud.create my-ec2 web1 image=ami-1624987f size=t3.micro
    #[facts(continues = true)]
    fn create(Create {
        /// The provider.
        provider: String,
        /// The names of the machines: a list, or a text with commas.
        instances: Value,
        /// Settings below those of the provider.
        opts: Option<Map> = None,
        ..kwargs
    });

    /// Return the machines that a call has begun to make and not finished. Call the function that
    /// made them again to finish them, or `cloud.destroy` to remove them.
    ///
    ///     salt-run cloud.orphans
    fn orphans(Orphans {});
}

/// Answers a request. The call has failed if the answer has an `Error`, also that of one machine.
fn answered(cx: &Exec, work: Work, settings: Map) -> Result<Value, Error> {
    let request = Request {
        settings,
        ..work.into()
    };
    let answer = ask(cx, request)?;
    if has_error(&answer) {
        cx.set_retcode(1);
    }
    Ok(answer)
}

/// The depth of a machine's data in an answer: below its provider, the driver and its name.
const DEPTH_OF_MACHINE: usize = 3;

/// Returns whether an answer has an `Error`: of the call, or of a provider or a machine.
fn has_error(answer: &Value) -> bool {
    has_error_within(answer, DEPTH_OF_MACHINE)
}

fn has_error_within(value: &Value, depth: usize) -> bool {
    if value.get("Error").is_some_and(Value::is_true) {
        return true;
    }
    let mut parts = value.as_map().into_iter().flat_map(Map::values);
    depth > 0 && parts.any(|part| has_error_within(part, depth - 1))
}

fn error(text: &str) -> Value {
    Map::new().with("Error", text).into()
}

fn list_sizes(cx: &Exec, args: ListSizes) -> Result<Value, Error> {
    answered(cx, Work::Offers(Offer::Sizes, args.provider), Map::new())
}

fn list_images(cx: &Exec, args: ListImages) -> Result<Value, Error> {
    answered(cx, Work::Offers(Offer::Images, args.provider), Map::new())
}

fn list_locations(cx: &Exec, args: ListLocations) -> Result<Value, Error> {
    answered(
        cx,
        Work::Offers(Offer::Locations, args.provider),
        Map::new(),
    )
}

fn query(cx: &Exec, args: Query) -> Result<Value, Error> {
    answered(cx, Work::Query(args.query_type), Map::new())
}

fn full_query(cx: &Exec, args: FullQuery) -> Result<Value, Error> {
    answered(cx, Work::Query(args.query_type), Map::new())
}

fn select_query(cx: &Exec, args: SelectQuery) -> Result<Value, Error> {
    answered(cx, Work::Query(args.query_type), Map::new())
}

fn profile(cx: &Exec, args: Profile) -> Result<Value, Error> {
    let mut kwargs = own(args.kwargs);
    let other = kwargs.remove("profile").map(|name| name.to_text());
    let Some(profile) = args.prof.or(other) else {
        cx.set_retcode(1);
        return Ok(error("A profile (or prof) must be defined"));
    };
    let other = kwargs.remove("names").unwrap_or_default();
    let names = names(if args.instances.is_null() {
        &other
    } else {
        &args.instances
    });
    if names.is_empty() {
        cx.set_retcode(1);
        return Ok(error("One or more instances (comma-delimited) must be set"));
    }
    let overrides = kwargs.remove("vm_overrides");
    let work = Work::Profile {
        profile,
        names,
        overrides: overrides
            .and_then(|map| map.as_map().cloned())
            .unwrap_or_default(),
    };
    let mut settings = args.opts.unwrap_or_default();
    settings.update(kwargs);
    answered(cx, work, settings)
}

fn map_run(cx: &Exec, args: MapRun) -> Result<Value, Error> {
    let mut settings = own(args.kwargs);
    if let Some(path) = args.path {
        settings.insert("map", path);
    }
    answered(cx, Work::Map, settings)
}

fn destroy(cx: &Exec, args: Destroy) -> Result<Value, Error> {
    let work = Work::Destroy(names(&args.instances));
    answered(cx, work, args.opts.unwrap_or_default())
}

fn action(cx: &Exec, args: Action) -> Result<Value, Error> {
    let mut kwargs = own(args.kwargs);
    let other = kwargs.remove("fun").map(|name| name.to_text());
    let others = kwargs.remove("names").unwrap_or_default();
    let given = if args.instances.is_null() {
        &others
    } else {
        &args.instances
    };
    let work = work_of_action(
        args.func.or(other),
        (given, args.instance),
        args.provider,
        kwargs,
    );
    let work = work.map_err(Error::refused)?;
    answered(cx, work, args.opts.unwrap_or_default())
}

fn create(cx: &Exec, args: Create) -> Result<Value, Error> {
    let work = Work::Create {
        provider: args.provider,
        names: names(&args.instances),
        settings: own(args.kwargs),
    };
    answered(cx, work, args.opts.unwrap_or_default())
}

fn orphans(cx: &Exec, _args: Orphans) -> Result<Value, Error> {
    answered(cx, Work::Orphans, Map::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_one_machine_is_one_of_the_call() {
        let machine = |part: Map| Value::from(Map::new().with("web1", part));
        assert!(has_error(&machine(Map::new().with("Error", "no quota"))));
        assert!(!has_error(&machine(Map::new().with("id", "i-1"))));
        assert!(has_error(&error("no profile")));
        assert!(!has_error(&Value::Null));
    }

    #[test]
    fn a_call_without_a_profile_or_machines_has_failed() {
        let cx = crate::testing::exec();
        let no_names = Profile {
            prof: Some("web".to_owned()),
            instances: Value::Null,
            opts: None,
            kwargs: Map::new(),
        };
        let answer = profile(&cx, no_names).unwrap();
        let text = "One or more instances (comma-delimited) must be set";
        assert_eq!(answer.get("Error"), Some(&text.into()));
        assert_eq!(cx.retcode(), 1);
    }
}
