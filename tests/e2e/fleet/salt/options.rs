//! Options of a minion under a Salt master.

use serde_json::json;

use super::Salt;

#[test]
fn options_of_a_minion_mean_what_they_mean_in_salt() {
    let Some(mut salt) = Salt::start("zeromq", "") else {
        return;
    };
    let events = salt.record_events();
    let config = "start_event_grains: [shelf, none]\ngrains: {shelf: top}\nmultifunc_ordered: True\nping_interval: 1\nsource_address: 127.0.0.9\n";
    salt.start_minion("m1", config);
    salt.answers("m1");
    let started = events.with_tag("salt/minion/m1/start");
    assert_eq!(started[0]["grains"], json!({"shelf": "top"}), "{started:?}");
    let several = salt.call("m1", &["test.ping,test.echo", ",", "text"]);
    assert_eq!(several, json!([true, "text"]));
    salt.soon("the master is pinged", || {
        !events.with_tag("minion_ping").is_empty()
    });
    let ping = &events.with_tag("minion_ping")[0];
    assert_eq!((&ping["data"], &ping["id"]), (&json!("ping"), &json!("m1")));
}
