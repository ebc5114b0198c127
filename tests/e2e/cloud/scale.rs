//! An auto-scaling group shrinks: the messages of its queue remove the keys of its minions.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::ec2::Moto;
use crate::fleet::Fleet;

const EXAMPLE: &str = "../packaging/examples/autoscale";

#[test]
fn the_key_of_an_instance_that_has_ended_is_deleted() {
    let Some(mut moto) = Moto::start() else {
        return;
    };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join(EXAMPLE);
    let mut fleet = Fleet::with("auto_accept: True\n");
    let ids = ["web-asg-i-0123456789abcdef0", "web-asg-i-0123456789abcdef1"];
    for id in ids {
        fleet.start_minion(id, "");
    }
    let accepted = |fleet: &Fleet, id: &str| fleet.run(&["salt-key", "-l", "acc"]).out.contains(id);
    fleet.soon("both are accepted", || {
        ids.iter().all(|id| accepted(&fleet, id))
    });
    fleet.kill_minion(ids[0]);
    let engine = fs::read_to_string(example.join("salt/_engines/sqs.py")).unwrap();
    let packages = format!("import sys\nsys.path.insert(0, {:?})\n", moto.packages());
    fleet.write("salt/_engines/sqs.py", &(packages + &engine));
    fleet.kill_master();
    let folder = fleet.path("master/etc/master.d");
    fs::create_dir_all(&folder).unwrap();
    let reaction = example.join("reactor/scale-in.sls").display().to_string();
    let options = json!({
        "queue": moto.text("queue"), "endpoint_url": moto.url(), "region": "us-east-1",
        "keyid": moto.text("id"), "key": moto.text("key"), "prefix": "web-asg-", "group": "web",
    });
    let config = json!({
        "engines": [{"sqs": options}],
        "reactor": [{"salt/autoscale/terminate": [reaction]}],
    });
    fs::write(folder.join("scale.conf"), config.to_string()).unwrap();
    fleet.start_master();
    let synced = fleet.run(&["salt-run", "saltutil.sync_engines"]);
    assert!(synced.out.contains("engines.sqs"), "{}", synced.out);
    let message = |kind: &str, id: &str, group: &str| json!({"detail-type": kind, "detail": {"EC2InstanceId": id, "AutoScalingGroupName": group}});
    let ended = "EC2 Instance Terminate Successful";
    let [gone, stays] = ["i-0123456789abcdef0", "i-0123456789abcdef1"];
    moto.send(&message(
        "EC2 Instance-terminate Lifecycle Action",
        stays,
        "web",
    ));
    moto.send(&message(ended, stays, "other"));
    moto.send(&message(ended, "*", "web"));
    moto.send(&json!({"Message": message(ended, gone, "web").to_string()}));
    fleet.soon("the key is deleted", || !accepted(&fleet, ids[0]));
    assert!(accepted(&fleet, ids[1]), "{}", fleet.logs());
    let log = fs::read_to_string(fleet.path("master/log")).unwrap();
    assert!(log.contains("not the id of an instance: '*'"), "{log}");
}
