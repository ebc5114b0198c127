use std::fs as files;
use std::os::unix::fs::{PermissionsExt, symlink};

use state::module::Arguments;
use tempfile::TempDir;

use super::*;
use crate::testing::exec_with;

/// The id of a transfer.
const ID: &str = "0123456789abcdef0123456789abcdef";

struct Machine {
    folder: TempDir,
    cx: Exec,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cachedir = folder.path().join("cache");
        files::create_dir(&cachedir).unwrap();
        files::set_permissions(folder.path(), files::Permissions::from_mode(0o755)).unwrap();
        let opts = Map::new().with("cachedir", cachedir.to_str().unwrap());
        let cx = exec_with(opts, Map::new());
        Self { folder, cx }
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn call(&self, fun: &str, args: Vec<Value>) -> Result<Value, Error> {
        let cx = self.cx.apart();
        let function = cx.function(fun).unwrap();
        function.invoke(fun, &cx, Arguments::new(args, Map::new()))
    }

    fn recv(&self, files: Map, dest: &str) -> Value {
        self.call("cp.recv", vec![files.into(), dest.into()])
            .unwrap()
    }

    /// Sends a piece without compression and with mode 600.
    fn piece(&self, dest: &str, data: &str, transfer: Value) -> Result<Value, Error> {
        let append = transfer.get("offset").and_then(Value::as_int) != Some(0);
        let chunk = base64::encode(data.as_bytes());
        let mode = Value::Int(0o600);
        let args = vec![
            dest.into(),
            chunk.into(),
            append.into(),
            false.into(),
            mode,
            transfer,
        ];
        self.call("cp.recv_chunked", args)
    }

    fn staged(&self) -> usize {
        files::read_dir(self.at("cache/salt-cp")).map_or(0, Iterator::count)
    }
}

fn transfer(id: &str, offset: i64, last: bool) -> Value {
    let map = Map::new().with("id", id).with("offset", offset);
    map.with("last", last).into()
}

fn read(path: &str) -> String {
    files::read_to_string(path).unwrap()
}

#[test]
fn recv_finds_the_place_as_salt_does() {
    let machine = Machine::new();
    let one = || Map::new().with("/master/one", "1\n");
    let at = |name: &str| machine.at(name);
    assert_eq!(
        machine.recv(one(), &at("new")).to_text(),
        format!("{{'{}': True}}", at("new"))
    );
    files::create_dir(at("dir")).unwrap();
    let both = one().with("/master/two", "2\n");
    machine.recv(both, &at("dir"));
    assert_eq!(
        (read(&at("dir/one")), read(&at("dir/two"))),
        ("1\n".into(), "2\n".into())
    );
    let gone = machine.recv(one(), &at("gone/file"));
    assert_eq!(gone, "Destination unavailable".into());
    // A name of the master that is the same counts as a place without its folder.
    let same = machine.recv(one(), &at("gone/one"));
    assert_eq!(same.to_text(), format!("{{'{}': False}}", at("gone/one")));
    assert!(!Path::new(&at("gone")).exists());
}

#[test]
fn recv_keeps_the_mode_of_the_old_file_and_writes_into_no_folder() {
    let machine = Machine::new();
    let place = machine.at("file");
    files::write(&place, "old").unwrap();
    files::set_permissions(&place, files::Permissions::from_mode(0o640)).unwrap();
    machine.recv(Map::new().with("x/file", "new"), &place);
    let mode = files::metadata(&place).unwrap().permissions().mode();
    assert_eq!((read(&place).as_str(), mode & 0o7777), ("new", 0o640));
    // The name of a forged source leads nowhere else.
    for name in ["..", "a/..", "a/", ""] {
        let ret = machine.recv(Map::new().with(name, "evil"), &machine.at("cache"));
        assert!(
            ret.to_text().ends_with("False}"),
            "{name:?}: {}",
            ret.to_text()
        );
    }
}

