//! Repositories that are too large, and commits that no key of `verify` has signed.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may break"
)]

mod pillar;

use std::path::{Path, PathBuf};
use std::process::Command;

use modules::fileserver::roots::Roots;
use state::opts::Opts;
use state::sources::Sources;
use value::{Map, Value};

/// A folder with a repository, keys, and caches of machines that read it.
struct Fixture(tempfile::TempDir);

impl Fixture {
    /// Creates a repository with a commit that no key has signed.
    fn create() -> Self {
        let fixture = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(fixture.path("repository")).unwrap();
        fixture.git(&["init", "--quiet", "--initial-branch=master"]);
        fixture.commit(&[], "first", b"first\n");
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn url(&self) -> String {
        format!("file://{}", self.path("repository").display())
    }

    fn run(&self, program: &str, words: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.path("repository"));
        command.envs([
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ]);
        command.env("GNUPGHOME", self.path("gnupg"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program} {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn git(&self, words: &[&str]) -> String {
        let author = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        self.run("git", &[&author[..], words].concat())
    }

    /// Makes a commit with one file, with these options of git.
    fn commit(&self, options: &[&str], name: &str, contents: &[u8]) -> String {
        std::fs::write(self.path("repository").join(name), contents).unwrap();
        self.git(&["add", "--all"]);
        let words = ["commit", "--quiet", "--message", name];
        self.git(&[options, &words, &["--all"]].concat());
        self.git(&["rev-parse", "HEAD"])
    }

    /// Makes a key of ssh, and returns its public half.
    fn ssh_key(&self, name: &str) -> String {
        let path = self.path(name).display().to_string();
        self.run(
            "ssh-keygen",
            &["-q", "-t", "ed25519", "-N", "", "-f", &path],
        );
        std::fs::read_to_string(self.path(&format!("{name}.pub"))).unwrap()
    }

    /// Returns the options of git that sign with a key of ssh.
    fn signing(&self, name: &str) -> [String; 6] {
        let key = format!("user.signingkey={}", self.path(name).display());
        let options = [
            "-c",
            "gpg.format=ssh",
            "-c",
            &key,
            "-c",
            "commit.gpgsign=true",
        ];
        options.map(str::to_owned)
    }

    /// Makes a commit that is signed with a key of ssh.
    fn signed(&self, key: &str, name: &str) -> String {
        let options = self.signing(key);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        self.commit(&options, name, name.as_bytes())
    }

    /// Returns the roots of a machine that fetches at each use. `options` are those of the repository.
    fn roots(&self, machine: &str, options: &[(&str, Value)]) -> Roots {
        Roots::states(&Opts::new(self.opts(machine, options)))
    }

    fn opts(&self, machine: &str, options: &[(&str, Value)]) -> Map {
        let options = options
            .iter()
            .map(|(name, value)| Map::new().with(name, value.clone()).into());
        let interval: Value = Map::new().with("update_interval", 0).into();
        let options = Value::list([interval].into_iter().chain(options));
        Map::new()
            .with("id", "m")
            .with("root_dir", "/")
            .with("cachedir", self.path(machine).display().to_string())
            .with("fileserver_backend", Value::list(["gitfs".into()]))
            .with(
                "gitfs_remotes",
                Value::list([Map::new().with(&self.url(), options).into()]),
            )
    }

    /// Returns the files of an environment, or the error.
    fn files(
        &self,
        machine: &str,
        options: &[(&str, Value)],
        env: &str,
    ) -> Result<Vec<String>, String> {
        let roots = self.roots(machine, options);
        roots.list(env).map_err(|error| error.to_string())
    }
}

fn assert_names(fixture: &Fixture, answer: Result<Vec<String>, String>, part: &str) {
    let error = answer.unwrap_err();
    assert!(
        error.contains(&fixture.url()) && error.contains(part),
        "{error}"
    );
}

/// Returns data that cannot be compressed.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    });
    next.take(bytes).collect()
}

#[test]
fn a_repository_that_is_too_large_is_an_error_that_names_it() {
    let fixture = Fixture::create();
    let limit = [("max_size", Value::from(1))];
    assert_eq!(fixture.files("before", &limit, "base").unwrap(), ["first"]);
    fixture.commit(&[], "large", &noise(3 << 20));
    let part = "the repository is larger than 1 MiB (`max_size`)";
    assert_names(&fixture, fixture.files("new", &limit, "base"), part);
    // The commit that was there before stays in use.
    assert_eq!(fixture.files("before", &limit, "base").unwrap(), ["first"]);
    assert_eq!(
        fixture.files("unlimited", &[], "base").unwrap(),
        ["first", "large"]
    );
    let pillar = Map::new()
        .with("id", "m")
        .with("root_dir", "/")
        .with("cachedir", fixture.path("pillar").display().to_string())
        .with("git_pillar_max_size", 1)
        .with(
            "ext_pillar",
            render::yaml::load(&format!("[{{git: ['{}']}}]", fixture.url())).unwrap(),
        );
    let errors = pillar::compiled(pillar).get("_errors").unwrap().to_text();
    assert!(
        errors.contains(&fixture.url()) && errors.contains(part),
        "{errors}"
    );
}

#[test]
fn files_that_are_too_large_when_they_are_unpacked_are_an_error_that_names_the_repository() {
    let fixture = Fixture::create();
    fixture.commit(&[], "zeros", &vec![0; 3 << 20]);
    let limit = [("max_size", Value::from(1))];
    let part = "are larger than 1 MiB (`max_size`)";
    assert_names(&fixture, fixture.files("machine", &limit, "base"), part);
    let roots = fixture.roots("machine", &limit);
    assert!(roots.file("first", "base").is_err());
}

#[test]
fn many_updates_leave_few_packs() {
    let fixture = Fixture::create();
    for number in 0..60 {
        fixture.commit(&[], "first", number.to_string().as_bytes());
        fixture.files("machine", &[], "base").unwrap();
    }
    let mirror = std::fs::read_dir(fixture.path("machine/gitfs"))
        .unwrap()
        .next();
    let packs = mirror
        .unwrap()
        .unwrap()
        .path()
        .join("repository/objects/pack");
    let names = std::fs::read_dir(packs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let packs = names.filter(|name| Path::new(name).extension().is_some_and(|end| end == "pack"));
    assert!(packs.count() < 55);
}

#[test]
fn only_signed_commits_are_used_and_the_last_one_stays() {
    let fixture = Fixture::create();
    let (key, other) = (fixture.ssh_key("key"), fixture.ssh_key("other"));
    let verify = [("verify", Value::from(key.as_str()))];
    let files = |machine: &str| fixture.files(machine, &verify, "base");
    let unsigned = "no key of `verify` has signed master";
    assert_names(&fixture, files("machine"), unsigned);
    // Without a key, the commit is used; with one, it is not, although it is fetched already.
    assert_eq!(fixture.files("later", &[], "base").unwrap(), ["first"]);
    assert_names(&fixture, files("later"), unsigned);
    let rarely = [("update_interval", Value::from(3600))];
    assert_eq!(fixture.files("later", &rarely, "base").unwrap(), ["first"]);
    assert_names(&fixture, files("later"), unsigned);

    fixture.signed("key", "second");
    let second = ["first", "second"];
    assert_eq!(files("machine").unwrap(), second);
    fixture.commit(&[], "third", b"");
    assert_eq!(files("machine").unwrap(), second);
    fixture.signed("other", "fourth");
    assert_eq!(files("machine").unwrap(), second);
    assert_names(&fixture, files("new"), unsigned);
    // A force-push to a commit without a signature, and a branch that is gone.
    fixture.git(&["reset", "--quiet", "--hard", "HEAD~3"]);
    assert_eq!(files("machine").unwrap(), second);

    // Another key: what the first one has signed is not used any more, even if the remote is away.
    let others = [("verify", Value::list([other.as_str().into()]))];
    assert_names(
        &fixture,
        fixture.files("machine", &others, "base"),
        unsigned,
    );
    fixture.signed("other", "fifth");
    let fifth = ["fifth", "first"];
    assert_eq!(fixture.files("machine", &others, "base").unwrap(), fifth);
    std::fs::rename(fixture.path("repository"), fixture.path("away")).unwrap();
    assert_eq!(fixture.files("machine", &others, "base").unwrap(), fifth);
    assert!(files("machine").is_err());
}

#[test]
fn a_signed_tag_vouches_for_its_commit_under_its_own_name() {
    let fixture = Fixture::create();
    let key = fixture.ssh_key("key");
    let verify = [("verify", Value::from(key.as_str()))];
    let environments = |machine: &str| fixture.roots(machine, &verify).environments().unwrap();
    fixture.git(&["tag", "light"]);
    let options = fixture.signing("key");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    fixture.git(&["branch", "feature"]);
    fixture.commit(&[], "second", b"");
    // Only what the configuration names is an error.
    assert_eq!(environments("machine"), ["base"]);
    fixture.git(&[&options[..], &["tag", "--sign", "--message=v1", "v1"]].concat());
    assert_eq!(environments("machine"), ["base", "v1"]);
    let both = ["first", "second"];
    for env in ["base", "v1"] {
        assert_eq!(fixture.files("machine", &verify, env).unwrap(), both);
    }
    // A signed tag under another name, at a commit that has no other signature.
    fixture.git(&["update-ref", "refs/tags/v2", "refs/tags/v1"]);
    fixture.git(&["tag", "--delete", "v1"]);
    fixture.commit(&[], "third", b"");
    assert_eq!(environments("new"), ["base"]);
    assert_names(
        &fixture,
        fixture.files("new", &verify, "base"),
        "has signed master",
    );
}

#[test]
fn the_number_of_a_commit_without_a_signature_is_refused() {
    let fixture = Fixture::create();
    let key = fixture.ssh_key("key");
    let unsigned = fixture.git(&["rev-parse", "HEAD"]);
    let signed = fixture.signed("key", "second");
    let all = [
        ("verify", Value::from(key.as_str())),
        ("depth", Value::from(0)),
    ];
    assert_eq!(
        fixture.files("machine", &all, &signed).unwrap(),
        ["first", "second"]
    );
    let part = format!("no key of `verify` has signed the commit {unsigned}");
    assert_names(&fixture, fixture.files("machine", &all, &unsigned), &part);
    let pinned = [all.as_slice(), &[("base", Value::from(unsigned.as_str()))]].concat();
    assert_names(
        &fixture,
        fixture.files("machine", &pinned, "base"),
        "no key of `verify` has signed",
    );
}

#[test]
fn keys_of_openpgp_are_read_from_files() {
    let fixture = Fixture::create();
    let home = fixture.path("gnupg");
    std::fs::create_dir(&home).unwrap();
    std::fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let make = ["--batch", "--quiet", "--passphrase", "", "--quick-gen-key"];
    fixture.run(
        "gpg",
        &[
            &make[..],
            &["A <a@example.org>", "ed25519", "sign", "never"],
        ]
        .concat(),
    );
    for (name, more) in [("key.asc", &["--armor"][..]), ("key.gpg", &[])] {
        let path = fixture.path(name).display().to_string();
        fixture.run(
            "gpg",
            &[&["--output", path.as_str()][..], more, &["--export"]].concat(),
        );
    }
    fixture.commit(&["-c", "commit.gpgsign=true"], "second", b"");
    for name in ["key.asc", "key.gpg"] {
        let verify = [(
            "verify",
            Value::from(fixture.path(name).display().to_string()),
        )];
        assert_eq!(
            fixture
                .files(&format!("machine-{name}"), &verify, "base")
                .unwrap(),
            ["first", "second"]
        );
    }
    let other = fixture.ssh_key("other");
    let verify = [("verify", Value::from(other.as_str()))];
    assert_names(
        &fixture,
        fixture.files("machine", &verify, "base"),
        "has signed master",
    );
    fixture.run("gpgconf", &["--kill", "gpg-agent"]);
}
