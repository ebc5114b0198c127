//! The option `verify`: commits and tags are used only if one of its keys has signed them.
//!
//! git starts `ssh-keygen` or `gpg`, which know the keys of the option and no others: neither those of
//! a user nor those of the machine.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machine::hashes;
use state::module::Error;
use tempfile::TempDir;
use value::{Value, trust};

use super::program::Git;

/// The maximum size of a file with keys in bytes.
const FILE_MAX: u64 = 1 << 20;
/// The types of keys for ssh.
const SSH_TYPES: [&str; 7] = [
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "sk-ssh-ed25519@openssh.com",
    "ssh-ed25519",
    "ssh-rsa",
];
/// The first line of a public key of OpenPGP as text, and the beginning of its last one.
const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// The keys of `verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    /// The types and contents of keys for ssh.
    ssh: Vec<String>,
    /// The packets of keys for OpenPGP.
    gpg: Vec<u8>,
}

impl Keys {
    /// Reads the keys: the key of ssh itself, or the path of a file with keys of ssh or OpenPGP. Returns
    /// `None` if the option is not set.
    ///
    /// # Errors
    /// When an entry is no public key, a file cannot be read, or the program that checks the signatures
    /// is not installed.
    pub(super) fn new(option: Option<&Value>) -> Result<Option<Self>, String> {
        let entries = match option {
            Some(Value::List(items)) => items.to_vec(),
            Some(only) if only.is_true() => vec![only.clone()],
            _ => Vec::new(),
        };
        let mut keys = Self::default();
        for entry in &entries {
            let entry = entry.to_text();
            let added = match entry.starts_with('/') {
                true => keys.add(&contents(Path::new(&entry))?),
                false => keys.add(entry.as_bytes()),
            };
            added.map_err(|problem| format!("`verify` has {entry}: {problem}"))?;
        }
        for (program, is_needed) in [
            ("ssh-keygen", !keys.ssh.is_empty()),
            ("gpg", !keys.gpg.is_empty()),
        ] {
            if is_needed && machine::process::which(program).is_none() {
                return Err(format!(
                    "`verify` needs the program {program}, which is not installed"
                ));
            }
        }
        Ok(Some(keys).filter(|_| !entries.is_empty()))
    }

    /// Adds the keys of a text, or of the packets of OpenPGP.
    fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        // The first byte of a packet with a public key, in the old and the new format.
        if let Some(0x98..=0x9a | 0xc6) = bytes.first() {
            self.gpg.extend_from_slice(bytes);
            return Ok(());
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not a public key")?;
        if text.contains(BEGIN) {
            return self.add_blocks(text);
        }
        let mut lines = text.lines().map(str::trim);
        let lines = lines
            .by_ref()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let keys: Vec<String> = lines.map(ssh_key).collect::<Result<_, _>>()?;
        match keys.is_empty() {
            true => Err("it has no public key".into()),
            false => {
                self.ssh.extend(keys);
                Ok(())
            }
        }
    }

    /// Adds the keys of OpenPGP in a text.
    fn add_blocks(&mut self, text: &str) -> Result<(), String> {
        for block in text.split(BEGIN).skip(1) {
            let (block, _) = block
                .split_once(END)
                .ok_or("a block of OpenPGP has no end")?;
            let block = block.replace('\r', "");
            // Headers such as `Comment:` end with an empty line, and the last line is a checksum.
            let (_, body) = block
                .split_once("\n\n")
                .ok_or("a block of OpenPGP has no data")?;
            let lines = body
                .lines()
                .map(str::trim)
                .filter(|line| !line.starts_with('='));
            let packets = STANDARD.decode(lines.collect::<String>());
            let packets =
                packets.map_err(|error| format!("a block of OpenPGP is damaged: {error}"))?;
            self.gpg.extend(packets);
        }
        Ok(())
    }

    /// Returns a text that other keys do not have.
    ///
    /// # Errors
    /// Never: the kind of hash exists.
    pub(super) fn digest(&self) -> Result<String, Error> {
        let all = [self.ssh.join("\n").as_bytes(), b"\n\n", &self.gpg].concat();
        hashes::of_bytes(&all, "sha256")
    }
}

/// Returns the type and the content of a key of ssh, without its comment.
fn ssh_key(line: &str) -> Result<String, String> {
    let mut words = line.split_whitespace();
    match (words.next(), words.next()) {
        (Some(of), Some(content)) if SSH_TYPES.contains(&of) && STANDARD.decode(content).is_ok() => {
            Ok(format!("{of} {content}"))
        }
        _ => Err("expected the public key of ssh, or the path of a file with public keys of ssh or OpenPGP".into()),
    }
}

fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = machine::fs::open(path).map_err(|error| format!("`verify`: {error}"))?;
    file.take(FILE_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("`verify` has {}: {error}", path.display()))?;
    match bytes.len() as u64 > FILE_MAX {
        true => Err(format!(
            "`verify` has {}: it is larger than {FILE_MAX} bytes",
            path.display()
        )),
        false => Ok(bytes),
    }
}

