//! An orchestration makes web servers, which join the load balancer of the example of an auto-scaling group; one is destroyed and leaves it.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use tests::program::{in_recorded_environment, pinch_program};

use super::ec2::{Moto, names, user_data};
use crate::fleet::autoscale::{BALANCER, MASTER, Site, rules_for_tokens};

/// The maximum time until all machines have started.
const LAUNCH_MAX: Duration = Duration::from_secs(240);

const SERVERS: &str = "servers:
  salt.runner:
    - name: cloud.profile
    - prof: web
    - instances: [web-asg-1, web-asg-2, web-asg-3]
    - parallel: True
configured:
  salt.state:
    - tgt: 'web-asg-*'
    - highstate: True
    - queue: True
    - require: [{salt: servers}]
";

/// Starts a node for each new instance, with the file of its user data and nothing else, until there
/// are three.
fn start_instances(site: &mut Site, moto: &mut Moto, is_over: impl Fn() -> bool) {
    let (since, mut started) = (Instant::now(), BTreeSet::new());
    while started.len() < 3 {
        assert!(since.elapsed() < LAUNCH_MAX, "{}", site.fleet.logs());
        assert!(!is_over(), "{started:?}: {}", site.fleet.logs());
        for one in moto.instances() {
            let name = one["name"].as_str().unwrap().to_owned();
            if started.insert(name.clone()) {
                let (_, content, _) = user_data(one["user_data"].as_str().unwrap());
                let folder = site.fleet.path(&name).join("etc/minion.d");
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("cloud.conf"), content).unwrap();
                let address = format!("10.77.0.2{}", name.trim_start_matches("web-asg-"));
                site.boot(&name, &address, "", None);
            }
        }
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn instances_of_an_orchestration_join_the_load_balancer_and_leave_it() {
    let Some(mut site) = Site::with(&rules_for_tokens()) else {
        return;
    };
    let inside = [vec!["nsenter".to_owned()], site.inside()].concat();
    let Some(mut moto) = Moto::start_below(&inside) else {
        return;
    };
    let token = site.fleet.token(&["id=lb1", "role=loadbalancer"]);
    let config = "startup_states: highstate\n";
    site.boot("lb1", BALANCER, config, Some(&token));
    let etc = site.fleet.path("master/etc");
    let more = format!("  minion: {{master: {MASTER}}}\n  deploy_timeout: 240\n");
    let provider = moto.provider(moto.text("key")) + &more;
    fs::write(etc.join("cloud.providers"), provider).unwrap();
    fs::write(etc.join("cloud.profiles"), moto.profile()).unwrap();
    site.fleet.write("salt/orch/servers.sls", SERVERS);
    let call = thread::spawn(move || {
        let output = in_recorded_environment(&mut Command::new(pinch_program()))
            .args(["salt-run", "--out=json", "-c"])
            .arg(etc)
            .args(["state.orchestrate", "orch.servers"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), out)
    });
    start_instances(&mut site, &mut moto, || call.is_finished());
    let (code, out) = call.join().unwrap();
    assert_eq!(code, Some(0), "{out}");
    let pages = ["web-asg-1", "web-asg-2", "web-asg-3"].map(|id| format!("{id} has release 1"));
    site.soon_served(&pages.each_ref().map(String::as_str));

    let destroyed = site
        .fleet
        .run(&["salt-run", "--out=json", "cloud.destroy", "web-asg-2"]);
    assert_eq!(destroyed.rc, Some(0), "{}", destroyed.out);
    assert_eq!(names(&moto.instances()), ["web-asg-1", "web-asg-3"]);
    site.fleet.kill_minion("web-asg-2");
    site.soon_servers("the two servers that are left", |servers| {
        let lines = servers.lines().filter(|line| line.contains(" UP "));
        let mut ids: Vec<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
        ids.sort_unstable();
        ids == ["web-asg-1", "web-asg-3"]
    });
}
