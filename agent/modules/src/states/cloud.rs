//! The `cloud` state module: machines of clouds.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::cloud::{instance, own};

state::state_module! {
    /// Make and remove machines of clouds.
    #[facts(effects = Effects::Unknown)]
    mod cloud;

    /// Make sure that a machine exists. An existing one is not changed.
    ///
    ///     web1:
    ///       cloud.present:
    ///         - cloud_provider: my-ec2
    ///         - image: ami-1624987f
    ///         - size: t3.micro
    fn present(Present {
        /// The name of the machine.
        name: String,
        /// The provider.
        cloud_provider: String,
        /// Settings below those of the provider.
        opts: Option<Map> = None,
        ..kwargs
    });

    /// Make sure that no provider has a machine of this name.
    ///
    ///     web1:
    ///       cloud.absent
    fn absent(Absent {
        /// The name of the machine.
        name: String,
    });

    /// Make sure that a machine exists, and make it by a profile. An existing one is not changed.
    ///
    ///     web1:
    ///       cloud.profile:
    ///         - profile: web
    fn profile(Profile {
        /// The name of the machine.
        name: String,
        /// The profile.
        profile: String,
        /// Settings below those of the provider and the profile.
        opts: Option<Map> = None,
        ..kwargs
    });
}

/// Returns the error in an answer: that of the call, or of the machine.
fn error_in(answer: &Value, name: &str) -> Option<String> {
    let machine = answer.get(name);
    let errors = [
        answer.get("Error"),
        machine.and_then(|machine| machine.get("Error")),
    ];
    let errors = errors.into_iter().flatten().filter(|error| error.is_true());
    let errors: Vec<String> = errors.map(Value::to_text).collect();
    (!errors.is_empty()).then(|| errors.join("\n"))
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (name, provider) = (args.name.as_str(), args.cloud_provider.as_str());
    if instance(cx, name, None)?.is_some() {
        return Ok(Ret::ok(format!("Already present instance {name}")));
    }
    cx.apply(Ret::would(format!("Instance {name} needs to be created")), || {
        let settings = own(args.kwargs.clone());
        let shown = python::repr(&settings.clone().into());
        let mut kwargs = settings;
        kwargs.insert("opts", args.opts.clone().unwrap_or_default());
        let made = cx.call_internal("cloud.create", vec![provider.into(), name.into()], kwargs)?;
        Ok(match error_in(&made, name) {
            Some(error) => Ret::failed(format!(
                "Failed to create instance {name} using provider {provider}: {error}"
            )),
            None if made.is_true() => with_changes(made, format!(
                "Created instance {name} using provider {provider} and the following options: {shown}"
            )),
            None => Ret::failed(format!(
                "Failed to create instance {name} using provider {provider}, please check your configuration"
            )),
        })
    })
}

/// Returns the return of a state whose changes are an answer.
fn with_changes(answer: Value, comment: String) -> Ret {
    Ret {
        changes: answer,
        ..Ret::ok(comment)
    }
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    if instance(cx, name, None)?.is_none() {
        return Ok(Ret::ok(format!("Already absent instance {name}")));
    }
    cx.apply(
        Ret::would(format!("Instance {name} needs to be destroyed")),
        || {
            let gone = cx.call_internal("cloud.destroy", vec![name.into()], Map::new())?;
            Ok(match error_in(&gone, name) {
                Some(error) => Ret::failed(format!("Failed to destroy instance {name}: {error}")),
                None if gone.is_true() => with_changes(gone, format!("Destroyed instance {name}")),
                None => Ret::failed(format!("Failed to destroy instance {name}")),
            })
        },
    )
}

fn profile(cx: &Exec, args: Profile) -> Result<Ret, Error> {
    let (name, profile) = (args.name.as_str(), args.profile.as_str());
    if instance(cx, name, None)?.is_some() {
        return Ok(Ret::ok(format!("Already present instance {name}")));
    }
    cx.apply(
        Ret::would(format!("Instance {name} needs to be created")),
        || {
            let overrides = Map::new().with(name, own(args.kwargs.clone()));
            let kwargs = Map::new()
                .with("vm_overrides", overrides)
                .with("opts", args.opts.clone().unwrap_or_default());
            let made =
                cx.call_internal("cloud.profile", vec![profile.into(), name.into()], kwargs)?;
            let failed = format!("Failed to create instance {name} using profile {profile}");
            Ok(match error_in(&made, name) {
                Some(error) => Ret::failed(format!("{failed}: {error}")),
                None if made.is_true() => with_changes(
                    made,
                    format!("Created instance {name} using profile {profile}"),
                ),
                None => Ret::failed(failed),
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_the_call_and_of_the_machine_are_one_comment() {
        let machine = Map::new().with("Error", "no quota");
        let answer = Map::new().with("web1", machine).with("Error", "no profile");
        let error = error_in(&answer.into(), "web1");
        assert_eq!(error.as_deref(), Some("no profile\nno quota"));
        assert_eq!(error_in(&Map::new().into(), "web1"), None);
    }
}
