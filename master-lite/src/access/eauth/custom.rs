//! The sources that are custom modules, `_auth` of the tree: `auth`, and if they exist `groups` and
//! `acl`.

use state::custom::{Kind, Signature};
use state::module::Error;
use value::{Map, Value};

use super::Known;
use super::source::Source;

/// Returns whether a custom module's file has the name of a source.
pub(super) fn has(source: &Source, eauth: &str) -> bool {
    is_word(eauth) && source.cx.shared.custom.has_file(Kind::Auth, eauth)
}

/// Returns whether a name can be one of a module.
fn is_word(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_letter)
}

/// Checks a password with a custom module.
pub(super) fn check(
    source: &Source,
    eauth: &str,
    name: &str,
    password: &str,
) -> Result<Option<Known>, Error> {
    let call = |function: &str| called(source, eauth, function, name, password);
    let answer = is_word(eauth).then(|| call("auth")).transpose()?.flatten();
    let Some(answer) = answer else {
        return Err(Error::refused(format!(
            "no such source of external_auth; expected pam, file, ldap, rest, sharedsecret, auto or a file of _auth that saltutil.sync_all has copied, but got {eauth}"
        )));
    };
    if !answer.is_true() {
        return Ok(None);
    }
    let groups = call("groups")?.filter(Value::is_true);
    let module = source.opts().text("eauth_acl_module");
    let module = module.filter(|module| !module.is_empty());
    Ok(Some(Known {
        groups: groups.map(|groups| groups.texts()).unwrap_or_default(),
        acl: acl(source, module.unwrap_or(eauth), name, password)?,
    }))
}

/// Returns the rules that a custom module has for a user; `None` if those of the configuration apply.
pub(super) fn acl(
    source: &Source,
    module: &str,
    name: &str,
    password: &str,
) -> Result<Option<Vec<Value>>, Error> {
    if !is_word(module) {
        return Err(Error::refused(format!(
            "{module} is not the name of a module"
        )));
    }
    match called(source, module, "acl", name, password)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::List(rules)) => Ok(Some(rules.to_vec())),
        Some(other) => Err(Error::refused(format!(
            "{module}.acl must return a list of rules, but returned a {}",
            other.type_name()
        ))),
    }
}

/// Calls a function of a module with the arguments that it declares. Returns `None` if the module does
/// not have it.
fn called(
    source: &Source,
    module: &str,
    function: &str,
    name: &str,
    password: &str,
) -> Result<Option<Value>, Error> {
    let full = format!("{module}.{function}");
    let custom = &source.cx.shared.custom;
    let known = custom.functions(&source.cx, Kind::Auth);
    let Some((_, signature)) = known.into_iter().find(|(known, _)| *known == full) else {
        return Ok(None);
    };
    let given = Map::new()
        .with("username", name)
        .with("password", password)
        .with("eauth", module);
    let kwargs = accepted(&signature, given);
    custom
        .call_client(&source.cx, Kind::Auth, &full, Vec::new(), kwargs)
        .transpose()
}

/// Returns the arguments that a function accepts.
fn accepted(signature: &Signature, given: Map) -> Map {
    let is_accepted = |name: &Value| {
        let mut args = signature.args.iter();
        signature.kwargs || args.any(|(arg, _)| name.as_str() == Some(arg))
    };
    given
        .into_iter()
        .filter(|(name, _)| is_accepted(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_gets_the_arguments_that_it_declares() {
        let given = || Map::new().with("username", "joe").with("password", "x");
        let mut signature = Signature {
            args: vec![("username".into(), None)],
            ..Signature::default()
        };
        let names = |map: Map| map.keys().map(Value::to_text).collect::<Vec<_>>();
        assert_eq!(names(accepted(&signature, given())), ["username"]);
        signature.kwargs = true;
        assert_eq!(
            names(accepted(&signature, given())),
            ["username", "password"]
        );
    }

    #[test]
    fn a_source_has_the_name_of_a_module() {
        assert!(is_word("my_auth2"));
        for name in ["", "../pam", "a.b", "a b", "ä"] {
            assert!(!is_word(name), "{name}");
        }
    }
}