/// Files with keys, for the programs that check signatures. They are removed with this value.
pub(super) struct Verifier(TempDir);

impl Verifier {
    /// Writes the files in a new folder below an existing one.
    ///
    /// # Errors
    /// When that is not possible.
    pub(super) fn new(keys: &Keys, folder: &Path) -> Result<Self, Error> {
        trust::folder(folder).map_err(Error::io(folder))?;
        let created = tempfile::Builder::new().prefix(".keys-").tempdir_in(folder);
        let verifier = Self(created.map_err(Error::io(folder))?);
        let signers = keys
            .ssh
            .iter()
            .map(|key| format!("* namespaces=\"git\" {key}\n"));
        let files = [
            (verifier.signers(), signers.collect::<String>().into_bytes()),
            (verifier.0.path().join("pubring.gpg"), keys.gpg.clone()),
        ];
        for (path, bytes) in files {
            write(&path, &bytes).map_err(Error::io(&path))?;
        }
        Ok(verifier)
    }

    fn signers(&self) -> PathBuf {
        self.0.path().join("signers")
    }

    /// Returns the problem of the signature of a commit; `None` if it is valid.
    pub(super) fn problem(&self, git: Git<'_>, commit: &str) -> Option<String> {
        let checked = self.git(git).run(&["verify-commit", commit], "");
        checked.err().map(|error| error.sentence())
    }

    /// Returns the problem of the signature of a tag; `None` if it is valid. A signed tag of another
    /// name is none.
    pub(super) fn problem_of_tag(&self, git: Git<'_>, name: &str) -> Option<String> {
        let words = [
            "verify-tag",
            "--format=%(tag)",
            &format!("refs/tags/{name}"),
        ];
        match self.git(git).run(&words, "") {
            Ok(signed) if signed == name => None,
            Ok(signed) => Some(format!("the signature is that of the tag {signed}")),
            Err(error) => Some(error.sentence()),
        }
    }

    fn git<'a>(&self, git: Git<'a>) -> Git<'a> {
        let signers = format!("gpg.ssh.allowedSignersFile={}", self.signers().display());
        let options = [
            signers.as_str(),
            "gpg.program=gpg",
            "gpg.x509.program=false",
        ];
        let options = options.into_iter().flat_map(|option| ["-c", option]);
        Git {
            options: options.map(str::to_owned).collect(),
            variables: vec![("GNUPGHOME", self.0.path().to_owned())],
            ..git
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the file is removed before the end of this process"
)]
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    fs::write(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SSH: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIwUB+GxrVlA1BYrHU1m5nn2PnLQmOGu1Xa5bEvQqkNq";

    fn keys(entry: &str) -> Result<Keys, String> {
        let mut keys = Keys::default();
        keys.add(entry.as_bytes()).map(|()| keys)
    }

    #[test]
    fn keys_of_ssh_have_no_comment_and_no_options() {
        let text = format!("# of a\n\n{SSH} me@here\n");
        assert_eq!(keys(&text).unwrap().ssh, [SSH]);
        for wrong in [
            format!("cert-authority {SSH}"),
            "ssh-ed25519".into(),
            "ssh-ed25519 AAAA!".into(),
            "ssh-dss AAAA".into(),
            "0123456789ABCDEF".into(),
            "# nothing\n".into(),
        ] {
            assert!(keys(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_of_openpgp_are_packets_or_text() {
        let block =
            |body: &str| format!("{BEGIN}\r\nComment: x\r\n\r\n{body}\r\n=AbCd\r\n{END}\r\n");
        let two = block("mDME") + &block("mDMF");
        assert_eq!(
            keys(&two).unwrap().gpg,
            [0x98, 0x33, 0x04, 0x98, 0x33, 0x05]
        );
        let mut binary = Keys::default();
        binary.add(&[0x98, 0x33, 0xff]).unwrap();
        assert_eq!(binary.gpg, [0x98, 0x33, 0xff]);
        for wrong in [block("m?ME"), BEGIN.into(), format!("{BEGIN}\n{END}")] {
            assert!(keys(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_option_is_a_key_or_a_list_of_keys_and_files() {
        assert_eq!(Keys::new(None), Ok(None));
        assert_eq!(Keys::new(Some(&Value::list([]))), Ok(None));
        let one = Keys::new(Some(&SSH.into())).unwrap().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.path(), SSH.as_bytes()).unwrap();
        let path = file.path().display().to_string();
        let listed = Value::list([path.as_str().into()]);
        assert_eq!(Keys::new(Some(&listed)).unwrap(), Some(one.clone()));
        assert_ne!(one.digest().unwrap(), Keys::default().digest().unwrap());
        let missing = Keys::new(Some(&"/nosuch/key".into())).unwrap_err();
        assert!(
            missing.starts_with("`verify`: ") && missing.contains("/nosuch/key: No such file"),
            "{missing}"
        );
    }
}
