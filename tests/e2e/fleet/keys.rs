//! Keys: offered, accepted, taken away.

use super::Fleet;

#[test]
fn a_key_waits_until_it_is_accepted_and_its_minion_answers() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    let answer = fleet.run(&["salt", "m1", "test.ping"]);
    assert_eq!(
        (answer.out.as_str(), answer.rc),
        ("m1:\n    True\n", Some(0))
    );
}

#[test]
fn a_deleted_key_is_cut_off_and_waits_again() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    assert_eq!(fleet.run(&["salt-key", "-y", "-d", "m1"]).rc, Some(0));
    fleet.soon("the key is offered again", || {
        fleet
            .run(&["salt-key", "-l", "un"])
            .out
            .lines()
            .any(|line| line == "m1")
    });
    assert_ne!(fleet.run(&["salt", "m1", "test.ping"]).rc, Some(0));
}

#[test]
fn every_key_is_accepted_where_the_configuration_says_so() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("it answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
}
