//! Encrypts, decrypts and signs messages and files.

use std::path::Path;

use machine::fs;
use machine::process::Output;
use state::exec::Exec;
use state::module::Error;
use value::{Value, log};

use super::keyring::{Keyring, failed, statuses};
use super::{Decrypt, Encrypt, Sign, answer, passphrase};

/// A message, and the file to write the result to.
struct Message {
    text: Option<String>,
    filename: Option<String>,
    output: Option<String>,
    passphrase: Option<String>,
}

impl Message {
    fn new(
        text: Option<String>,
        filename: Option<String>,
        output: Option<String>,
        passphrase: Option<String>,
    ) -> Result<Self, Error> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        // `gpg` may run in another working directory, so paths have to be absolute.
        let whole = |path: Option<String>| {
            let path = given(path).map(|path| std::path::absolute(&path).map_err(Error::io(path)));
            let path = path.transpose()?;
            Ok::<_, Error>(path.map(|path| path.display().to_string()))
        };
        let message = Self {
            text: given(text),
            filename: whole(filename)?,
            output: whole(output)?,
            passphrase,
        };
        if let (None, path) = (&message.text, &message.filename) {
            let path = path.as_deref().ok_or("filename or text must be passed.")?;
            std::fs::metadata(path).map_err(Error::io(path))?;
        }
        Ok(message)
    }

    /// Runs `gpg` on the message.
    fn through(&self, cx: &Exec, keyring: &Keyring, words: &[&str]) -> Result<Output, Error> {
        let output = self.output.as_deref();
        let mut all = vec!["--yes", "--output", output.unwrap_or("-")];
        all.extend(words);
        if let (None, Some(path)) = (&self.text, &self.filename) {
            all.extend(["--", path]);
        }
        let run = || keyring.gpg_with(cx, &all, self.text.clone(), self.passphrase.as_deref());
        match output {
            Some(output) => fs::changed_by(cx, Path::new(output), run),
            None => run(),
        }
    }

    /// Returns the result of `encrypt` and `decrypt`. `done` is the word for the successful action.
    fn result(&self, output: Output, done: &str, bare: bool) -> Value {
        if !output.success() {
            log::error(&output.stderr);
            return match bare {
                true => false.into(),
                false => {
                    let status = status(&output);
                    answer(
                        false,
                        &format!("{status}.\nPlease check the salt-minion log."),
                    )
                }
            };
        }
        match &self.output {
            _ if bare => output.into_stdout_regardless().into(),
            Some(file) => answer(true, &format!("{done} data has been written to {file}")),
            None => answer(true, output.stdout_regardless()),
        }
    }
}

/// Returns the status of `gpg` in the words of the Python library that Salt uses; in other words
/// where the library has none.
fn status(output: &Output) -> String {
    let mut status = String::new();
    for line in statuses(output) {
        let word = line.split(' ').next().unwrap_or_default();
        let new = match word {
            "NODATA" if status != "decryption failed" => "no data was provided",
            "DECRYPTION_FAILED" if status != "no secret key" => "decryption failed",
            "BEGIN_DECRYPTION" if status != "no secret key" => "decryption incomplete",
            "BEGIN_ENCRYPTION" => "encryption incomplete",
            "NEED_PASSPHRASE_SYM" => "need symmetric passphrase",
            "BAD_PASSPHRASE" => "bad passphrase",
            "MISSING_PASSPHRASE" => "missing passphrase",
            "KEYEXPIRED" => "key expired",
            "NO_SECKEY" => "no secret key",
            "INV_RECP" if !status.is_empty() => {
                status = format!("invalid recipient: {status}");
                continue;
            }
            "INV_RECP" => "invalid recipient",
            _ => continue,
        };
        new.clone_into(&mut status);
    }
    match status.is_empty() {
        true => failed(output).to_string(),
        false => status,
    }
}

fn keyring(
    cx: &Exec,
    user: Option<String>,
    home: Option<String>,
    keyring: Option<String>,
) -> Result<Keyring, Error> {
    Keyring::open(cx, user.as_deref(), home.as_deref(), keyring.as_deref())
}

pub(super) fn decrypt(cx: &Exec, args: Decrypt) -> Result<Value, Error> {
    let passphrase = passphrase(cx, args.use_passphrase)?;
    let message = Message::new(args.text, args.filename, args.output, passphrase)?;
    let keyring = keyring(cx, args.user, args.gnupghome, args.keyring)?;
    let said = message.through(cx, &keyring, &["--decrypt"])?;
    Ok(message.result(said, "Decrypted", args.bare))
}

pub(super) fn encrypt(cx: &Exec, args: Encrypt) -> Result<Value, Error> {
    let passphrase = passphrase(cx, args.sign.is_true() && args.use_passphrase)?;
    let message = Message::new(args.text, args.filename, args.output, passphrase)?;
    let recipients = args.recipients.texts();
    if recipients.is_empty() {
        return Err("No recipients specified: name them with recipients".into());
    }
    let keyring = keyring(cx, args.user, args.gnupghome, args.keyring)?;
    let signer = args.sign.as_str().map(str::to_owned);
    let mut words = vec!["--encrypt", "--armor"];
    for recipient in &recipients {
        words.extend(["--recipient", recipient]);
    }
    if args.sign.is_true() {
        words.push("--sign");
    }
    if let Some(signer) = signer.as_deref().filter(|signer| !signer.is_empty()) {
        words.extend(["--local-user", signer]);
    }
    if args.always_trust {
        words.extend(["--trust-model", "always"]);
    }
    let said = message.through(cx, &keyring, &words)?;
    Ok(message.result(said, "Encrypted", args.bare))
}

pub(super) fn sign(cx: &Exec, args: Sign) -> Result<Value, Error> {
    let passphrase = passphrase(cx, args.use_passphrase)?;
    let message = Message::new(args.text, args.filename, None, passphrase)?;
    let keyring = keyring(cx, args.user, args.gnupghome, args.keyring)?;
    let mut words = vec!["--clearsign"];
    if let Some(key) = args.keyid.as_deref().filter(|key| !key.is_empty()) {
        words.extend(["--local-user", key]);
    }
    let said = message.through(cx, &keyring, &words)?;
    if !said.success() {
        return Err(failed(&said));
    }
    if let Some(output) = args.output.filter(|output| !output.is_empty()) {
        let text = said.stdout_regardless().as_bytes();
        fs::write(cx, Path::new(&output), text, fs::Owner::default())?;
    }
    Ok(said.into_stdout_regardless().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gpg_came_to_has_the_words_of_salts_library() {
        let said = |stderr: &str| {
            let mut output = Output::default();
            stderr.clone_into(&mut output.stderr);
            status(&output)
        };
        let lines = "[GNUPG:] ENC_TO X\n[GNUPG:] NO_SECKEY X\n[GNUPG:] BEGIN_DECRYPTION\n[GNUPG:] DECRYPTION_FAILED\n";
        assert_eq!(said(lines), "no secret key");
        assert_eq!(said("[GNUPG:] INV_RECP 0 x\n"), "invalid recipient");
        assert_eq!(said("gpg: no room\n[GNUPG:] FAILURE\n"), "gpg: no room");
    }
}
