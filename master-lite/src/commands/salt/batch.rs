//! `--batch` and `--static`: jobs for a window that moves over the minions, and all returns printed
//! as one.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use value::{Map, Value, channel, log, python};
use wire::Publish;

use super::answer::{Answer, Reply};
use super::{Asker, NO_MATCH, NOTHING, Sent, received};
use crate::commands::command::{exit_code, flag, number};
use crate::commands::local_client::AskError;
use crate::jobs::batches::{BATCH, slots, wrong_size};
use cli::output::Screen;

/// Runs a job in batches. An empty size means all minions at once.
pub(super) fn run(
    asker: &Asker<'_>,
    fun: &str,
    arg: Vec<Value>,
    size: &str,
    screen: &mut Screen<'_>,
) -> Result<u8, AskError> {
    let quiet = flag(asker.opts, "static");
    let mut found = asker.matching()?;
    if found.minions.is_empty() {
        screen.say(NO_MATCH);
        if !quiet {
            screen.say("No minions matched the target.");
        }
    }
    value::sorted::sort(&mut found.missing);
    let up = |id: &String| !found.missing.contains(id);
    let pending: VecDeque<String> = found.minions.iter().filter(|id| up(id)).cloned().collect();
    let Some(slots) = slots(size, pending.len()) else {
        screen.complain(&format!("error: {}\n", wrong_size(size)));
        return Ok(1);
    };
    if !quiet && !pending.is_empty() {
        for id in &found.missing {
            screen.say(&format!(
                "Minion {id} did not respond. No job will be sent."
            ));
        }
    }
    let mut window = Window {
        asker,
        fun,
        arg,
        jid: value::jid::new(),
        size: slots,
        pending,
        active: 0,
        waiting: Vec::new(),
        wait: seconds(number(asker.opts, "batch_wait")),
        failhard: flag(asker.opts, "failhard"),
        returns: Map::new(),
        retcode: 0,
        quiet,
    };
    let any = !window.pending.is_empty();
    thread::scope(|scope| window.lead(scope, screen))?;
    if quiet {
        let any = !window.returns.is_empty();
        let wanted = if fun.starts_with("state.") {
            "highstate"
        } else {
            ""
        };
        screen.show(&window.returns.into(), Some(wanted), 0);
        return Ok(received(any, screen));
    }
    if !any {
        screen.complain("ERROR: No return received\n");
        return Ok(NOTHING);
    }
    Ok(exit_code(window.retcode))
}

/// Lets the master run a job in batches, and prints its id.
pub(super) fn start(
    asker: &Asker<'_>,
    fun: &str,
    arg: Vec<Value>,
    size: &str,
    screen: &mut Screen<'_>,
) -> Result<u8, AskError> {
    if slots(size, 1).is_none() {
        screen.complain(&format!("error: {}\n", wrong_size(size)));
        return Ok(1);
    }
    let shape = Map::new()
        .with("size", size)
        .with("wait", number(asker.opts, "batch_wait").unwrap_or_default())
        .with("failhard", flag(asker.opts, "failhard"));
    let mut job = asker.job(fun, arg);
    job.options.insert(BATCH, shape);
    let mut started = Sent::default();
    asker.publish(job, &mut |said| {
        if let Reply::Sent(sent) = said {
            started = sent;
        }
        ControlFlow::Continue(())
    })?;
    let is_unmatched = started.minions.is_empty() && started.missing.is_empty();
    if is_unmatched {
        screen.say(NO_MATCH);
    }
    for id in &started.missing {
        screen.say(&format!(
            "Minion {id} did not respond. No job will be sent."
        ));
    }
    match started.minions.is_empty() {
        true => screen.say("No minions matched the target."),
        false => screen.say(&format!(
            "Executed batch command with job ID: {}",
            started.jid
        )),
    }
    Ok(0)
}

fn seconds(number: Option<f64>) -> Duration {
    Duration::try_from_secs_f64(number.unwrap_or_default()).unwrap_or_default()
}

/// A message from the thread of one part of the batch.
enum PartMessage {
    /// A minion returned, or was given up.
    Answer(Answer),
    /// The part has ended.
    Over(Result<(), AskError>),
}

/// The state of a running batch.
struct Window<'a> {
    asker: &'a Asker<'a>,
    fun: &'a str,
    arg: Vec<Value>,
    /// The job id, which all parts share.
    jid: String,
    size: usize,
    pending: VecDeque<String>,
    active: usize,
    /// The times at which the slots that `--batch-wait` holds become free again.
    waiting: Vec<Instant>,
    wait: Duration,
    failhard: bool,
    returns: Map,
    retcode: i64,
    quiet: bool,
}

