//! `file.decode`.

use std::path::Path;

use machine::fs;
use python::base64;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::hashutil::digest_of;

state::state_module! {
    /// Create files from base64 data.
    #[facts(effects = Effects::Files(&["name"]))]
    mod file;

    /// Decode base64 data and write it to a file.
    ///
    ///     /etc/app/key:
    ///       file.decode:
    ///         - encoded_data: c2VjcmV0Cg==
    ///         - encoding_type: base64
    fn decode(Decode {
        /// The path of the file.
        name: String,
        /// The data.
        encoded_data: Value = Value::Null,
        /// The pillar key that contains the data.
        contents_pillar: Option<String> = None,
        /// Ignored: the encoding of the data is always base64.
        encoding_type: Value = "base64".into(),
        /// The type of the hash that files are compared by: md5, sha256 or sha512.
        checksum: String = "md5".into(),
    });
}

fn decode(cx: &Exec, args: Decode) -> Result<Ret, Error> {
    let content = content(cx, &args)?;
    let path = Path::new(&args.name);
    let mut old = Value::Null;
    if path.is_file() {
        let data = fs::read(path)?;
        let has = digest_of(&data, &args.checksum)?;
        if digest_of(&base64::decode(&content)?, &args.checksum)? == has {
            return Ok(Ret::ok("File is in the correct state."));
        }
        old = has.into();
    }
    let data = base64::decode_lines(&content)?;
    let new = digest_of(&data, &args.checksum)?;
    let would = Ret::would("File is set to be updated.");
    let changes = Map::new().with("old", old.clone()).with("new", new);
    // As in Salt, test mode does not report the hash of a new file.
    let would = if old.is_null() {
        would
    } else {
        would.changes(changes.clone())
    };
    cx.apply(would, || {
        fs::write(cx, path, &data, fs::Owner::default())?;
        Ok(Ret::ok("File was updated.").changes(changes))
    })
}

fn content(cx: &Exec, args: &Decode) -> Result<String, Error> {
    match (args.encoded_data.is_true(), &args.contents_pillar) {
        (false, None) => {
            Err("Specify either the 'encoded_data' or 'contents_pillar' argument.".into())
        }
        (true, Some(_)) => {
            Err("Specify only one 'encoded_data' or 'contents_pillar' argument.".into())
        }
        (true, None) => Ok(args.encoded_data.to_text()),
        (false, Some(key)) => {
            let pillar = Value::from(cx.pillar()?);
            let found = pillar.traverse(key, ":");
            found
                .map(Value::to_text)
                .ok_or_else(|| "Pillar data not found.".into())
        }
    }
}
