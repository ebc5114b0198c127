//! Tests of the copies of orchestrations.

use super::*;

const JID: &str = "20261126203503123456";
const FIRST: RunOwner = RunOwner {
    node: 1,
    boot: 7,
    claim: 0,
};
const SECOND: RunOwner = RunOwner {
    node: 2,
    boot: 1,
    claim: 1,
};

fn begun(owner: RunOwner, lines: &str) -> Command {
    Command::RunBegun {
        jid: JID.to_owned(),
        owner,
        lines: lines.to_owned(),
    }
}

fn copied(owner: RunOwner, offset: u64, lines: &str) -> Command {
    Command::RunCopied {
        jid: JID.to_owned(),
        owner,
        offset,
        lines: lines.to_owned(),
    }
}

fn claimed(owner: RunOwner, expected: RunOwner) -> Command {
    Command::RunClaimed {
        jid: JID.to_owned(),
        owner,
        expected,
    }
}

fn step(owner: RunOwner, job: &str) -> Command {
    Command::RunStep {
        jid: JID.to_owned(),
        owner,
        step: "step".to_owned(),
        job: job.to_owned(),
    }
}

fn is_refused(applied: &Applied) -> bool {
    matches!(applied, Applied::Refused(Refusal::RunTaken { .. }))
}

#[test]
fn a_copy_has_the_lines_and_jobs_of_an_orchestration() {
    let World { store, .. } = &World::new();
    let apply = |command| store.apply_blocking(command).unwrap();
    assert!(store.runs().unwrap().is_empty());
    // The position of a line may end with any byte.
    let long = "x".repeat(255) + "\n";
    apply(begun(FIRST, &long));
    apply(copied(FIRST, 256, "second\n"));
    apply(step(FIRST, "1"));
    assert_eq!(store.runs().unwrap(), [(JID.to_owned(), FIRST)]);
    assert_eq!(store.run_lines(JID).unwrap(), long + "second\n");
    assert_eq!(store.run_step(JID, "step").unwrap().as_deref(), Some("1"));
    assert_eq!(store.run_step(JID, "other").unwrap(), None);
    apply(copied(FIRST, 0, "resumed\n"));
    assert_eq!(store.run_lines(JID).unwrap(), "resumed\n");
    assert!(store.run_step(JID, "step").unwrap().is_some());
    let jid = JID.to_owned();
    apply(Command::RunEnded { jid, owner: FIRST });
    assert!(store.runs().unwrap().is_empty());
    assert_eq!(store.run_lines(JID).unwrap(), "");
    assert_eq!(store.run_step(JID, "step").unwrap(), None);
}

#[test]
fn a_master_that_was_replaced_changes_nothing_any_more() {
    let World { store, .. } = &World::new();
    let apply = |command| store.apply_blocking(command).unwrap();
    apply(begun(FIRST, "first\n"));
    assert!(is_refused(&apply(claimed(SECOND, SECOND))));
    assert!(!is_refused(&apply(claimed(SECOND, FIRST))));
    for command in [
        begun(FIRST, "again\n"),
        copied(FIRST, 6, "late\n"),
        copied(FIRST, 0, "new\n"),
        step(FIRST, "1"),
        claimed(FIRST, FIRST),
        Command::RunEnded {
            jid: JID.to_owned(),
            owner: FIRST,
        },
    ] {
        assert!(is_refused(&apply(command)));
    }
    assert_eq!(store.run_lines(JID).unwrap(), "first\n");
    apply(copied(SECOND, 0, "second\n"));
    assert_eq!(store.runs().unwrap(), [(JID.to_owned(), SECOND)]);
    // Nor does it begin the orchestration again when it has ended.
    let jid = JID.to_owned();
    apply(Command::RunEnded { jid, owner: SECOND });
    assert!(is_refused(&apply(copied(FIRST, 0, "first\n"))));
    assert!(is_refused(&apply(step(FIRST, "1"))));
    assert!(store.runs().unwrap().is_empty());
}

#[test]
fn a_copy_that_lacks_a_line_is_an_error() {
    let World { store, .. } = &World::new();
    store.apply_blocking(begun(FIRST, "first\n")).unwrap();
    store.apply_blocking(copied(FIRST, 9, "third\n")).unwrap();
    let error = store.run_lines(JID).unwrap_err().to_string();
    assert!(error.contains("the record of an orchestration"), "{error}");
}
