use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use ring::digest::{SHA256, digest};

use super::super::message::unless_failed;
use super::super::{FILE_MAX, NAME_MAX, PATH_MAX, PIECE_MAX};
use super::*;

/// A master with the environments `base` and `dev` of its file roots, and `base` of its pillar.
struct Scratch {
    dir: tempfile::TempDir,
    opts: Arc<Opts>,
}

impl Scratch {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let roots = |names: &[&str]| {
            let paths = names.iter().map(|name| dir.path().join(name));
            Value::list(paths.map(|path| path.display().to_string().into()))
        };
        let files = Map::new()
            .with("base", roots(&["files", "second"]))
            .with("dev", roots(&["dev"]))
            .with("empty", Value::list([]))
            .with("__env__", roots(&["__env__"]));
        let pillar = Map::new().with("base", roots(&["pillar"]));
        let opts = Map::new()
            .with("file_roots", files)
            .with("pillar_roots", pillar)
            .with("file_ignore_glob", Value::list(["ignored/*".into()]));
        let opts = Arc::new(Opts::new(opts));
        std::fs::create_dir(dir.path().join("files")).unwrap();
        std::fs::write(dir.path().join("victim"), "victim").unwrap();
        Self { dir, opts }
    }

    fn receiving(&self, deletes: bool) -> Receiving {
        let from = "10.0.0.1".to_owned();
        Receiving::new(&self.opts, (1, 7), from, &Channel::ALL, deletes)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.path(below)).unwrap()
    }

    /// Asserts that nothing has changed the file outside of the roots, and that no temporary file is
    /// left.
    fn is_clean(&self) {
        assert_eq!(self.read("victim"), "victim");
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name();
                assert!(!machine::fs::is_temporary(&name), "{:?}", entry.path());
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
    }
}

fn entry(path: &str, text: &str) -> Entry {
    Entry {
        path: path.to_owned(),
        size: text.len() as u64,
        mode: 0o640,
        hash: digest(&SHA256, text.as_bytes())
            .as_ref()
            .try_into()
            .unwrap(),
    }
}

fn manifest(receiving: &mut Receiving, saltenv: &str, entries: &[Entry]) -> Result<Wanted, String> {
    let message = Message::Manifest {
        sync: 7,
        channel: Channel::FileRoots,
        saltenv: saltenv.to_owned(),
        entries: entries.to_vec(),
    };
    let answer = receiving.take(message).and_then(unless_failed)?;
    Ok(Wanted::read(&answer).unwrap())
}

fn piece(receiving: &mut Receiving, index: usize, offset: u64, text: &str) -> Result<bool, String> {
    let message = Message::Piece {
        sync: 7,
        index,
        offset,
        bytes: text.as_bytes().into(),
    };
    let answer = receiving.take(message).and_then(unless_failed)?;
    Ok(answer.is_true())
}

fn end(receiving: &mut Receiving, is_complete: bool) -> Result<i64, String> {
    let message = Message::End {
        sync: 7,
        is_complete,
    };
    let answer = receiving.take(message).and_then(unless_failed)?;
    Ok(answer.get("deleted").unwrap().as_int().unwrap())
}

/// Sends one file. Returns why it was not installed.
fn send(scratch: &Scratch, entry: &Entry, text: &str) -> Result<(), String> {
    let mut receiving = scratch.receiving(false);
    let wanted = manifest(&mut receiving, "base", std::slice::from_ref(entry))?;
    if let Some((_, why)) = wanted.refused.first() {
        return Err(why.clone());
    }
    assert_eq!(wanted.needed, [0]);
    match piece(&mut receiving, 0, 0, text)? {
        true => Ok(()),
        false => Err("incomplete".to_owned()),
    }
}

