//! The renderer `gpg`: decrypts the encrypted messages in texts, with the function `gpg.decrypt`.

use std::sync::Arc;

use value::{Map, Value, log, secret};

use crate::{Error, Host, Kind};

const BEGIN: &str = "-----BEGIN PGP MESSAGE-----";
const END: &str = "-----END PGP MESSAGE-----";

/// Returns the data with every encrypted message decrypted. The values that were encrypted, at
/// `path` and below, are registered as secrets.
///
/// # Errors
/// When a message cannot be decrypted, unless `gpg_decrypt_must_succeed` is false.
pub fn decrypted(path: &[&str], value: Value, host: &Arc<dyn Host>) -> Result<Value, Error> {
    Ok(match value {
        Value::Str(text) if text.contains(BEGIN) => in_text(&text, host, |said| {
            secret::keep(path, &said.into());
        })?
        .into(),
        Value::List(items) => {
            let items = items.iter();
            let items = items.map(|item| decrypted(path, item.clone(), host));
            items.collect::<Result<Vec<Value>, Error>>()?.into()
        }
        Value::Map(map) => {
            let pairs = map.into_iter().map(|(key, value)| {
                let value = decrypted(&[path, &[&*key.as_text()]].concat(), value, host)?;
                Ok((key, value))
            });
            pairs.collect::<Result<Map, Error>>()?.into()
        }
        other => other,
    })
}

/// Returns the text with every message decrypted, and passes each decrypted message to `keep`.
///
/// # Errors
/// As [`decrypted`].
pub(crate) fn in_text(
    text: &str,
    host: &Arc<dyn Host>,
    mut keep: impl FnMut(&str),
) -> Result<String, Error> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, from)) = rest.split_once(BEGIN) {
        let Some((body, after)) = from.split_once(END) else {
            break;
        };
        out.push_str(before);
        let said = message(&format!("{BEGIN}{body}{END}"), host)?;
        // A message that stays encrypted is not a secret.
        if !said.contains(BEGIN) {
            keep(&said);
        }
        out.push_str(&said);
        rest = after;
    }
    out.push_str(rest);
    // A text of several lines ends with a newline that is not part of the encrypted message.
    Ok(out.trim_end_matches('\n').to_owned())
}

fn message(cipher: &str, host: &Arc<dyn Host>) -> Result<String, Error> {
    let cipher = cipher.replace("\\n", "\n");
    let kwargs = Map::new()
        .with("text", cipher.as_str())
        .with("gnupghome", keys(host)?);
    let done = host.call("gpg.decrypt", Vec::new(), kwargs);
    let done = done.map_err(failed)?;
    let comment = done.get("comment").map(Value::to_text).unwrap_or_default();
    if done.get("res").is_some_and(Value::is_true) {
        return Ok(comment);
    }
    let problem = format!("Could not decrypt cipher, received: {comment}");
    if option("gpg_decrypt_must_succeed", host)? == Value::Bool(false) {
        log::warning(&problem);
        return Ok(cipher);
    }
    Err(failed(problem))
}

/// Returns the folder of the keys: the option `gpg_keydir`, or `gpgkeys` next to the configuration.
fn keys(host: &Arc<dyn Host>) -> Result<Value, Error> {
    let named = option("gpg_keydir", host)?;
    if named.is_true() {
        return Ok(named);
    }
    let folder = option("config_dir", host)?;
    if folder.is_true() {
        return Ok(format!("{}/gpgkeys", folder.to_text()).into());
    }
    let file = option("conf_file", host)?.to_text();
    let folder = file.rsplit_once('/').map_or(".", |(folder, _)| folder);
    Ok(format!("{folder}/gpgkeys").into())
}

fn option(name: &str, host: &Arc<dyn Host>) -> Result<Value, Error> {
    let value = host.call("config.get", vec![name.into()], Map::new());
    value.map_err(failed)
}

fn failed(message: String) -> Error {
    Error::new(Kind::Document, message)
}
