use value::json;

use super::*;

fn shown(inventory: &Inventory, id: &str) -> String {
    let entries = inventory.entries(&inventory.members().unwrap()).unwrap();
    entries.get(id).map(Value::to_text).unwrap_or_default()
}

fn hosts(inventory: &Inventory, group: &str) -> Vec<String> {
    let members = inventory.members().unwrap();
    members.get(group).into_iter().flatten().cloned().collect()
}

#[test]
fn the_names_of_newer_versions_are_understood_too() {
    let text = "[web]\nweb1 ansible_host=10.0.0.1 color=red\nweb2:2200\n[db]\ndb1 ansible_port=2222 \
                ansible_become=yes ansible_become_user=dba\ndb2 ansible_become=no \
                ansible_become_user=dba\n[web:vars]\nansible_user=admin\nansible_password=0123\n";
    let inventory = ini::read(text).unwrap();
    assert_eq!(
        shown(&inventory, "web1"),
        "{'host': '10.0.0.1', 'user': 'admin', 'passwd': '0123', 'minion_opts': {'color': 'red'}}"
    );
    assert_eq!(
        shown(&inventory, "web2"),
        "{'port': 2200, 'user': 'admin', 'passwd': '0123', 'minion_opts': {}}"
    );
    assert_eq!(
        shown(&inventory, "db1"),
        "{'port': '2222', 'sudo': True, 'sudo_user': 'dba', 'minion_opts': {}}"
    );
    assert_eq!(
        shown(&inventory, "db2"),
        "{'minion_opts': {'ansible_become_user': 'dba'}}"
    );
}

#[test]
fn the_group_of_a_host_is_over_those_that_contain_it() {
    let text = "[a]\nx\n[b]\nx\n[z:children]\na\nb\n[all:vars]\nv=all\nw=all\n[z:vars]\nv=z\nu=z\n\
                [a:vars]\nu=a\nt=a\n[b:vars]\nt=b\n";
    let inventory = ini::read(text).unwrap();
    assert_eq!(
        shown(&inventory, "x"),
        "{'minion_opts': {'v': 'z', 'w': 'all', 'u': 'a', 't': 'b'}}"
    );
}

#[test]
fn ranges_are_numbers_or_letters() {
    let names = |pattern: &str| ini::named(pattern).map(|(names, _)| names.join(" "));
    assert_eq!(names("web").unwrap(), "web");
    assert_eq!(names("w[1:3]").unwrap(), "w1 w2 w3");
    assert_eq!(names("w[:2]").unwrap(), "w0 w1 w2");
    assert_eq!(names("w[08:10].x").unwrap(), "w08.x w09.x w10.x");
    assert_eq!(names("w[0:6:3]").unwrap(), "w0 w3 w6");
    assert_eq!(
        names("w[a:c]-[1:2]").unwrap(),
        "wa-1 wa-2 wb-1 wb-2 wc-1 wc-2"
    );
    assert_eq!(ini::named("w[1:2]:22").unwrap().1, Some(22));
    for wrong in [
        "w[",
        "w[]",
        "w[1]",
        "w[1:]",
        "w[3:1]",
        "w[c:a]",
        "w[01:2]",
        "w[1:2:0]",
        "w[1:2:3:4]",
        "w[-1:2]",
        "w[é:f]",
        "w:ssh",
        "w[1:99999999999]",
        "w[1:100000][1:2]",
        "w[1:18446744073709551615]",
    ] {
        assert!(names(wrong).is_err(), "{wrong}");
    }
}

/// Attack: an inventory that is not well formed, or grows without end.
#[test]
fn what_is_not_well_formed_is_refused() {
    for text in [
        "[web\nx\n[]\n",
        "[web:hosts2]\n",
        "[web:vars]\nx\n",
        "[web:children]\ngone\n[a:children]\nb\n[b:children]\na\n",
        "web1 'x\n",
        "web1 x\n",
        "[a b]\n",
    ] {
        let read = ini::read(text).and_then(|inventory| inventory.members());
        assert!(read.is_err(), "{text:?}");
    }
    for text in [
        "[a]\n",
        "a: [x]\n",
        "a: {host: {x: }}\n",
        "a: {hosts: [x]}\n",
        "a: {hosts: {x: 1}}\n",
        "a: {children: [b]}\n",
        "a: {hosts: {'x[1:2': }}\n",
        "a: !vault x\n",
    ] {
        assert!(yaml::read(text).is_err(), "{text:?}");
    }
    let deep = (0..=DEPTH_MAX + 1).fold("{}".to_owned(), |inner, at| {
        format!("{{\"g{at}\": {{\"children\": {inner}}}}}")
    });
    assert!(yaml::read(&deep).is_err());
    let doubled: String = (0..40)
        .map(|at| format!("[g{at}:children]\ng{0}\ng{0}\n", at + 1))
        .collect();
    assert!(
        ini::read(&(doubled + "[g40]\nx\n"))
            .unwrap()
            .members()
            .is_err()
    );
}

#[test]
fn the_list_of_a_program_is_read() {
    let list = r#"{"web": {"hosts": ["a", "b"], "vars": {"ansible_user": "u"}}, "odd": ["c"], "lone": {"x": 1},
        "_meta": {"hostvars": {"a": {"ansible_host": "h"}}}}"#;
    let inventory = list::read(&json::read(list).unwrap()).unwrap();
    assert_eq!(
        shown(&inventory, "a"),
        "{'host': 'h', 'user': 'u', 'minion_opts': {}}"
    );
    assert_eq!(shown(&inventory, "lone"), "{'minion_opts': {'x': 1}}");
    assert_eq!(hosts(&inventory, "all"), ["a", "b", "c", "lone"]);
    assert_eq!(hosts(&inventory, "odd"), ["c"]);
    assert!(hosts(&inventory, "ungrouped").is_empty());
}
