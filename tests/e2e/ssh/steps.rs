//! Steps of orchestrations on hosts.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value as Json;

use crate::fleet::Fleet;

use super::{Host, Site, free_port};

#[test]
fn a_step_runs_on_hosts_without_a_master() {
    let Some(site) = Site::new() else { return };
    let hosts = [Host::start(&site, &[]), Host::start(&site, &[])];
    site.enlist(&[("web1", hosts[0].port), ("web2", hosts[1].port)]);
    site.write(
        "srv/salt/web.sls",
        "/root/out:\n  file.managed:\n    - contents: here\n",
    );
    site.write(
        "srv/salt/orch/web.sls",
        "ping:\n  salt.function:\n    - name: test.ping\n    - tgt: 'web*'\n    - ssh: True\ndeploy:\n  salt.state:\n    - tgt: 'web*'\n    - ssh: True\n    - sls: web\n    - require: [{salt: ping}]\nbad:\n  salt.function:\n    - name: cmd.run\n    - arg: ['exit 3']\n    - tgt: web1\n    - ssh: True\nnever:\n  salt.state:\n    - tgt: web2\n    - ssh: True\n    - sls: web\n    - require: [{salt: bad}]\n",
    );
    let ran = site.call(&["--local", "state.orchestrate", "orch.web"]);
    ran.is(
        1,
        &[
            "Function ran successfully. Function test.ping ran on web1, web2.",
            "States ran successfully. Updating web1, web2.",
            "Running function cmd.run failed on minions: web1 Function cmd.run ran on web1.",
            "One or more requisite failed: orch.web.bad",
        ],
    );
    for host in &hosts {
        assert_eq!(fs::read_to_string(host.path("root/out")).unwrap(), "here\n");
    }
}

#[test]
fn targets_of_a_masterless_orchestration_are_this_machine_and_the_hosts_of_a_roster() {
    let Some(site) = Site::new() else { return };
    let hosts = [Host::start(&site, &[]), Host::start(&site, &[])];
    site.enlist(&[("web1", hosts[0].port), ("db1", hosts[1].port)]);
    let roster = fs::read_to_string(site.path("etc/roster")).unwrap();
    let roster = roster.replacen("}", ", minion_opts: {grains: {role: web}}}", 1);
    site.write("hosts", &roster);
    site.write(
        "srv/salt/orch/all.sls",
        "all:\n  salt.function:\n    - name: test.ping\n    - tgt: '*'\nweb:\n  salt.function:\n    - name: grains.get\n    - arg: [id]\n    - tgt: 'role:web'\n    - tgt_type: grain\nhere:\n  salt.function:\n    - name: test.ping\n    - tgt: caller\nnone:\n  salt.state:\n    - tgt: nobody\n    - sls: x\n",
    );
    let file = site.path("hosts").display().to_string();
    let words = [
        "--local",
        "--roster-file",
        &file,
        "state.orchestrate",
        "orch.all",
    ];
    let ran = site.call(&words);
    ran.is(
        1,
        &[
            "Function test.ping ran on caller, db1, web1.",
            "Function grains.get ran on web1.",
            "Function test.ping ran on caller.",
            "No minions returned",
        ],
    );
}

/// Starts a master that reaches the hosts of a site, with these further options.
fn of_hosts(site: &Site, more: &str) -> Fleet {
    Fleet::with(&format!("auto_accept: True\n{}{more}", site.for_master()))
}

#[test]
fn a_master_runs_steps_on_hosts_and_has_their_events() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    let fleet = of_hosts(&site, "");
    fleet.write("pillar/top.sls", "base: {web1: [color]}\n");
    fleet.write("pillar/color.sls", "color: green\n");
    fleet.write("salt/f.txt", "{{ pillar.color }}\n");
    fleet.write(
        "salt/web.sls",
        "/root/out:\n  file.managed:\n    - source: salt://f.txt\n    - template: jinja\nmy/event:\n  event.send\n",
    );
    fleet.write(
        "salt/orch/web.sls",
        "deploy:\n  salt.state:\n    - tgt: 'web*'\n    - ssh: True\n    - sls: web\n",
    );
    let ran = fleet.run(&["salt-run", "state.orchestrate", "orch.web"]);
    assert!(
        ran.out.contains("States ran successfully. Updating web1."),
        "{}",
        ran.out
    );
    assert_eq!(ran.rc, Some(0));
    let written = fs::read_to_string(host.path("root/out")).unwrap();
    assert_eq!(written, "green\n");
    for tag in ["salt/job/*/new", "salt/job/*/ret/web1", "my/event"] {
        let tag = format!("tagmatch={tag}");
        let seen = fleet.run(&["salt-run", "state.event", &tag, "from=1", "count=1"]);
        assert!(seen.out.contains("web1"), "{tag}: {}", seen.out);
    }
}