#[test]
fn a_file_of_one_piece_has_its_mode_and_missing_folders_are_made() {
    let machine = Machine::new();
    let place = machine.at("a/b/file");
    assert_eq!(
        machine
            .piece(&place, "hello", transfer(ID, 0, true))
            .unwrap(),
        true.into()
    );
    let mode = files::metadata(&place).unwrap().permissions().mode();
    assert_eq!((read(&place).as_str(), mode & 0o7777), ("hello", 0o600));
    assert_eq!(machine.staged(), 0);
}

#[test]
fn the_target_is_replaced_when_the_last_piece_has_arrived() {
    let machine = Machine::new();
    let place = machine.at("file");
    files::write(&place, "old").unwrap();
    assert_eq!(
        machine
            .piece(&place, "hel", transfer(ID, 0, false))
            .unwrap(),
        true.into()
    );
    assert_eq!((read(&place).as_str(), machine.staged()), ("old", 1));
    assert_eq!(
        machine.piece(&place, "lo", transfer(ID, 3, true)).unwrap(),
        true.into()
    );
    assert_eq!((read(&place).as_str(), machine.staged()), ("hello", 0));
}

#[test]
fn a_piece_that_does_not_follow_ends_the_transfer() {
    let machine = Machine::new();
    let place = machine.at("file");
    machine
        .piece(&place, "hel", transfer(ID, 0, false))
        .unwrap();
    let wrong = machine.piece(&place, "lo", transfer(ID, 4, true)).unwrap();
    let wrong = wrong.to_text();
    assert!(wrong.contains("does not follow the 3 bytes"), "{wrong}");
    assert!(!Path::new(&place).exists());
    assert_eq!(machine.staged(), 0);
    let gone = machine.piece(&place, "lo", transfer(ID, 3, true)).unwrap();
    assert!(
        gone.to_text().starts_with("[Errno 2]"),
        "{}",
        gone.to_text()
    );
}

#[test]
fn the_id_of_a_transfer_names_no_other_file() {
    let machine = Machine::new();
    let place = machine.at("file");
    for id in [
        "",
        "../../etc/passwd",
        "0123",
        "..",
        &format!("../{}", &ID[3..]),
        &ID.replace('0', "/"),
    ] {
        let error = machine
            .piece(&place, "x", transfer(id, 0, false))
            .unwrap_err();
        assert!(error.to_string().contains("hexadecimal"), "{id}: {error}");
    }
    for map in [
        Map::new(),
        Map::new().with("id", ID),
        Map::new()
            .with("id", ID)
            .with("offset", -1)
            .with("last", true),
    ] {
        assert!(machine.piece(&place, "x", map.into()).is_err());
    }
    assert_eq!(machine.staged(), 0);
    assert!(!Path::new(&place).exists());
}

#[test]
fn a_planted_link_among_the_pieces_is_not_followed() {
    let machine = Machine::new();
    let victim = machine.at("victim");
    files::write(&victim, "abc").unwrap();
    machine
        .piece(&machine.at("first"), "x", transfer(ID, 0, false))
        .unwrap();
    let other = "f".repeat(ID_LENGTH);
    symlink(&victim, machine.at(&format!("cache/salt-cp/{other}"))).unwrap();
    for offset in [0, 3] {
        machine
            .piece(&machine.at("file"), "evil", transfer(&other, offset, false))
            .unwrap();
        assert_eq!(read(&victim), "abc");
    }
}

#[test]
fn pieces_that_nothing_follows_are_removed_by_the_next_transfer() {
    let machine = Machine::new();
    let place = machine.at("file");
    machine.piece(&place, "x", transfer(ID, 0, false)).unwrap();
    let old = machine.at(&format!("cache/salt-cp/{ID}"));
    let file = files::File::options().write(true).open(old).unwrap();
    file.set_modified(SystemTime::now() - 2 * ABANDONED)
        .unwrap();
    machine
        .piece(&place, "x", transfer(&"f".repeat(ID_LENGTH), 0, false))
        .unwrap();
    assert_eq!(machine.staged(), 1);
}

