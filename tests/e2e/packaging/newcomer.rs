//! The first ten minutes in a fresh Debian: from the release folder to a change that was undone, in ten commands.

use std::process::Command;

use tests::program::assert_in_order;

use super::release::own_release;
use super::{done, is_root};

/// The ten commands, as a newcomer enters them. Each exit status that is not 0 is printed.
const COMMANDS: &str = r#"
sh /release/install.sh
pinch init
sed -i 's|^/srv/hello.txt:|/root/motd:|' /srv/salt/hello.sls
pinch salt-call state.apply test=True
pinch plan highstate -o plan.json
pinch apply plan.json
cat /root/motd
pinch undo --yes last
pinch completion bash >/etc/bash_completion.d/pinch
man pinch
"#;

/// Prints each command before it runs, as a terminal shows it.
fn script() -> String {
    let mut script = String::from(
        "mkdir -p /etc/bash_completion.d /root; cd /root; export MANPAGER=cat LC_ALL=C.UTF-8\n",
    );
    for command in COMMANDS.lines().filter(|line| !line.is_empty()) {
        script.push_str(&format!(
            "cat <<'END'\n# {command}\nEND\n{command} || echo \"exit $?\"\n"
        ));
    }
    script.push_str("ls /root/motd || true\n. /etc/bash_completion.d/pinch; complete -p pinch\n");
    script
}

#[test]
fn a_newcomer_installs_changes_and_undoes_in_ten_commands() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    own_release(dir, "tar");
    std::fs::write(dir.join("script"), script()).unwrap();
    let script = format!(
        r#"
dir={dir}
. /etc/os-release
mmdebstrap --quiet --variant=essential --include=man-db --dpkgopt=force-unsafe-io --dpkgopt='path-include=/usr/share/man/*' "$VERSION_CODENAME" "$dir/root" 2>"$dir/log" || {{ cat "$dir/log" >&2; exit 1; }}
cp -r "$dir/release" "$dir/script" "$dir/root"
exec unshare --mount --net sh -euc '
for folder in proc dev; do mount --rbind "/$folder" "$0/$folder"; done
PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin exec chroot "$0" bash -u /script 2>&1' "$dir/root"
"#,
        dir = dir.display()
    );
    let text = done(Command::new("sh").args(["-euc", &script]));
    assert_eq!(COMMANDS.trim().lines().count(), 10);
    assert_in_order(
        &text,
        &[
            "# sh /release/install.sh\n",
            "installed pinch ",
            "# pinch init\n",
            "Next:\n  pinch plan highstate",
            "# pinch salt-call state.apply test=True\n",
            "Result: None",
            "# pinch plan highstate -o plan.json\n",
            "/root/motd",
            "exit 2\n# pinch apply plan.json\n",
            "# cat /root/motd\n",
            "# pinch undo --yes last\n",
            "# pinch completion bash",
            "# man pinch\n",
            "NAME\n",
            "pinch - Salt's states and commands",
            "cannot access '/root/motd'",
            "complete ",
        ],
    );
}
