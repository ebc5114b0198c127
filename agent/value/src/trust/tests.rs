#![allow(clippy::disallowed_methods, reason = "a test's own files")]

use std::fs;
use std::os::unix::fs::{chown, symlink};

use super::*;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

fn problem(of: &Path) -> String {
    path(of, user()).unwrap_err().to_string()
}

#[test]
fn root_and_oneself_are_trusted_and_nobody_else() {
    for fine in [
        (0, 0, 0o644, 0),
        (0, 0, 0o664, 0),
        (0, 50, 0o644, 0),
        (0, 0, 0o755, 1000),
        (1000, 1000, 0o664, 1000),
        (1000, 100, 0o640, 1000),
    ] {
        assert_eq!(others(fine.0, fine.1, fine.2, fine.3), None, "{fine:?}");
    }
    for (owner, group, mode, user, said) in [
        (1000, 0, 0o600, 0, "its owner, the user 1000"),
        (1001, 0, 0o600, 1000, "its owner, the user 1001"),
        (0, 0, 0o646, 0, "everybody"),
        (0, 0, 0o1777, 0, "everybody"),
        (0, 50, 0o664, 0, "the group 50"),
        (1000, 100, 0o664, 1000, "the group 100"),
    ] {
        assert_eq!(others(owner, group, mode, user).as_deref(), Some(said));
    }
}

#[test]
fn a_file_in_a_folder_that_others_may_write_to_is_not_trusted() {
    let (_folder, root) = scratch();
    let file = root.join("in/file");
    fs::create_dir(root.join("in")).unwrap();
    fs::write(&file, "").unwrap();
    mode(&file, 0o600);
    path(&file, user()).unwrap();
    mode(&root, 0o777);
    assert!(problem(&file).contains("everybody"), "{}", problem(&file));
    assert!(problem(&file).contains("mode 0777"), "{}", problem(&file));
    // No other user can replace files in a sticky folder, but every user can add some.
    mode(&root, 0o1777);
    path(&file, user()).unwrap();
    assert!(problem(&root).contains("everybody"));
    mode(&file, 0o666);
    assert!(problem(&file).contains("mode 0666"));
}

#[test]
fn a_group_of_others_may_not_write_to_what_is_trusted() {
    let (_folder, root) = scratch();
    let file = root.join("file");
    fs::write(&file, "").unwrap();
    mode(&file, 0o664);
    if chown(&file, None, Some(12345)).is_ok() {
        assert!(problem(&file).contains("the group 12345"));
        mode(&file, 0o644);
        path(&file, user()).unwrap();
    }
}

#[test]
fn links_of_others_and_where_links_lead_are_looked_at() {
    let (_folder, root) = scratch();
    let (file, link) = (root.join("far/file"), root.join("link"));
    fs::create_dir(root.join("far")).unwrap();
    fs::write(&file, "").unwrap();
    symlink("far/file", &link).unwrap();
    path(&link, user()).unwrap();
    mode(&root.join("far"), 0o777);
    assert!(problem(&link).contains("far is not trusted"));
    mode(&root.join("far"), 0o755);
    if std::os::unix::fs::lchown(&link, Some(12345), None).is_ok() {
        assert!(problem(&link).contains("the user 12345"));
        path(&file, user()).unwrap();
    }
}

#[test]
fn a_folder_of_state_is_its_owners_alone_and_loses_rights_of_others() {
    let (_folder, root) = scratch();
    let new = root.join("cache/runs");
    folder(&new).unwrap();
    let modes = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
    assert_eq!((modes(&new), modes(&root.join("cache"))), (0o700, 0o700));
    for (was, is) in [(0o777, 0o755), (0o755, 0o755), (0o1777, 0o1777)] {
        mode(&new, was);
        folder(&new).unwrap();
        assert_eq!(modes(&new), is, "{was:o}");
    }
    if chown(&new, Some(12345), None).is_ok() {
        let refused = folder(&new).unwrap_err().to_string();
        assert!(refused.contains("the user 12345"), "{refused}");
        assert!(refused.contains("chown -h root"), "{refused}");
    }
}