#[test]
fn refusals_are_those_of_salt_and_leave_nothing() {
    let machine = Machine::new();
    files::write(machine.at("file"), "old").unwrap();
    files::create_dir(machine.at("dir")).unwrap();
    let under_file = machine.at("file/x");
    let dir = machine.at("dir");
    for (place, want) in [
        (dir.as_str(), format!("[Errno 21] Is a directory: '{dir}'")),
        (
            &under_file,
            format!("[Errno 20] Not a directory: '{under_file}'"),
        ),
        (
            "/proc/nope/x",
            "[Errno 2] No such file or directory: '/proc/nope'".to_owned(),
        ),
        (
            "relative",
            "The destination \"relative\" is not an absolute path".to_owned(),
        ),
    ] {
        for last in [true, false] {
            let ret = machine.piece(place, "x", transfer(ID, 0, last)).unwrap();
            assert_eq!(ret.to_text(), want, "{place}");
        }
    }
    assert_eq!(machine.staged(), 0);
    assert_eq!(read(&machine.at("file")), "old");
}

#[test]
fn a_pipe_or_a_device_is_not_replaced_by_a_file() {
    let machine = Machine::new();
    let pipe = machine.at("pipe");
    // The test uses a pipe, because a wrong program would destroy a real device.
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
    let link = machine.at("link");
    symlink(&pipe, &link).unwrap();
    for place in [&pipe, &link] {
        for last in [true, false] {
            let ret = machine.piece(place, "x", transfer(ID, 0, last)).unwrap();
            assert_eq!(
                ret.to_text(),
                format!("The destination {place} is not a regular file")
            );
        }
        let ret = machine.recv(Map::new().with("x", "evil"), place);
        assert_eq!(ret.to_text(), format!("{{'{place}': False}}"));
        assert!(Path::new(place).exists() && !Path::new(place).is_file());
    }
    assert_eq!(machine.staged(), 0);
}

#[test]
fn the_calls_of_salts_own_master_work() {
    let machine = Machine::new();
    let place = machine.at("file");
    let call = |args: Vec<Value>| machine.call("cp.recv_chunked", args);
    let zipped = vec![
        place.as_str().into(),
        "H4sIAAAAAAACA6vKLChITQEAV2jC4gYAAAA=".into(),
    ];
    assert_eq!(call(zipped).unwrap(), true.into());
    assert_eq!(read(&place), "zipped");
    let raw = |text: &str| base64::encode(text.as_bytes());
    let whole = call(vec![
        place.as_str().into(),
        raw("one").into(),
        false.into(),
        false.into(),
        Value::Int(0o644),
    ]);
    assert_eq!(whole.unwrap(), true.into());
    let more = call(vec![
        place.as_str().into(),
        raw(" two").into(),
        true.into(),
        false.into(),
        Value::Int(0o600),
    ]);
    assert_eq!(more.unwrap(), true.into());
    // As in Salt, only the first piece sets the mode.
    let mode = files::metadata(&place).unwrap().permissions().mode();
    assert_eq!((read(&place).as_str(), mode & 0o7777), ("one two", 0o644));
    let wrong = call(vec![place.as_str().into(), raw("plain").into()]).unwrap_err();
    assert!(wrong.to_string().contains("Not a gzipped file"), "{wrong}");
    let folder = machine.at("x/y");
    assert_eq!(
        call(vec![folder.as_str().into(), Value::Null]).unwrap(),
        true.into()
    );
    assert_eq!(
        call(vec![folder.as_str().into(), Value::Null]).unwrap(),
        true.into()
    );
    let file = call(vec![place.as_str().into(), Value::Null]).unwrap();
    assert_eq!(file, "Path exists and is a file".into());
    let mode = call(vec![
        place.as_str().into(),
        raw("x").into(),
        false.into(),
        false.into(),
        Value::Int(0o10_000),
    ]);
    assert!(mode.unwrap_err().to_string().contains("not a mode"));
}
