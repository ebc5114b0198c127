//! Links that are lost while a job runs, and runs that are cut short.

use std::fs;
use std::process::Stdio;

use super::{Answer, Host, SLOW, Site, cut, wait_for_lines};

#[test]
fn the_return_of_a_job_whose_link_was_lost_is_fetched_and_the_job_runs_once() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    site.write("srv/salt/slow.sls", SLOW);
    let called = site.begin_ssh(&["web1", "state.apply", "slow"]);
    wait_for_lines(&host.path("root/runs"), 1);
    cut(&host);
    Answer::of(called.wait_with_output().unwrap()).is(0, &["Succeeded: 1 (changed=1)"]);
    let runs = fs::read_to_string(host.path("root/runs")).unwrap();
    assert_eq!(runs, "run\nend\n");
}

#[test]
fn a_job_is_ended_after_its_grace_and_says_so() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    let config = fs::read_to_string(site.path("etc/master")).unwrap();
    site.write("etc/master", &(config + "ssh_grace: 1\n"));
    site.write("srv/salt/slow.sls", &SLOW.replace("sleep 5", "sleep 600"));
    let called = site.begin_ssh(&["web1", "state.apply", "slow"]);
    wait_for_lines(&host.path("root/runs"), 1);
    cut(&host);
    Answer::of(called.wait_with_output().unwrap())
        .is(11, &["ended on the host before it returned (ssh_grace)"]);
    assert_eq!(fs::read_to_string(host.path("root/runs")).unwrap(), "run\n");
}

#[test]
fn a_resumed_orchestration_fetches_the_returns_of_the_step_that_was_under_way() {
    let Some(site) = Site::new() else { return };
    let hosts = [Host::start(&site, &[]), Host::start(&site, &[])];
    site.enlist(&[("web1", hosts[0].port), ("web2", hosts[1].port)]);
    site.write("srv/salt/slow.sls", SLOW);
    site.write(
        "srv/salt/orch/slow.sls",
        "first:\n  salt.function:\n    - name: cmd.run\n    - arg: ['echo once >>/root/first']\n    - tgt: '*'\n    - ssh: True\ndeploy:\n  salt.state:\n    - tgt: '*'\n    - ssh: True\n    - sls: slow\n    - require: [{salt: first}]\n",
    );
    let words = ["--local", "state.orchestrate", "orch.slow"];
    let mut called = site
        .command("salt-call", &words)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for host in &hosts {
        wait_for_lines(&host.path("root/runs"), 1);
    }
    called.kill().unwrap();
    called.wait().unwrap();
    let resumed = site.call(&["--local", "state.orchestrate", "orch.slow", "resume=True"]);
    resumed.is(0, &["States ran successfully. Updating web1, web2."]);
    for host in &hosts {
        let read = |path: &str| fs::read_to_string(host.path(path)).unwrap();
        assert_eq!(read("root/runs"), "run\nend\n");
        assert_eq!(read("root/first"), "once\n");
    }
    let steps = site.path("root/var/cache/salt/minion/ssh/steps");
    let left: Vec<_> = fs::read_dir(steps).unwrap().collect();
    assert!(
        left.iter()
            .all(|run| fs::read_dir(run.as_ref().unwrap().path()).unwrap().count() == 0)
    );
}

/// A tree with requisites between hosts, a host that is down, and a step that fails.
const THREE: &str = "\
database:
  salt.function:
    - name: cmd.run
    - arg: ['echo migrated >>/root/database']
    - tgt: db1
    - ssh: True
deploy:
  salt.state:
    - tgt: 'web*'
    - ssh: True
    - sls: slow
    - require: [{salt: database}]
restart:
  salt.function:
    - name: cmd.run
    - arg: ['echo restarted >>/root/restarts']
    - tgt: 'web*'
    - ssh: True
    - onfail: [{salt: deploy}]
unreachable:
  salt.function:
    - name: test.ping
    - tgt: down1
    - ssh: True
after it:
  salt.function:
    - name: cmd.run
    - arg: ['echo never >>/root/never']
    - tgt: db1
    - ssh: True
    - require: [{salt: unreachable}]
";

#[test]
fn an_orchestration_over_three_hosts_survives_the_death_of_its_caller() {
    let Some(site) = Site::new() else { return };
    let hosts = [0; 3].map(|_| Host::start(&site, &[]));
    let closed = super::free_port();
    site.enlist(&[
        ("db1", hosts[0].port),
        ("web1", hosts[1].port),
        ("web2", hosts[2].port),
        ("down1", closed),
    ]);
    // It fails on one of both hosts.
    let fails = format!("{SLOW}bad:\n  cmd.run:\n    - name: test {{{{ grains.id }}}} = web1\n");
    site.write("srv/salt/slow.sls", &fails);
    site.write("srv/salt/orch/three.sls", THREE);
    let words = ["--local", "state.orchestrate", "orch.three"];
    let mut called = site
        .command("salt-call", &words)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for host in &hosts[1..] {
        wait_for_lines(&host.path("root/runs"), 1);
    }
    called.kill().unwrap();
    called.wait().unwrap();
    let resumed = site.call(&["--local", "state.orchestrate", "orch.three", "resume=True"]);
    resumed.is(
        1,
        &[
            "Run failed on minions: web2",
            "Function ran successfully. Function cmd.run ran on web1, web2.",
            "Running function test.ping failed on minions: down1",
            "Connection refused",
            "One or more requisite failed: orch.three.unreachable",
            "Succeeded: 2",
            "Failed:    3",
        ],
    );
    let read = |host: &Host, path: &str| fs::read_to_string(host.path(path)).unwrap();
    assert_eq!(read(&hosts[0], "root/database"), "migrated\n");
    assert!(!hosts[0].path("root/never").exists());
    for host in &hosts[1..] {
        assert_eq!(read(host, "root/runs"), "run\nend\n");
        assert_eq!(read(host, "root/restarts"), "restarted\n");
    }
}

#[test]
fn a_resumed_step_goes_on_with_the_subset_that_it_had_chosen() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    let ids: Vec<String> = (1..=8).map(|number| format!("web{number}")).collect();
    let entries: Vec<(&str, u16)> = ids.iter().map(|id| (id.as_str(), host.port)).collect();
    site.enlist(&entries);
    site.write("srv/salt/slow.sls", SLOW);
    site.write(
        "srv/salt/orch/one.sls",
        "deploy:\n  salt.state:\n    - tgt: '*'\n    - ssh: True\n    - subset: 1\n    - sls: slow\n",
    );
    let words = ["--local", "state.orchestrate", "orch.one"];
    let mut called = site
        .command("salt-call", &words)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_lines(&host.path("root/runs"), 1);
    called.kill().unwrap();
    called.wait().unwrap();
    let resumed = site.call(&["--local", "state.orchestrate", "orch.one", "resume=True"]);
    resumed.is(0, &["States ran successfully. Updating web"]);
    let runs = fs::read_to_string(host.path("root/runs")).unwrap();
    assert_eq!(runs, "run\nend\n");
}
