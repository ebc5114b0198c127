//! The `gpg` execution module, through the program `gpg`: decrypting.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::accounts;
use crate::process::Process;

state::exec_module! {
    /// GnuPG.
    mod gpg;

    /// Decrypt a message or a file, with the secret keys of a user or a folder.
    fn decrypt(Decrypt {
        /// The user whose keys are used.
        user: Option<String> = None,
        /// The message.
        text: Option<String> = None,
        /// A file with the message.
        filename: Option<String> = None,
        /// The file to write to.
        output: Option<String> = None,
        /// Not there: keys with a passphrase need an agent that has it.
        use_passphrase: bool = false,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// Return the text alone.
        bare: bool = false,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });
}

/// The folder of a user's keys; that of whoever runs this where none is named.
fn home(user: Option<&str>) -> Result<String, Error> {
    let account = match user {
        Some(name) => accounts::user(name),
        None => accounts::user_of(rustix::process::getuid().as_raw()),
    };
    let missing = || Error::refused(format!("User {} does not exist", user.unwrap_or_default()));
    Ok(format!("{}/.gnupg", account.ok_or_else(missing)?.home))
}

fn decrypt(cx: &Exec, args: Decrypt) -> Result<Value, Error> {
    if args.use_passphrase {
        return Err("use_passphrase is not there: let a gpg-agent keep the passphrase".into());
    }
    let home = match args.gnupghome.filter(|home| !home.is_empty()) {
        Some(home) => home,
        None => home(args.user.as_deref())?,
    };
    let mut words = ["gpg", "--homedir", &home, "--batch", "--no-tty"]
        .map(str::to_owned)
        .to_vec();
    let mut option = |name: &str, value: &Option<String>| {
        if let Some(value) = value {
            words.extend([name.to_owned(), value.clone()]);
        }
    };
    option("--keyring", &args.keyring);
    option("--output", &args.output);
    words.push("--decrypt".into());
    let text = args.text.filter(|text| !text.is_empty());
    match (&text, args.filename) {
        (None, None) => return Err("filename or text must be passed.".into()),
        (None, Some(file)) => words.extend(["--".into(), file]),
        (Some(_), _) => {}
    }
    let gpg = Process {
        stdin: text.or_else(|| Some(String::new())),
        rstrip: false,
        ..Process::words(words).quiet()
    };
    let done = gpg.run(cx)?;
    if !done.success() {
        log::error(&done.stderr);
        return Ok(if args.bare {
            false.into()
        } else {
            answer(false, done.stderr.trim_end())
        });
    }
    Ok(match &args.output {
        _ if args.bare => done.stdout.into(),
        Some(output) => answer(
            true,
            &format!("Decrypted data has been written to {output}"),
        ),
        None => answer(true, &done.stdout),
    })
}

fn answer(res: bool, comment: &str) -> Value {
    Map::new().with("res", res).with("comment", comment).into()
}