impl<'a> Window<'a> {
    /// Runs the batch until all minions have returned, or until one has failed under `failhard`.
    fn lead<'s>(
        &mut self,
        scope: &'s Scope<'s, 'a>,
        screen: &mut Screen<'_>,
    ) -> Result<(), AskError> {
        let (sender, receiver) = channel();
        while self.active > 0 || !self.pending.is_empty() {
            let now = Instant::now();
            self.waiting.retain(|until| *until > now);
            self.fill(scope, &sender, screen);
            match self.next(&receiver) {
                Some(PartMessage::Answer(answer)) => {
                    if self.returned(&answer).is_break() {
                        self.show(&answer, screen);
                        log::error("Batch run stopped due to failhard");
                        // The minions that still run are not waited for.
                        return Ok(());
                    }
                    // As in Salt, the next minion is announced before the return that made room for
                    // it is printed.
                    self.fill(scope, &sender, screen);
                    self.show(&answer, screen);
                }
                Some(PartMessage::Over(outcome)) => outcome?,
                None => {}
            }
        }
        Ok(())
    }

    /// Fills the free slots with the next minions.
    fn fill<'s>(
        &mut self,
        scope: &'s Scope<'s, 'a>,
        sender: &Sender<PartMessage>,
        screen: &mut Screen<'_>,
    ) {
        let taken = self.active + self.waiting.len();
        let free = self.size.saturating_sub(taken).min(self.pending.len());
        if free == 0 {
            return;
        }
        let ids: Vec<String> = self.pending.drain(..free).collect();
        self.active += free;
        if !self.quiet {
            let mut shown: Vec<Value> = ids.iter().map(|id| Value::from(id.as_str())).collect();
            value::sorted::sort(&mut shown);
            let shown = python::repr(&Value::list(shown));
            screen.say(&format!("\nExecuting run on {shown}\n"));
        }
        let mut job = self.asker.job_for(&ids, self.fun, self.arg.clone());
        job.jid = Some(self.jid.clone());
        let (asker, sender) = (self.asker, sender.clone());
        scope.spawn(move || part(asker, job, ids, &sender));
    }

    /// Waits for the next message. Returns `None` when a slot becomes free first.
    fn next(&self, receiver: &Receiver<PartMessage>) -> Option<PartMessage> {
        let until = self
            .waiting
            .iter()
            .min()
            .filter(|_| !self.pending.is_empty());
        match until {
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                receiver.recv_timeout(left).ok()
            }
            // No deadline: each sender waits for the master, which has deadlines.
            None => receiver.recv().ok(),
        }
    }

    /// Counts an answer. Breaks if it is a failure that ends the batch.
    fn returned(&mut self, answer: &Answer) -> ControlFlow<()> {
        self.freed();
        self.retcode = self.retcode.max(answer.retcode);
        if self.failhard && answer.retcode > 0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn show(&mut self, answer: &Answer, screen: &mut Screen<'_>) {
        if self.quiet {
            self.returns
                .insert(answer.id.as_str(), answer.value.clone());
        } else if answer.given_up.is_some() {
            let id = &answer.id;
            screen.say(&format!("Minion '{id}' failed to respond to job sent"));
        } else {
            let shown = Map::new()
                .with("retcode", answer.retcode_shown.clone())
                .with("jid", answer.jid.as_str())
                .with(&answer.id, answer.value.clone());
            screen.show(&shown.into(), answer.out.as_deref(), 0);
        }
    }

    fn freed(&mut self) {
        self.active = self.active.saturating_sub(1);
        if !self.wait.is_zero() {
            self.waiting.extend(Instant::now().checked_add(self.wait));
        }
    }
}

/// Runs one part of the batch. Sends an answer for each of its minions to the window, once each.
fn part(asker: &Asker<'_>, job: Publish, mut ids: Vec<String>, window: &Sender<PartMessage>) {
    let asked = asker.publish(job, &mut |said| {
        let Reply::Answered(answer) = said else {
            return ControlFlow::Continue(());
        };
        let Some(place) = ids.iter().position(|id| *id == answer.id) else {
            return ControlFlow::Continue(());
        };
        ids.remove(place);
        let answer = match answer.given_up {
            Some(_) => Answer::silent(answer.id),
            None => answer,
        };
        match window.send(PartMessage::Answer(answer)) {
            Ok(()) => ControlFlow::Continue(()),
            // The batch has ended before this part.
            Err(_) => ControlFlow::Break(()),
        }
    });
    if asked.is_ok() {
        for id in ids {
            channel::if_open(window.send(PartMessage::Answer(Answer::silent(id))));
        }
    }
    channel::if_open(window.send(PartMessage::Over(asked)));
}