#[test]
fn a_master_sends_jobs_to_hosts_without_an_agent_if_it_is_configured_so() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port), ("web2", free_port())]);
    let mut fleet = of_hosts(&site, "enable_ssh_minions: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion is connected", || {
        fleet.logs().contains("is connected")
    });
    let ran = fleet.run(&["salt", "--out=json", "--static", "*", "test.ping"]);
    let ran: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&ran["m1"], &ran["web1"]), (&true.into(), &true.into()));
    let refused = ran["web2"].as_str().unwrap();
    assert!(refused.contains("Connection refused"), "{refused}");

    fleet.write("pillar/top.sls", "base: {web1: [color]}\n");
    fleet.write("pillar/color.sls", "color: green\n");
    fleet.write(
        "salt/web.sls",
        "/root/out:\n  file.managed:\n    - contents: {{ pillar.color }}\n",
    );
    let ran = fleet.run(&["salt", "-L", "web1,nosuch", "state.apply", "web"]);
    assert!(ran.out.contains("Succeeded: 1 (changed=1)"), "{}", ran.out);
    let written = fs::read_to_string(host.path("root/out")).unwrap();
    assert_eq!(written, "green\n");
    let jobs = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
    let jobs: Json = serde_json::from_str(&jobs).unwrap();
    let (jid, _) = jobs.as_object().unwrap().iter().next_back().unwrap();
    let known = fleet.run(&["salt-run", "jobs.lookup_jid", jid]).out;
    assert!(
        known.contains("web1") && known.contains("/root/out"),
        "{known}"
    );
    let tag = format!("tagmatch=salt/job/{jid}/ret/web1");
    let seen = fleet.run(&["salt-run", "state.event", &tag, "from=1", "count=1"]);
    assert!(seen.out.contains("/root/out"), "{}", seen.out);

    fleet.write(
        "salt/orch/ping.sls",
        "ping:\n  salt.function:\n    - tgt: 'web1'\n    - name: test.ping\n",
    );
    let ran = fleet.run(&["salt-run", "state.orchestrate", "orch.ping"]);
    assert!(
        ran.out.contains("Function test.ping ran on web1."),
        "{}",
        ran.out
    );
    // Grains of hosts are not known, so that no host is a target by them.
    let ran = fleet.run(&[
        "salt",
        "--out=json",
        "--static",
        "-G",
        "kernel:Linux",
        "test.ping",
    ]);
    let ran: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(ran, serde_json::json!({"m1": true}));
    site.write("etc/roster", "web1: [\n");
    let ran = fleet.run(&["salt", "web1", "test.ping"]);
    assert_ne!(ran.rc, Some(0));
    assert!(
        fleet.logs().contains("etc/roster"),
        "{}\n{}",
        ran.out,
        fleet.logs()
    );
}

#[test]
fn a_run_on_a_host_is_planned_and_undone_with_the_trees_of_the_caller() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    site.write("srv/salt/f.txt", "new {{ grains.id }}\n");
    site.write(
        "srv/salt/web.sls",
        "/root/out:\n  file.managed:\n    - source: salt://f.txt\n    - template: jinja\n",
    );
    let planned = site.ssh(&["--pinch", "web1", "plan", "web"]);
    assert!(
        planned.out.contains("/root/out"),
        "{}\n{}",
        planned.out,
        planned.err
    );
    assert!(!host.path("root/out").exists());
    site.ssh(&["web1", "state.apply", "web"])
        .is(0, &["Succeeded: 1 (changed=1)"]);
    let written = fs::read_to_string(host.path("root/out")).unwrap();
    assert_eq!(written, "new web1\n");
    site.ssh(&["--pinch", "web1", "--", "undo", "last", "--yes"])
        .is(0, &["/root/out: file is removed"]);
    // The overlay shows a removed file as a device.
    assert!(!host.path("root/out").is_file());
    site.ssh(&["--pinch", "web1", "nosuch"]).is(20, &["nosuch"]);
}

