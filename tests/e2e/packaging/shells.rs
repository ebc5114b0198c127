//! Man pages and completions, tested with the real shells and man.

use std::path::Path;
use std::process::Command;

use tests::program::assert_in_order;

use super::{packaged, sh, stand_in_here, target, workspace};

/// Unpacks the tarball and returns the path of its `share` folder.
fn unpacked(dir: &Path) -> String {
    packaged(&stand_in_here(dir), &target(), "tar", &[], dir);
    let dir = dir.display();
    sh(&format!(
        "tar -xzf {dir}/*.tar.gz -C {dir}; echo {dir}/pinch-*/share"
    ))
    .trim()
    .to_owned()
}

#[test]
fn bash_completes_options_and_what_they_take() {
    let dir = tempfile::tempdir().unwrap();
    let share = unpacked(dir.path());
    // Bash passes `=` to a completion as a separate word.
    let script = format!(
        r#"
. {share}/bash-completion/completions/pinch
compopt() {{ :; }}
complete_words() {{
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    $(complete -p $1 | sed 's/.*-F \([^ ]*\).*/\1/')
    echo "${{COMPREPLY[@]}}"
}}
complete_words salt-call --file
complete_words salt-call --log-level = pro
complete_words salt-call -l war
complete_words salt-call -c /usr/sbi
complete_words salt-call state
complete_words pinch install
complete_words pinch salt-call --versions
complete_words pinch lint --format sar
complete_words pinch undo --dry
"#
    );
    let output = Command::new("bash")
        .args(["-euc", &script])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        text,
        "--file-root\nprofile\nwarning\n/usr/sbin\n\ninstall-links install-python\n--versions-report\nsarif\n--dry-run\n",
        "{stderr}"
    );
}

#[test]
fn fish_completes_options_and_what_they_take() {
    let dir = tempfile::tempdir().unwrap();
    let share = unpacked(dir.path());
    let script = format!(
        "HOME={home} fish --no-config -c 'source {share}/fish/vendor_completions.d/pinch.fish; complete -C \"salt-call --versions\"; complete -C \"salt-call --log-level=pro\"; \
         complete -C \"salt-call -c /usr/sbi\"; complete -C \"pinch install-l\"; complete -C \"pinch salt-call --file-r\"; complete -C \"pinch apply --progress=pl\"'",
        home = dir.path().display()
    );
    let expected = [
        "--versions-report\tshow the versions",
        "--log-level=profile",
        "/usr/sbin/",
        "install-links\tcreate a link",
        "--file-root\tuse DIR",
        "--progress=plain",
    ];
    assert_in_order(&sh(&script), &expected);
}

#[test]
fn zsh_completes_options_and_what_they_take() {
    let dir = tempfile::tempdir().unwrap();
    let share = unpacked(dir.path());
    let script = workspace().join("tests/corpus/complete.zsh");
    let ask = |line: &str| {
        let dir = dir.path().display();
        sh(&format!(
            "cd {dir}; HOME={dir} zsh -f {} {share}/zsh/site-functions '{line}'",
            script.display()
        ))
    };
    for (line, expected) in [
        ("salt-call --versions-r", "salt-call --versions-report"),
        (
            "salt-call --log-level=prof",
            "salt-call --log-level=profile",
        ),
        ("pinch install-l", "pinch install-links"),
        ("pinch salt-call --file-r", "pinch salt-call --file-root="),
        ("pinch plan --plan-f", "pinch plan --plan-file="),
    ] {
        assert_eq!(ask(line).trim(), expected);
    }
}

#[test]
fn man_takes_the_pages_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let share = unpacked(dir.path());
    let text = sh(&format!(
        "for page in {share}/man/man[157]/*; do MANWIDTH=100 LC_ALL=C.UTF-8 man --warnings -l $page 2>&1; done"
    ));
    let expected = [
        "NAME\n       pinch-salt-call - run a function, states or an orchestration on this machine\n",
        "       -l LEVEL, --log-level=LEVEL\n              log level on stderr",
        "EXIT STATUS\n",
        "NAME\n       pinch - Salt's states and commands",
        "       pinch install-links DIR\n",
        "   pinch undo [options] (JID | last)\n",
        "NAME\n       pinch-minion - configuration file of the minion\n",
        "       runs_keep (a whole number, default 200)\n",
        "NAME\n       pinch-sls - the language of SLS files, in one page\n",
        "REQUISITES\n",
    ];
    assert_in_order(&text, &expected);
    assert!(!text.contains("warning:"), "{text}");
}
