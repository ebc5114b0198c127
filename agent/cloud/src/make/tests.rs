//! Calls against a cloud that misbehaves: no machine is made twice, and none is left that is not
//! listed.

use std::sync::Mutex;

use super::*;
use crate::driver::Offer;
use crate::testing::{Home, spec_of};

/// The answers of a cloud to requests for a machine.
type Answers = Vec<Result<(), Fault>>;

/// A cloud in memory, without client tokens.
struct Memory {
    machines: Mutex<Vec<Machine>>,
    /// The answers to requests, each with whether the machine is made.
    answers: Mutex<Answers>,
    /// True if a request that is not answered is carried out.
    is_carried_out: bool,
    /// True if it is carried out after the next one.
    is_late: bool,
    /// The state and the address of machines.
    state: &'static str,
    address: Option<&'static str>,
    calls: Mutex<Vec<&'static str>>,
}

impl Memory {
    fn new(answers: Answers) -> Self {
        Self {
            machines: Mutex::default(),
            answers: Mutex::new(answers),
            is_carried_out: true,
            is_late: false,
            state: "running",
            address: Some("192.0.2.1"),
            calls: Mutex::default(),
        }
    }

    fn called(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }

    fn count(&self, call: &str) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|own| **own == call).count()
    }
}

impl Driver for Memory {
    fn boot(&self) -> Boot {
        Boot::UserData
    }

    fn list(&self, _cx: &Exec) -> Result<Vec<Machine>, Fault> {
        Ok(self.machines.lock().unwrap().clone())
    }

    fn create(&self, _cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault> {
        self.called("create");
        let machine = Machine {
            name: wanted.spec.name.to_string(),
            id: "m-1".to_owned(),
            state: self.state.to_owned(),
            public_ips: self.address.into_iter().map(str::to_owned).collect(),
            token: Some(wanted.token.to_owned()),
            ..Machine::default()
        };
        let answer = self.answers.lock().unwrap().remove(0);
        let is_unclear = matches!(answer, Err(Fault::Unanswered { .. })) && self.is_carried_out;
        let mut machines = self.machines.lock().unwrap();
        if answer.is_ok() || is_unclear {
            machines.push(machine.clone());
        }
        if answer.is_ok() && self.is_late {
            let id = "m-2".to_owned();
            machines.push(Machine {
                id,
                ..machine.clone()
            });
        }
        answer.map(|()| machine)
    }

    fn resume(&self, _cx: &Exec, _wanted: &Wanted<'_>, machine: Machine) -> Result<Machine, Fault> {
        self.called("resume");
        Ok(machine)
    }

    fn destroy(&self, _cx: &Exec, machine: &Machine) -> Result<Value, Fault> {
        let mut all = self.machines.lock().unwrap();
        all.retain(|own| own.id != machine.id);
        Ok(Value::Null)
    }

    fn action(
        &self,
        _cx: &Exec,
        _fun: &str,
        _machine: &Machine,
        _kwargs: &Map,
    ) -> Result<Option<Value>, Fault> {
        Ok(None)
    }

    fn offers(&self, _cx: &Exec, _offer: Offer) -> Result<Map, Fault> {
        Ok(Map::new())
    }

    fn has_failed(&self, state: &str) -> bool {
        state.starts_with("ERROR")
    }
}

fn spec() -> Spec {
    let mut spec = spec_of("web1", "mine", "memory");
    spec.settings.insert("deploy", false);
    spec.settings.insert("wait_for_ip_timeout", 0.3);
    spec.settings.insert("wait_for_ip_interval", 0.1);
    spec
}

fn make(home: &Home, cloud: &Memory) -> Result<Map, Fault> {
    let cx = home.cx();
    let maker = Maker {
        cx: &cx,
        run: "20260101000000000000".to_owned(),
        is_step: false,
        intents: Intents::of(&cx),
    };
    maker.make(&spec(), cloud, &Listing::default())
}

/// Returns the names of the machines that `cloud.orphans` lists.
fn orphans(home: &Home) -> Vec<String> {
    let all = Intents::of(&home.cx()).all().unwrap();
    all.iter().map(|intent| intent.name.to_string()).collect()
}

#[test]
fn a_request_without_an_answer_makes_no_second_machine() {
    let home = Home::new();
    let cloud = Memory::new(vec![Err(Fault::unanswered("memory", "HTML"))]);
    let made = make(&home, &cloud).unwrap();
    assert_eq!(made.get("id"), Some(&"m-1".into()));
    assert_eq!((cloud.count("create"), cloud.count("resume")), (1, 1));
    assert_eq!(cloud.machines.lock().unwrap().len(), 1);
    assert!(orphans(&home).is_empty());
}

#[test]
fn a_request_that_was_lost_is_sent_again() {
    let home = Home::new();
    let mut cloud = Memory::new(vec![
        Err(Fault::unanswered("memory", "no route")),
        Err(Fault::throttled("memory", "slow down", None)),
        Ok(()),
    ]);
    cloud.is_carried_out = false;
    make(&home, &cloud).unwrap();
    assert_eq!(cloud.count("create"), 3);
    assert_eq!(cloud.machines.lock().unwrap().len(), 1);
}

#[test]
fn a_request_that_is_carried_out_after_its_repetition_is_an_error_that_names_both_machines() {
    let home = Home::new();
    let mut cloud = Memory::new(vec![Err(Fault::unanswered("memory", "slow")), Ok(())]);
    (cloud.is_carried_out, cloud.is_late) = (false, true);
    let error = make(&home, &cloud).unwrap_err().to_string();
    let text = "the cloud has made two machines for web1: m-1 is used; remove m-2 in the cloud, and run this again";
    assert_eq!(error, text);
    assert_eq!(orphans(&home), ["web1"]);
    cloud.machines.lock().unwrap().retain(|own| own.id == "m-1");
    make(&home, &cloud).unwrap();
    assert_eq!((cloud.count("create"), cloud.count("resume")), (2, 1));
    assert!(orphans(&home).is_empty());
}

#[test]
fn a_refusal_leaves_nothing() {
    let home = Home::new();
    let cloud = Memory::new(vec![Err(Fault::refused("memory", "", "no quota"))]);
    let error = make(&home, &cloud).unwrap_err();
    assert_eq!(error.to_string(), "memory: no quota");
    assert!(orphans(&home).is_empty());
}

#[test]
fn a_machine_without_an_address_is_an_orphan_that_the_next_call_finishes() {
    let home = Home::new();
    let mut cloud = Memory::new(vec![Ok(())]);
    cloud.address = None;
    let error = make(&home, &cloud).unwrap_err().to_string();
    assert!(
        error.contains("web1 (m-1) does not run or has no address"),
        "{error}"
    );
    assert_eq!(orphans(&home), ["web1"]);
    for machine in cloud.machines.lock().unwrap().iter_mut() {
        machine.public_ips = vec!["192.0.2.1".to_owned()];
    }
    make(&home, &cloud).unwrap();
    assert_eq!((cloud.count("create"), cloud.count("resume")), (1, 1));
    assert!(orphans(&home).is_empty());
}

#[test]
fn a_machine_that_has_failed_is_an_error_with_the_clouds_reason() {
    let home = Home::new();
    let mut cloud = Memory::new(vec![Ok(())]);
    cloud.state = "ERROR: No valid host was found.";
    let error = make(&home, &cloud).unwrap_err().to_string();
    let text = "web1 (m-1) does not run: ERROR: No valid host was found.; cloud.orphans lists it";
    assert_eq!(error, text);
    assert_eq!(orphans(&home), ["web1"]);
}