#[test]
fn files_are_installed_in_pieces_and_are_the_same_then() {
    let scratch = Scratch::new();
    scratch.write("files/there", "same");
    let file = std::fs::File::open(scratch.path("files/there")).unwrap();
    let mode = |mode| file.set_permissions(PermissionsExt::from_mode(mode));
    mode(0o640).unwrap();
    scratch.write("files/a/old", "old");
    let all = [
        entry("there", "same"),
        entry("a/b/new", "hello"),
        entry("a/old", "newer"),
        entry("empty", ""),
    ];
    let mut receiving = scratch.receiving(false);
    let wanted = manifest(&mut receiving, "base", &all).unwrap();
    assert_eq!((wanted.needed, wanted.refused), (vec![1, 2, 3], vec![]));
    assert_eq!(piece(&mut receiving, 1, 0, "hel"), Ok(false));
    assert!(!scratch.path("files/a/b/new").exists());
    assert_eq!(piece(&mut receiving, 1, 3, "lo"), Ok(true));
    assert_eq!(piece(&mut receiving, 2, 0, "newer"), Ok(true));
    assert_eq!(piece(&mut receiving, 3, 0, ""), Ok(true));
    assert_eq!(receiving.installed[&Channel::FileRoots], 3);
    assert_eq!(end(&mut receiving, true), Ok(0));
    assert_eq!(scratch.read("files/a/b/new"), "hello");
    assert_eq!(scratch.read("files/a/old"), "newer");
    let found = scratch.path("files/a/old").metadata().unwrap();
    assert_eq!(found.mode() & 0o7777, 0o640);
    scratch.is_clean();
    let mut again = scratch.receiving(false);
    let wanted = manifest(&mut again, "base", &all).unwrap();
    assert_eq!(wanted, Wanted::default());
    // A file with other permissions is sent again; special bits of this master's file stay.
    for (bits, needed) in [(0o4640, &[][..]), (0o600, &[0])] {
        mode(bits).unwrap();
        let wanted = manifest(&mut again, "base", &all).unwrap();
        assert_eq!(wanted.needed, needed, "{bits:o}");
    }
}

#[test]
fn a_new_root_is_private_and_a_new_folder_has_the_mode_of_the_outer_one() {
    let scratch = Scratch::new();
    let new_folder = |saltenv: &str, folder: &str| {
        let mut receiving = scratch.receiving(false);
        manifest(&mut receiving, saltenv, &[entry("a/x", "x")]).unwrap();
        assert_eq!(piece(&mut receiving, 0, 0, "x"), Ok(true));
        let found = scratch.path(folder).metadata().unwrap();
        std::fs::remove_dir_all(scratch.path(folder)).unwrap();
        found.mode() & 0o7777
    };
    assert_eq!(new_folder("dev", "dev"), 0o700);
    for (outer, inner) in [(0o755, 0o755), (0o750, 0o750), (0o1777, 0o755)] {
        let root = std::fs::File::open(scratch.path("files")).unwrap();
        root.set_permissions(PermissionsExt::from_mode(outer))
            .unwrap();
        assert_eq!(new_folder("base", "files/a"), inner, "{outer:o}");
    }
}

/// Attack: names that lead out of the root, and others that no file of a root has.
#[test]
fn only_plain_names_are_taken() {
    let scratch = Scratch::new();
    let (long, deep) = ("x".repeat(NAME_MAX + 1), "a/".repeat(65) + "x");
    let far = format!("{}x", "long-name/".repeat(PATH_MAX / 10));
    let absolute = scratch.path("victim").display().to_string();
    let hostile = [
        "",
        "/",
        "/etc/cron.d/x",
        &absolute,
        "..",
        "../victim",
        "a/../../victim",
        "a/..",
        ".",
        "./a",
        "a/./b",
        "a//b",
        "a/",
        "//a",
        "a\0b",
        "a\nb",
        "a/\u{1b}[2J",
        ".x.1.1.pinch",
        "a/.x.1.1.pinch",
        &long,
        &deep,
        &far,
    ];
    for path in hostile {
        let sent = send(&scratch, &entry(path, "x"), "x");
        assert_eq!(sent, Err("invalid path".to_owned()), "{path:?}");
    }
    for path in ["..a", "a..", "a b/ü", ".hidden", "-rf", "%2e%2e", "~"] {
        assert_eq!(send(&scratch, &entry(path, "x"), "x"), Ok(()), "{path}");
    }
    scratch.is_clean();
}

