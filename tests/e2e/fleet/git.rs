//! A master whose states and pillars come from git.

use std::fs;
use std::path::{Path, PathBuf};

use tests::git::git;

use super::Fleet;
use super::faults::{heard, listening};

/// A repository on the disk of the master.
struct Repository(PathBuf);

impl Repository {
    fn create(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let repository = Self(folder.to_owned());
        repository.git(&["init", "--quiet", "--initial-branch=master"]);
        repository
    }

    fn git(&self, words: &[&str]) {
        git(&self.0, words);
    }

    fn commit(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            fs::write(self.0.join(path), text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "a change"]);
    }
}

#[test]
fn minions_get_states_and_pillars_from_git_and_an_event_follows_each_change() {
    let folder = tempfile::tempdir().unwrap();
    let states = Repository::create(&folder.path().join("states"));
    let pillar = Repository::create(&folder.path().join("pillar"));
    states.commit(&[
        ("site.sls", "{{ pillar.site }}:\n  test.nop: []\n"),
        ("version", "one"),
    ]);
    pillar.commit(&[
        ("top.sls", "base:\n  m1:\n    - site\n"),
        ("site.sls", "site: first\n"),
    ]);
    let mut fleet = Fleet::with(&format!(
        "fileserver_backend: [gitfs]\ngitfs_remotes: ['file://{}']\ngitfs_update_interval: 1\nfileserver_events: True\next_pillar: [{{git: ['master file://{}']}}]\ngit_pillar_update_interval: 1\n",
        states.0.display(),
        pillar.0.display()
    ));
    let mut events = listening(&fleet, "salt/fileserver/gitfs/update");
    let mut wait_for_change = || while heard(&mut events).1.get("changed") != Some(&true.into()) {};
    wait_for_change();
    fleet.accepted(&["m1"]);
    let applied = || {
        fleet
            .run(&["salt", "--out=json", "m1", "state.apply", "site"])
            .out
    };
    let first = applied();
    assert!(first.contains("test_|-first_|-first_|-nop"), "{first}");

    states.commit(&[("version", "two")]);
    pillar.commit(&[("site.sls", "site: second\n")]);
    wait_for_change();
    let text = fleet.run(&["salt", "m1", "cp.get_file_str", "salt://version"]);
    assert!(text.out.contains("two"), "{}", text.out);
    fleet.soon("the new pillar is used", || {
        applied().contains("test_|-second_|-second_|-nop")
    });

    // The repositories are away: the last commits are served.
    for repository in [&states, &pillar] {
        fs::rename(&repository.0, repository.0.with_extension("away")).unwrap();
    }
    fleet.soon("the master cannot update", || {
        fleet
            .logs()
            .contains("does not appear to be a git repository")
    });
    let last = applied();
    assert!(last.contains("test_|-second_|-second_|-nop"), "{last}");
}
