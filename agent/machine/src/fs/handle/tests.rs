use std::os::unix::fs::{lchown, symlink};

use super::*;

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    std::fs::create_dir(path.join("in")).unwrap();
    for name in ["in/file", "victim"] {
        std::fs::write(path.join(name), name).unwrap();
        std::fs::set_permissions(path.join(name), Permissions::from_mode(0o600)).unwrap();
    }
    (folder, path)
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

/// Replaces the file by a symlink to the victim, as the owner of the folder can do.
fn swapped(root: &Path) {
    std::fs::rename(root.join("in/file"), root.join("moved")).unwrap();
    symlink(root.join("victim"), root.join("in/file")).unwrap();
}

#[test]
fn owner_and_mode_go_to_what_was_opened_and_not_to_what_has_its_name_now() {
    let (_folder, root) = scratch();
    let place = place(&root.join("in/file"), Links::Followed, Last::Itself).unwrap();
    let entry = place.entry().unwrap();
    swapped(&root);
    assert!(entry.chmod_opened(0o666).is_err());
    entry.chmod(0o640).unwrap();
    assert_eq!(mode(&root.join("moved")), 0o640);
    if entry.chown(Some(12345), None).is_ok() {
        assert_eq!(root.join("moved").metadata().unwrap().uid(), 12345);
    }
    assert_eq!(mode(&root.join("victim")), 0o600);
    assert_eq!(root.join("victim").metadata().unwrap().uid(), trust::user());
    // Now it is a symlink, which has no mode.
    assert!(place.entry().unwrap().chmod(0o666).is_err());
}

#[test]
fn without_proc_files_and_folders_get_their_mode_all_the_same() {
    let (_folder, root) = scratch();
    for (path, wanted) in [("in/file", 0o644), ("in", 0o711)] {
        let path = root.join(path);
        let place = place(&path, Links::Followed, Last::Itself).unwrap();
        place.entry().unwrap().chmod_opened(wanted).unwrap();
        assert_eq!(mode(&path), wanted);
    }
}

#[test]
fn nothing_is_made_renamed_or_removed_through_a_symlink_that_came_later() {
    let (_folder, root) = scratch();
    std::fs::create_dir(root.join("far")).unwrap();
    std::fs::write(root.join("far/file"), "far").unwrap();
    let folder = Folder::open(&root.join("in"), Links::Followed).unwrap();
    std::fs::rename(root.join("in"), root.join("was")).unwrap();
    symlink("far", root.join("in")).unwrap();
    folder.create("new".as_ref(), 0o600).unwrap();
    folder
        .rename("new".as_ref(), &folder, "newer".as_ref())
        .unwrap();
    folder.remove("file".as_ref()).unwrap();
    assert!(root.join("was/newer").exists() && !root.join("was/file").exists());
    let far = std::fs::read_dir(root.join("far")).unwrap();
    assert_eq!(far.count(), 1);
    // Below an open folder no symlink is followed.
    let top = Folder::open(&root, Links::Followed).unwrap();
    assert!(top.below(Path::new("in")).is_err());
    assert!(top.below(Path::new("..")).is_err());
    top.remove("in".as_ref()).unwrap();
    assert!(root.join("far/file").exists());
}

#[test]
fn a_link_is_removed_and_what_it_leads_to_stays() {
    let (_folder, root) = scratch();
    symlink(&root, root.join("in/up")).unwrap();
    let top = Folder::open(&root, Links::Followed).unwrap();
    top.remove("in".as_ref()).unwrap();
    assert!(root.join("victim").exists() && !root.join("in").exists());
}

#[test]
fn links_of_root_and_of_oneself_are_followed_and_those_of_others_are_not() {
    let (_folder, root) = scratch();
    symlink("in", root.join("way")).unwrap();
    symlink("../victim", root.join("in/last")).unwrap();
    let asked = root.join("way/last");
    let led = place(&asked, Links::Trusted, Last::Led).unwrap();
    assert_eq!(led.path().canonicalize().unwrap(), root.join("victim"));
    for (link, shown) in [("way", "way"), ("in/last", "way/last")] {
        if lchown(root.join(link), Some(12345), None).is_err() {
            return;
        }
        let refused = permitted(&asked, Links::Trusted).unwrap_err().to_string();
        let place = root.join(shown);
        assert_eq!(
            refused,
            format!(
                "Refusing to follow the symlink {}, which belongs to 12345 (option follow_user_symlinks)",
                place.display()
            )
        );
        permitted(&asked, Links::Followed).unwrap();
        lchown(root.join(link), Some(0), None).unwrap();
    }
    // A missing path leads nowhere, so it is permitted.
    permitted(&root.join("none/file"), Links::Trusted).unwrap();
}
