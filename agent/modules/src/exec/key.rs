//! The `key` execution module: the fingerprints of this minion's key and of its master's.

use machine::hashes;
use state::exec::Exec;
use state::module::Error;
use value::Value;

state::exec_module! {
    /// Return the fingerprints of this minion's key and of its master's key.
    mod key;

    /// Return the fingerprint of this minion's public key.
    ///
    ///     salt-call key.finger
    fn finger(Finger {
        /// The hash function. The default is the option `hash_type`.
        hash_type: Option<String> = None,
    });

    /// Return the fingerprint of the master's public key, as stored by this minion.
    ///
    ///     salt-call key.finger_master
    fn finger_master(FingerMaster {
        /// The hash function. The default is the option `hash_type`.
        hash_type: Option<String> = None,
    });
}

/// Returns the fingerprint of a public key. Pinch's key is next to the key of an installed Salt, if
/// there is one, and is preferred.
fn finger_of(cx: &Exec, name: &str, hash_type: Option<String>) -> Result<Value, Error> {
    let folder = cx.opts().path("pki_dir");
    let own = folder.join(format!("{name}.ed25519.pub"));
    let path = if own.is_file() {
        own
    } else {
        folder.join(format!("{name}.pub"))
    };
    let pem = machine::fs::text(&path)?;
    let of_opts = || cx.opts().text("hash_type").unwrap_or("sha256").to_owned();
    let kind = hash_type.unwrap_or_else(of_opts);
    Ok(hashes::pem_finger(&pem, &kind)?.into())
}

fn finger(cx: &Exec, args: Finger) -> Result<Value, Error> {
    finger_of(cx, "minion", args.hash_type)
}

fn finger_master(cx: &Exec, args: FingerMaster) -> Result<Value, Error> {
    finger_of(cx, "minion_master", args.hash_type)
}

#[cfg(test)]
mod tests {
    use value::Map;

    use crate::testing;

    #[test]
    fn a_fingerprint_is_that_of_salt() {
        const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\nGb9ECWmEzf6FQbrBZ9w7\n-----END PUBLIC KEY-----\n";
        let folder = tempfile::tempdir().unwrap();
        let opts = Map::new().with("pki_dir", folder.path().to_string_lossy().as_ref());
        let cx = testing::exec_with(opts, Map::new());
        let call =
            |function: &str, kind: &str| cx.call_internal(function, vec![kind.into()], Map::new());
        assert!(call("key.finger", "md5").is_err());
        std::fs::write(folder.path().join("minion.pub"), KEY).unwrap();
        std::fs::write(folder.path().join("minion_master.pub"), "another\n").unwrap();
        std::fs::write(folder.path().join("minion_master.ed25519.pub"), KEY).unwrap();
        for function in ["key.finger", "key.finger_master"] {
            assert_eq!(
                call(function, "md5").unwrap(),
                "25:a9:23:30:ca:07:72:b3:77:e1:cf:47:a0:87:90:7a".into()
            );
        }
        assert!(call("key.finger", "nosuch").is_err());
    }
}