#[test]
fn a_step_waits_until_its_host_has_rebooted() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &["uptime"]);
    site.enlist(&[("web1", host.port)]);
    let step = |wait: u32| {
        format!(
            "restart:\n  salt.function:\n    - name: cmd.run\n    - arg: [touch /root/restarts-{wait}]\n    - tgt: web1\n    - ssh: True\n    - reboot: {wait}\ncheck:\n  salt.function:\n    - name: cmd.run\n    - arg: [cat /proc/uptime]\n    - tgt: web1\n    - ssh: True\n    - require:\n      - salt: restart\n"
        )
    };
    site.write("srv/salt/orch/one.sls", &step(1));
    let orchestrate = ["--local", "state.orchestrate", "orch.one"];
    site.call(&orchestrate).is(
        1,
        &[
            "the host has not rebooted within 1 s: it is up and has not gone down",
            "set `reboot: SECONDS` to wait longer",
        ],
    );
    site.write("srv/salt/orch/one.sls", &step(60));
    let (began, uptime) = (
        host.path("root/restarts-60"),
        host.dir.path().join("uptime"),
    );
    let restarts = std::thread::spawn(move || {
        while !began.exists() {
            sleep(Duration::from_millis(20));
        }
        sleep(Duration::from_secs(2));
        fs::write(uptime, "0.50 0.10\n").unwrap();
    });
    site.call(&orchestrate)
        .is(0, &["Succeeded: 2", "0.50 0.10"]);
    restarts.join().unwrap();
    site.write(
        "srv/salt/web.sls",
        "down:\n  cmd.run:\n    - name: touch /root/down\n    - reboot: True\n",
    );
    site.ssh(&["web1", "state.apply", "web"]).is(
        20,
        &["not started: nothing on a host that is reached by ssh"],
    );
    assert!(!host.path("root/down").exists());
}

/// Returns steps on the hosts `web1` to `web3` and on one that is down.
fn steps_with_limits() -> String {
    let step = |name: &str, function: &str, more: &str| {
        format!("{name}:\n  salt.{function}:\n    - ssh: True\n{more}\n")
    };
    let log = |file: &str| {
        format!(
            "    - name: cmd.run\n    - arg: ['echo begin >>/root/{file}; sleep 1; echo end >>/root/{file}']\n    - tgt: 'web*'"
        )
    };
    [
        step(
            "roster",
            "function",
            "    - name: grains.get\n    - arg: [id]\n    - tgt: 'c*'\n    - roster: dir",
        ),
        step("batch", "function", &(log("batch") + "\n    - batch: 1")),
        step("subset", "function", &(log("subset") + "\n    - subset: 1")),
        step("all", "function", &log("all")),
        step(
            "may_fail",
            "state",
            "    - tgt: '*'\n    - sls: bad\n    - fail_minions: [web2, down]",
        ),
        step(
            "must_not_fail",
            "state",
            "    - tgt: '*'\n    - sls: bad\n    - fail_minions: down",
        ),
    ]
    .concat()
}

#[test]
fn steps_choose_a_roster_and_how_many_hosts_run_at_a_time_and_may_fail() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    let port = host.port;
    site.enlist(&[("web1", port), ("web2", port), ("web3", port), ("down", 1)]);
    let config = fs::read_to_string(site.path("etc/minion")).unwrap();
    let other = site.path("other").display().to_string();
    site.write("etc/minion", &format!("{config}roster_dir: {other}\n"));
    site.write(
        "other/configured",
        &format!("{{host: 127.0.0.1, port: {port}}}\n"),
    );
    site.write(
        "srv/salt/bad.sls",
        "{% if grains.id == 'web2' %}\nbad:\n  test.fail_without_changes\n{% else %}\ngood:\n  test.nop\n{% endif %}\n",
    );
    site.write("srv/salt/orch/all.sls", &steps_with_limits());
    let ran = site.call(&["--local", "state.orchestrate", "orch.all", "--out=json"]);
    ran.is(1, &[]);
    let returned = value::json::read(&ran.out).unwrap();
    let chunks = ["local", "data", "caller"]
        .iter()
        .try_fold(&returned, |value, key| value.get(key));
    let chunk = |name: &str| {
        let chunks = chunks.and_then(value::Value::as_map).unwrap();
        let part = format!("_|-{name}_|-");
        let mut found = chunks
            .iter()
            .filter(|(tag, _)| tag.to_text().contains(&part));
        let (_, chunk) = found
            .next()
            .unwrap_or_else(|| panic!("no {name}: {}", ran.out));
        let text = |key: &str| chunk.get(key).unwrap().to_text();
        (text("result"), text("comment"))
    };
    assert_eq!(
        chunk("roster").1,
        "Function ran successfully. Function grains.get ran on configured."
    );
    for name in ["batch", "subset", "all", "may_fail"] {
        assert_eq!(chunk(name).0, "True", "{name}: {}", chunk(name).1);
    }
    let (result, comment) = chunk("must_not_fail");
    assert_eq!(result, "False");
    assert!(
        comment.starts_with("Run failed on minions: web2"),
        "{comment}"
    );
    let log = |name: &str| fs::read_to_string(host.path(&format!("root/{name}"))).unwrap();
    assert_eq!(log("batch"), "begin\nend\n".repeat(3));
    assert_eq!(log("subset"), "begin\nend\n");
    assert!(log("all").starts_with("begin\nbegin\n"), "{}", log("all"));
}