/// Attack: links and special files of this master, in place of a file or of a folder.
#[test]
fn no_link_is_followed_and_nothing_but_a_file_is_replaced() {
    let scratch = Scratch::new();
    let files = scratch.path("files");
    symlink(scratch.path("victim"), files.join("link")).unwrap();
    symlink(scratch.dir.path(), files.join("up")).unwrap();
    symlink(scratch.path("nowhere"), files.join("dangling")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(files.join("pipe"))
        .status()
        .unwrap();
    assert!(pipe.success());
    scratch.write("files/folder/file", "file");
    for (path, why) in [
        ("link", "symbolic link"),
        ("dangling", "symbolic link"),
        ("up/victim", "not followed"),
        ("dangling/x", "not followed"),
        ("link/x", "not followed"),
        ("pipe", "not a regular file"),
        ("pipe/x", "not a folder"),
        ("folder", "not a regular file"),
        ("folder/file/x", "not a folder"),
    ] {
        let refused = send(&scratch, &entry(path, "evil"), "evil").unwrap_err();
        assert!(refused.contains(why), "{path}: {refused}");
    }
    assert!(files.join("link").is_symlink() && files.join("dangling").is_symlink());
    assert!(!scratch.path("nowhere").exists());
    scratch.is_clean();
}

/// Attack: a link that appears after the manifest was answered, and while a file is received.
#[test]
fn a_link_that_appears_later_is_not_followed_either() {
    let scratch = Scratch::new();
    let files = scratch.path("files");
    let mut receiving = scratch.receiving(false);
    let all = [
        entry("a/x", "evil"),
        entry("b/victim", "evil"),
        entry("y", "evil"),
    ];
    assert_eq!(
        manifest(&mut receiving, "base", &all).unwrap().needed,
        [0, 1, 2]
    );
    symlink(scratch.dir.path(), files.join("b")).unwrap();
    assert!(piece(&mut receiving, 1, 0, "evil").is_err());
    assert_eq!(piece(&mut receiving, 2, 0, "ev"), Ok(false));
    symlink(scratch.path("victim"), files.join("y")).unwrap();
    assert!(piece(&mut receiving, 2, 2, "il").is_err());
    // The folder of a file that has begun is the one that was opened.
    assert_eq!(piece(&mut receiving, 0, 0, "ev"), Ok(false));
    std::fs::rename(files.join("a"), files.join("moved")).unwrap();
    symlink(scratch.dir.path(), files.join("a")).unwrap();
    assert_eq!(piece(&mut receiving, 0, 2, "il"), Ok(true));
    assert!(!scratch.path("x").exists() && files.join("moved/x").exists());
    scratch.is_clean();
}

/// Attack: environments that this master does not have.
#[test]
fn only_configured_environments_are_taken() {
    let scratch = Scratch::new();
    for saltenv in ["prod", "", "..", "../files", "__env__", "empty", "base/.."] {
        let mut receiving = scratch.receiving(false);
        let refused = manifest(&mut receiving, saltenv, &[entry("a", "x")]);
        assert!(
            refused.unwrap_err().contains("this master has no "),
            "{saltenv}"
        );
        let sent = piece(&mut receiving, 0, 0, "x");
        assert_eq!(sent, Err("there was no manifest".to_owned()));
    }
    let mut one = Receiving::new(
        &scratch.opts,
        (1, 7),
        String::new(),
        &[Channel::PillarRoots],
        false,
    );
    assert!(manifest(&mut one, "base", &[entry("a", "x")]).is_err());
}

/// Attack: sizes, modes and bytes that differ from the announced ones, or are too large.
#[test]
fn a_file_is_there_whole_or_not_at_all() {
    let scratch = Scratch::new();
    scratch.write("files/x", "before");
    let changed = "it has changed during the sync";
    let wrong = "a piece that does not belong there";
    let whole = entry("x", "hello");
    for (sent, offset, why) in [("hellO", 0, changed), ("hello!", 0, wrong)] {
        let mut receiving = scratch.receiving(false);
        manifest(&mut receiving, "base", std::slice::from_ref(&whole)).unwrap();
        let refused = piece(&mut receiving, 0, offset, sent);
        assert_eq!(refused, Err(why.to_owned()), "{sent}");
        // It is not begun again.
        assert!(piece(&mut receiving, 0, 0, "hello").is_err());
    }
    for offset in [1, 3, 4, u64::MAX] {
        let mut receiving = scratch.receiving(false);
        manifest(&mut receiving, "base", std::slice::from_ref(&whole)).unwrap();
        assert_eq!(piece(&mut receiving, 0, 0, "he"), Ok(false));
        assert!(piece(&mut receiving, 0, offset, "llo").is_err(), "{offset}");
    }
    // A piece of a file that was not announced, is not needed, or was not begun.
    let mut receiving = scratch.receiving(false);
    assert!(piece(&mut receiving, 0, 0, "x").is_err());
    manifest(&mut receiving, "base", std::slice::from_ref(&whole)).unwrap();
    for (index, offset) in [(1, 0), (usize::MAX, 0), (0, 2)] {
        assert!(piece(&mut receiving, index, offset, "x").is_err());
    }
    // A part of a file does not stay after the end.
    assert_eq!(piece(&mut receiving, 0, 0, "he"), Ok(false));
    assert_eq!(end(&mut receiving, true), Ok(0));
    assert_eq!(scratch.read("files/x"), "before");
    scratch.is_clean();
    for mode in [0o4755, 0o2755, 0o1777, 0o10_0644, u32::MAX] {
        let entry = Entry {
            mode,
            ..whole.clone()
        };
        let refused = send(&scratch, &entry, "hello").unwrap_err();
        assert!(refused.starts_with("invalid mode"), "{mode:o}");
    }
}

#[test]
fn a_sync_is_limited() {
    let scratch = Scratch::new();
    let large = |size| Entry {
        size,
        ..entry("x", "")
    };
    let refused = send(&scratch, &large(FILE_MAX + 1), "").unwrap_err();
    assert!(refused.contains("the limit is"), "{refused}");
    let limits = |entries: &[Entry], times: usize| {
        let mut receiving = scratch.receiving(false);
        (0..times).find_map(|_| manifest(&mut receiving, "base", entries).err())
    };
    let few: Vec<Entry> = (0..9).map(|_| large(TOTAL_MAX / 8)).collect();
    assert_eq!(limits(&few[..8], 1), None);
    for (entries, times) in [
        (few, 1),
        (vec![large(u64::MAX), large(u64::MAX)], 1),
        (vec![entry("..", ""); ENTRIES_MAX + 1], 1),
        (
            vec![entry("..", ""); ENTRIES_MAX],
            FILES_MAX / ENTRIES_MAX + 1,
        ),
    ] {
        let why = limits(&entries, times).unwrap();
        assert!(why.contains("the limits are"), "{why}");
    }
    let mut receiving = scratch.receiving(true);
    let long = vec![entry(&"x/".repeat(PATHS_MAX / ENTRIES_MAX), ""); ENTRIES_MAX];
    let why = manifest(&mut receiving, "base", &long)
        .and_then(|_| manifest(&mut receiving, "base", &long));
    assert!(why.unwrap_err().contains("sync without delete=True"));
}

#[test]
fn a_full_disk_is_an_error_and_leaves_no_part_of_a_file() {
    let scratch = Scratch::new();
    scratch.write("files/x", "before");
    let root = place::root(&scratch.path("files")).unwrap().unwrap();
    let mut coming = Coming::begin(&root, entry("x", "hello")).unwrap();
    coming.use_full_disk();
    let why = coming.take(0, b"hello").unwrap_err();
    assert!(why.contains("No space left on device"), "{why}");
    drop(coming);
    assert_eq!(scratch.read("files/x"), "before");
    scratch.is_clean();
}

#[test]
fn only_files_of_the_first_roots_are_removed_and_only_after_a_complete_sync() {
    let scratch = Scratch::new();
    let kept = [
        "files/a/kept",
        "files/ignored/x",
        "files/.x.1.1.pinch",
        "second/x",
        "dev/x",
        "pillar/x",
    ];
    for path in kept
        .iter()
        .chain(&["files/b/c/old", "files/a/old", "files/old"])
    {
        scratch.write(path, "x");
    }
    symlink(scratch.path("victim"), scratch.path("files/link")).unwrap();
    symlink(scratch.dir.path(), scratch.path("files/up")).unwrap();
    std::fs::create_dir(scratch.path("files/empty")).unwrap();
    let sent = |deletes, is_complete| {
        let mut receiving = scratch.receiving(deletes);
        manifest(&mut receiving, "base", &[entry("a/kept", "x")]).unwrap();
        piece(&mut receiving, 0, 0, "x").unwrap();
        let ended = end(&mut receiving, is_complete);
        scratch.write("files/a/kept", "other");
        ended
    };
    assert_eq!(sent(false, true), Ok(0));
    assert_eq!(sent(true, false), Ok(0));
    assert!(scratch.path("files/b/c/old").exists());
    assert_eq!(sent(true, true), Ok(3));
    for path in kept {
        assert!(scratch.path(path).exists(), "{path}");
    }
    for path in ["files/old", "files/a/old", "files/b"] {
        assert!(!scratch.path(path).exists(), "{path}");
    }
    assert!(scratch.path("files/empty").exists());
    for link in ["files/link", "files/up"] {
        assert!(scratch.path(link).is_symlink(), "{link}");
    }
    assert_eq!(scratch.read("victim"), "victim");
    // A sync that has sent no environment removes nothing.
    assert_eq!(end(&mut scratch.receiving(true), true), Ok(0));
}

#[test]
fn a_root_below_another_one_is_not_a_part_of_it() {
    let scratch = Scratch::new();
    let path = |below: &str| Value::list([scratch.path(below).display().to_string().into()]);
    let opts = Map::new()
        .with(
            "file_roots",
            Map::new()
                .with("base", path("files"))
                .with("dev", path("files")),
        )
        .with(
            "pillar_roots",
            Map::new().with("base", path("files/pillar")),
        );
    for file in ["files/pillar/secret", "files/x", "files/y", "files/z"] {
        scratch.write(file, "x");
    }
    let opts = Arc::new(Opts::new(opts));
    let mut receiving = Receiving::new(&opts, (1, 7), String::new(), &Channel::ALL, true);
    // Two environments have the same root.
    manifest(&mut receiving, "base", &[entry("x", "x")]).unwrap();
    manifest(&mut receiving, "dev", &[entry("y", "x")]).unwrap();
    assert_eq!(end(&mut receiving, true), Ok(1));
    for (file, is_there) in [
        ("pillar/secret", true),
        ("x", true),
        ("y", true),
        ("z", false),
    ] {
        assert_eq!(
            scratch.path("files").join(file).exists(),
            is_there,
            "{file}"
        );
    }
}

#[test]
fn a_large_file_is_read_in_parts() {
    let scratch = Scratch::new();
    let text = "0123456789abcdef".repeat(PIECE_MAX / 8);
    let all = [entry("large", &text)];
    let mut receiving = scratch.receiving(false);
    manifest(&mut receiving, "base", &all).unwrap();
    let (first, second) = text.split_at(PIECE_MAX);
    assert_eq!(piece(&mut receiving, 0, 0, first), Ok(false));
    assert_eq!(piece(&mut receiving, 0, PIECE_MAX as u64, second), Ok(true));
    assert_eq!(
        manifest(&mut receiving, "base", &all),
        Ok(Wanted::default())
    );
}
