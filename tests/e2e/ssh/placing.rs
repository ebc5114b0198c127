//! Placing the program on a host, and hosts that lie.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use super::{Answer, Host, Site, enlist_one, placed};

/// Attack: a folder that another user prepared, and a link to a folder elsewhere.
#[test]
fn the_program_is_not_placed_where_another_user_can_write() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    let prepared = host.path("var/tmp/.root_pinch");
    fs::create_dir_all(&prepared).unwrap();
    fs::set_permissions(&prepared, fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir_all(host.path("root/.cache")).unwrap();
    std::os::unix::fs::symlink("/tmp/elsewhere", host.path("root/.cache/pinch")).unwrap();
    fs::create_dir_all(host.path("tmp/elsewhere")).unwrap();
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    assert_eq!(placed(&prepared), []);
    assert_eq!(placed(&host.path("tmp/elsewhere")), []);
}

#[test]
fn a_transfer_that_was_cut_continues_where_it_stopped() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    let folder = host.dir.path().join("thin");
    let line = format!(
        "\n  web1: {{host: 127.0.0.1, port: {}, thin_dir: {}}}\n",
        host.port,
        folder.display()
    );
    site.write("etc/roster", &line);
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    let (name, _) = placed(&folder).remove(0);
    let whole = fs::read(folder.join(&name)).unwrap();
    // The partial file has the name of the caller, whose id is in the configuration of the master.
    let id = ring::digest::digest(&ring::digest::SHA256, b"caller");
    let id = id.as_ref()[..4].iter().map(|byte| format!("{byte:02x}"));
    let part = format!("{name}.{}.part", id.collect::<String>());
    fs::remove_file(folder.join(&name)).unwrap();
    // Every prefix is continued; the next call replaces a part with other bytes.
    for length in [0, 100_000, whole.len() - 1, whole.len()] {
        fs::write(folder.join(&part), &whole[..length]).unwrap();
        site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
        assert_eq!(fs::read(folder.join(&name)).unwrap(), whole, "{length}");
        fs::remove_file(folder.join(&name)).unwrap();
    }
    fs::write(folder.join(&part), vec![0; whole.len()]).unwrap();
    site.ssh(&["web1", "test.ping"])
        .is(12, &["does not have its hash"]);
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
}

#[test]
fn a_wiped_host_has_nothing_left_and_a_random_folder_is_used_once() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    let folders = || {
        let entries = fs::read_dir(host.path("var/tmp")).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let real = |name: &String| host.path("var/tmp").join(name).is_dir();
        names.filter(real).collect::<Vec<_>>()
    };
    site.ssh(&["-w", "web1", "test.ping"]).is(0, &["True"]);
    assert_eq!(folders(), Vec::<String>::new());
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    site.ssh(&["-W", "web1", "test.ping"]).is(0, &["True"]);
    assert_eq!(folders(), [".root_pinch"]);
    let folder = host.path("var/tmp/.root_pinch");
    let first = placed(&folder);
    site.ssh(&["-t", "web1", "test.ping"]).is(0, &["True"]);
    assert_ne!(placed(&folder), first);
}

#[test]
fn a_disk_that_is_full_or_runs_no_programs_is_named() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &["disks"]);
    enlist_one(&site, &host, "thin_dir: /noexec/pinch");
    site.ssh(&["web1", "test.ping"])
        .is(11, &["no folder", "set thin_dir in the roster"]);
    enlist_one(&site, &host, "thin_dir: /full/pinch");
    for _ in 0..2 {
        site.ssh(&["web1", "test.ping"]).is(
            11,
            &[
                "cannot place the program at /full/pinch/",
                "No space left on device",
            ],
        );
    }
}

/// Attack: the host is not what it says.
#[test]
fn a_host_that_lies_harms_only_its_own_return() {
    let Some(site) = Site::new() else { return };
    let (liar, good) = (Host::start(&site, &["script"]), Host::start(&site, &[]));
    site.enlist(&[("liar", liar.port), ("web1", good.port)]);
    let probe = "case \"$SSH_ORIGINAL_COMMAND\" in *pinch-probe*) echo pinch-probe machine x86_64; echo pinch-probe folder /tmp; exit ;; esac\n";
    let cases = [
        (
            "echo pinch-probe machine vax; echo pinch-probe folder /tmp",
            "\"vax\"",
        ),
        (
            "echo 'pinch-probe machine x86_64'; echo 'pinch-probe folder /tmp/$(id)'",
            "no folder",
        ),
        (
            "exec yes pinch-probe file 1 x",
            "the output has more than 16 MiB",
        ),
        ("exec yes >&2", "the output has more than 16 MiB"),
        ("exit 3", "no usable shell"),
        // It takes the program and drops it, and then sends bytes that are no frames.
        (
            &format!(
                "{probe}case \"$SSH_ORIGINAL_COMMAND\" in *ssh-job*) exec head -c 100000 /dev/urandom ;; *) cat >/dev/null ;; esac"
            ),
            "the job ended without a return",
        ),
        // A frame of 4 GiB.
        (
            &format!(
                "{probe}case \"$SSH_ORIGINAL_COMMAND\" in *ssh-job*) printf '\\377\\377\\377\\377'; exec yes ;; *) cat >/dev/null ;; esac"
            ),
            "the job ended without a return",
        ),
    ];
    for (script, text) in cases {
        fs::write(liar.dir.path().join("host.sh"), script).unwrap();
        let ran = site.ssh(&["*", "test.ping", "--out=json"]);
        assert_ne!(ran.code, Some(0), "{script}");
        assert!(ran.out.contains("\"web1\": true"), "{script}: {}", ran.out);
        assert!(
            ran.out.contains(&text.replace('"', "\\\"")),
            "{script}: {}",
            ran.out
        );
    }
}

#[test]
fn two_transfers_at_once_do_not_disturb_each_other() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    let calls: Vec<Child> = (0..3)
        .map(|_| {
            let mut command = site.command("salt-ssh", &["web1", "test.ping"]);
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for call in calls {
        Answer::of(call.wait_with_output().unwrap()).is(0, &["True"]);
    }
    assert_eq!(placed(&host.path("var/tmp/.root_pinch")).len(), 1);
}
