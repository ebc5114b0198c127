//! `master_tops` of a master, which assigns SLS to its minions.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::Fleet;

#[test]
fn a_master_assigns_states_by_a_command_that_gets_the_id_of_the_minions_key() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = folder.path().join("nodes");
    let config = format!("master_tops: {{ext_nodes: {}}}\n", nodes.display());
    let mut fleet = Fleet::with(&config);
    fs::write(&nodes, "#!/bin/sh\necho \"classes: [of_$1]\"\n").unwrap();
    fs::set_permissions(&nodes, fs::Permissions::from_mode(0o755)).unwrap();
    fleet.write("salt/top.sls", "base:\n  'm1':\n    - common\n");
    for name in ["common", "of_m1", "of_m2"] {
        let text = format!("{name}:\n  test.nop: []\n");
        fleet.write(&format!("salt/{name}.sls"), &text);
    }
    fleet.accepted(&["m1", "m2"]);
    let shown = |id: &str| {
        let answer = fleet.run(&["salt", "--out=json", "--static", id, "state.show_top"]);
        answer.out.split_whitespace().collect::<String>()
    };
    assert_eq!(shown("m1"), "{\"m1\":{\"base\":[\"common\",\"of_m1\"]}}");
    assert_eq!(shown("m2"), "{\"m2\":{\"base\":[\"of_m2\"]}}");
    let applied = fleet.run(&["salt", "m2", "state.apply"]);
    assert!(applied.out.contains("ID: of_m2"), "{}", applied.out);
    // A command that fails is an error, and nothing is applied.
    fs::write(&nodes, "#!/bin/sh\nexit 3\n").unwrap();
    let failed = fleet.run(&["salt", "m1", "state.apply"]);
    assert!(
        failed.out.contains("master_tops: ext_nodes") && failed.out.contains("exit status 3"),
        "{}",
        failed.out
    );
    assert_ne!(failed.rc, Some(0));
}
