//! Containers with a real podman, under an init system in a throw-away root. Processes there run until
//! the root is removed.

use serde_json::{Value, json};
use tests::program::{boot, prepare, salt_call_in_throwaway};
use tests::scratch::Scratch;

/// A secret that must not appear in any argument of podman, which records its arguments.
const SECRET: &str = "planted-secret";

/// A machine with podman and an image; `None` without root.
fn machine() -> Option<Scratch> {
    if !tests::skip::is_root() {
        return None;
    }
    let scratch = Scratch::new();
    scratch.write("etc/minion.d/case.conf", "docker.program: podman\n");
    assert!(boot(scratch.path(), "runit").unwrap());
    let script = scratch.filled("corpus=@CORPUS@\n. @CORPUS@/podman.sh");
    prepare(scratch.path(), &script, true).unwrap();
    Some(scratch)
}

fn call(scratch: &Scratch, words: &[&str]) -> Value {
    let words = std::iter::once(&"--out=json").chain(words);
    let words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
    let answer = salt_call_in_throwaway(scratch.path(), &words).unwrap();
    let told: Result<Value, _> = serde_json::from_str(&answer.out);
    told.unwrap_or_else(|_| panic!("{}", answer.out))["local"].clone()
}

/// Applies states, and returns their returns in the order of execution.
fn apply(scratch: &Scratch, sls: &str, more: &[&str]) -> Vec<Value> {
    scratch.write("srv/salt/case.sls", sls);
    let words: Vec<&str> = ["state.apply", "case"]
        .iter()
        .chain(more)
        .copied()
        .collect();
    let rets = call(scratch, &words);
    let rets = rets.as_object().unwrap_or_else(|| panic!("{rets}"));
    let mut rets: Vec<Value> = rets.values().cloned().collect();
    rets.sort_by_key(|ret| ret["__run_num__"].as_u64());
    rets
}

fn all_are(rets: &[Value], result: &Value) -> bool {
    rets.iter().all(|ret| &ret["result"] == result)
}

const MACHINE: &str = r#"
front:
  docker_network.present:
    - subnet: 10.19.0.0/24
    - labels:
      - kind: test
data:
  docker_volume.present
image:
  docker_image.present:
    - name: localhost/box
    - tag: 1
app:
  docker_container.running:
    - image: localhost/box:1
    - command: sleep 1000
    - stop_timeout: 1
    - detach: True
    - hostname: app1
    - environment:
      - PASSWORD: "planted-secret it's"
      - QUOTED: '"planted-secret"'
      - LINES: "planted-secret\nand more"
    - binds:
      - data:/data
      - /etc/hosts:/x:ro
    - port_bindings:
      - 127.0.0.1:8080:80
      - 5353:53/udp
    - restart_policy: on-failure:5
    - extra_hosts: "other:10.0.0.1"
    - labels: {a: b}
    - user: 0
    - networks:
      - front:
        - ipv4_address: 10.19.0.10
        - aliases: [web]
"#;

#[test]
fn a_container_is_made_kept_replaced_and_removed() {
    let Some(scratch) = machine() else {
        return;
    };
    let would = apply(&scratch, MACHINE, &["test=True"]);
    let results: Vec<&Value> = would.iter().map(|ret| &ret["result"]).collect();
    // A network that does not exist yet cannot be inspected: Salt's state reports the same.
    assert_eq!(
        results,
        [&json!(null), &json!(null), &json!(true), &json!(false)]
    );
    assert_eq!(
        call(&scratch, &["docker.list_containers", "all=True"]),
        json!([])
    );

    let did = apply(&scratch, MACHINE, &[]);
    assert!(all_are(&did, &json!(true)), "{did:?}");
    assert_eq!(did[3]["comment"], "Created container 'app'");
    assert_eq!(
        did[3]["changes"]["state"],
        json!({"old": null, "new": "running"})
    );
    let nets = &did[3]["changes"]["container"]["Networks"];
    let address = json!({"old": null, "new": {"IPv4Address": "10.19.0.10"}});
    assert_eq!(nets["front"]["IPAMConfig"], address);

    let inside = |command: &str| call(&scratch, &["docker.run", "app", command, "keep_env=True"]);
    let env = inside("env");
    let env = env.as_str().unwrap();
    for wanted in [
        "PASSWORD=planted-secret it's\n",
        "QUOTED=\"planted-secret\"\n",
        "LINES=planted-secret\nand more",
    ] {
        assert!(env.contains(wanted), "no {wanted:?} in {env}");
    }
    let found = call(&scratch, &["docker.inspect_container", "app"]);
    let command = found["Config"]["CreateCommand"].to_string();
    assert!(command.contains("--volume=data:/data"), "{command}");
    assert!(!command.contains(SECRET), "{command}");
    let net = &found["NetworkSettings"]["Networks"]["front"];
    assert_eq!(net["IPAddress"], "10.19.0.10");

    let again = apply(&scratch, MACHINE, &[]);
    assert!(all_are(&again, &json!(true)), "{again:?}");
    assert!(
        again.iter().all(|ret| ret["changes"] == json!({})),
        "{again:?}"
    );

    let other = MACHINE.replace("sleep 1000", "sleep 2000");
    let would = apply(&scratch, &other, &["test=True"]);
    assert_eq!(would[3]["result"], Value::Null);
    assert_eq!(would[3]["comment"], "Container 'app' would be replaced");
    let changes = json!({"Config": {"Cmd": {"old": ["sleep", "1000"], "new": ["sleep", "2000"]}}});
    assert_eq!(would[3]["changes"]["container"], changes);
    assert_eq!(
        call(&scratch, &["docker.inspect_container", "app"])["Id"],
        found["Id"]
    );
    let did = apply(&scratch, &other, &[]);
    assert_eq!(did[3]["result"], true, "{did:?}");
    assert_eq!(did[3]["comment"], "Replaced container 'app'");
    assert_eq!(did[3]["changes"]["container"], changes);
    assert_eq!(
        did[3]["changes"]["container_id"]["removed"],
        json!([found["Id"]])
    );
    let names = call(&scratch, &["docker.list_containers", "all=True"]);
    assert_eq!(names, json!(["app"]));

    // A network that is created again gets its container back.
    let net = other.replace("kind: test", "kind: real");
    let did = apply(&scratch, &net, &[]);
    assert_eq!(
        did[0]["comment"],
        "Network 'front' was replaced with updated config"
    );
    assert_eq!(did[0]["changes"]["reconnected"], json!(["app"]));
    assert_eq!(did[3]["changes"], json!({}), "{did:?}");

    let gone = "app:\n  docker_container.stopped:\n    - shutdown_timeout: 1\napp is gone:\n  docker_container.absent:\n    - name: app\n\
        data:\n  docker_volume.absent\nfront:\n  docker_network.absent\nlocalhost/box:1:\n  docker_image.absent\n";
    let did = apply(&scratch, gone, &[]);
    assert!(all_are(&did, &json!(true)), "{did:?}");
    assert_eq!(did[1]["comment"], "Successfully removed container 'app'");
    assert_eq!(did[4]["comment"], "Image localhost/box:1 was removed");
    let again = apply(&scratch, gone, &[]);
    assert_eq!(
        again[0]["comment"],
        "The following container(s) are absent: app"
    );
    assert!(all_are(&again[1..], &json!(true)), "{again:?}");
    assert!(
        again.iter().all(|ret| ret["changes"] == json!({})),
        "{again:?}"
    );
}
