//! [`Board`]: the state of the runs of a call: the chunks that run, their start times, what they
//! wait for, and the finished ones. It reads no clock and writes no output.

use std::time::{Duration, Instant};

use value::Map;
use value::watch::{Event, State, Worker};

use super::shown::{Line, Outcome, columns, duration, failure_details, harmless, named, time};

/// The maximum number of chunks of a run for which all chunks are listed. In a longer run, chunks
/// that changed nothing or were skipped are only counted.
const LISTED: usize = 50;

/// The minimum duration of a chunk that is always listed, whatever its outcome.
const SLOW: Duration = Duration::from_secs(1);

/// The time after which a running chunk shows what it waits for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of chunks by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts([usize; 5]);

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        if let Some(count) = self.0.get_mut(outcome as usize) {
            *count += 1;
        }
    }

    fn total(self) -> usize {
        self.0.iter().sum()
    }

    /// Returns the counts as text: `45 ok, 4 changed, 1 failed`.
    fn to_text(self) -> String {
        use Outcome::{Changed, Failed, Ok, Skipped, Would};
        let all = [Ok, Changed, Would, Skipped, Failed].into_iter();
        let some = all.filter_map(|outcome| {
            let count = *self.0.get(outcome as usize)?;
            let word = match outcome {
                Would => "would change",
                _ => outcome.word(),
            };
            (count > 0).then(|| format!("{count} {word}"))
        });
        some.collect::<Vec<_>>().join(", ")
    }
}

/// A run that has not finished.
#[derive(Debug)]
struct Run {
    jid: String,
    since: Instant,
    chunks: usize,
    counts: Counts,
}

/// A chunk that has not finished.
#[derive(Debug)]
struct Step {
    worker: Worker,
    jid: String,
    tag: String,
    function: String,
    id: String,
    since: Instant,
    depth: usize,
    /// The time of the last line about what it waits for, and that line's subject.
    told: Option<(Instant, String)>,
}

/// A wait of a worker.
#[derive(Debug)]
struct Wait {
    worker: Worker,
    what: String,
    since: Instant,
    /// True if a line about it was printed.
    told: bool,
}

/// The state of the runs of a call.
#[derive(Debug, Default)]
pub(super) struct Board {
    runs: Vec<Run>,
    steps: Vec<Step>,
    waits: Vec<Wait>,
    summary: Option<Line>,
}

fn plain(text: String) -> Line {
    Line {
        text,
        outcome: None,
    }
}

impl Board {
    /// Processes an event of a worker and returns the lines of the chunks that it finished.
    pub(super) fn take(&mut self, event: Event<'_>, worker: Worker, now: Instant) -> Vec<Line> {
        match event {
            Event::Started { jid, chunks, .. } => self.runs.push(Run {
                jid: jid.to_owned(),
                since: now,
                chunks,
                counts: Counts::default(),
            }),
            Event::StateStarted(state) => self.started(state, worker, now),
            Event::StateFinished { jid, tag, ret } => return self.finished(jid, tag, ret),
            Event::Waits(Some(what)) => self.waits.push(Wait {
                worker,
                what: harmless(what),
                since: now,
                told: false,
            }),
            Event::Waits(None) => {
                let last = self.waits.iter().rposition(|wait| wait.worker == worker);
                last.map(|at| self.waits.remove(at));
            }
            Event::Finished { jid, .. } => self.ended(jid, now),
        }
        Vec::new()
    }

    fn depth(&self, jid: &str) -> usize {
        let at = self.runs.iter().position(|run| run.jid == jid);
        at.unwrap_or_default()
    }

    fn started(&mut self, state: State<'_>, worker: Worker, now: Instant) {
        let gone =
            |step: &Step| step.jid == state.jid && (step.worker == worker || step.tag == state.tag);
        self.steps.retain(|step| !gone(step));
        let tried = if state.tried { " (looking ahead)" } else { "" };
        self.steps.push(Step {
            worker,
            jid: state.jid.to_owned(),
            tag: state.tag.to_owned(),
            function: format!("{}.{}", state.state, state.fun),
            id: format!("{}{tried}", state.id),
            since: now,
            depth: self.depth(state.jid),
            told: None,
        });
    }

    fn finished(&mut self, jid: &str, tag: &str, ret: &Map) -> Vec<Line> {
        self.steps.retain(|step| step.jid != jid || step.tag != tag);
        let (outcome, depth, took) = (Outcome::from_return(ret), self.depth(jid), duration(ret));
        let run = self.runs.iter_mut().find(|run| run.jid == jid);
        let is_long = run.is_some_and(|run| {
            run.counts.add(outcome);
            run.chunks > LISTED
        });
        let dull = matches!(outcome, Outcome::Ok | Outcome::Skipped) && took < SLOW;
        if is_long && dull {
            return Vec::new();
        }
        let (function, id) = named(tag);
        let text = columns(outcome.word(), &time(took), depth, &function, &id);
        let mut lines = vec![Line {
            text,
            outcome: Some(outcome),
        }];
        if outcome == Outcome::Failed {
            lines.extend(failure_details(ret).into_iter().map(plain));
        }
        lines
    }

    /// Removes a finished run. The outermost run leaves a summary.
    fn ended(&mut self, jid: &str, now: Instant) {
        self.steps.retain(|step| step.jid != jid);
        let Some(at) = self.runs.iter().position(|run| run.jid == jid) else {
            return;
        };
        let run = self.runs.remove(at);
        if at == 0 {
            let failed = run.counts.0.get(Outcome::Failed as usize) != Some(&0);
            let took = time(now.duration_since(run.since));
            let total = run.counts.total();
            let states = if total == 1 { "state" } else { "states" };
            self.summary = Some(Line {
                text: format!("{total} {states} in {took}: {}", run.counts.to_text()),
                outcome: Some(if failed { Outcome::Failed } else { Outcome::Ok }),
            });
        }
    }

    /// Returns the summary of the outermost run. It can be taken only once.
    pub(super) fn summary(&mut self) -> Option<Line> {
        self.summary.take()
    }

    /// Returns the lines about the running chunks, at most `most` lines and one about the run.
    pub(super) fn live(&self, now: Instant, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = self.steps.iter().map(|step| self.step(step, now)).collect();
        let more = lines.len().saturating_sub(most.saturating_sub(1));
        if more > 0 {
            lines.truncate(lines.len() - more);
            lines.push(format!("and {more} more"));
        }
        match self.runs.first() {
            Some(run) => lines.push(counted(run, now)),
            None => lines.extend(self.loose(now)),
        }
        lines
    }

    fn step(&self, step: &Step, now: Instant) -> String {
        let since = now.duration_since(step.since);
        let mut line = columns(
            "running",
            &time(since),
            step.depth,
            &step.function,
            &step.id,
        );
        if since >= PATIENCE
            && let Some(wait) = self.wait_of(step.worker)
        {
            line.push_str(&format!(": waiting for {}", wait.what));
        }
        line
    }

    /// Returns the current wait of a worker.
    fn wait_of(&self, worker: Worker) -> Option<&Wait> {
        self.waits.iter().rev().find(|wait| wait.worker == worker)
    }

    /// Returns a line for each chunk that takes long. Another line for the same chunk follows only
    /// if it waits for something else.
    fn overdue(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        let mut steps = std::mem::take(&mut self.steps);
        let mut inner: Vec<Worker> = Vec::new();
        for step in steps.iter_mut().rev() {
            // If a step runs an inner step in the same thread, the inner one's line is enough.
            let is_outer = inner.contains(&step.worker);
            inner.push(step.worker);
            let what = self.wait_of(step.worker).map(|wait| wait.what.clone());
            let what = what.unwrap_or_default();
            let is_told = step
                .told
                .as_ref()
                .is_some_and(|(at, told)| *told == what || now.duration_since(*at) < PATIENCE);
            if !is_outer && !is_told && now.duration_since(step.since) >= PATIENCE {
                lines.push(self.step(step, now));
                step.told = Some((now, what));
            }
        }
        self.steps = steps;
        let is_due = |wait: &Wait| !wait.told && now.duration_since(wait.since) >= PATIENCE;
        if self.runs.is_empty() && self.waits.first().is_some_and(is_due) {
            lines.extend(self.loose(now));
            self.waits
                .iter_mut()
                .take(1)
                .for_each(|wait| wait.told = true);
        }
        lines
    }

    /// Returns a line about a wait before any run: for the lock of another run.
    fn loose(&self, now: Instant) -> Option<String> {
        let wait = self.waits.first()?;
        let since = now.duration_since(wait.since);
        Some(format!("waiting for {} for {}", wait.what, time(since)))
    }
}

/// Returns the progress of a run: `12 of 50 states, 1 failed, 32 s`.
fn counted(run: &Run, now: Instant) -> String {
    let (done, of) = (run.counts.total(), run.chunks);
    let failed = match run.counts.0.get(Outcome::Failed as usize) {
        Some(failed) if *failed > 0 => format!(", {failed} failed"),
        _ => String::new(),
    };
    let since = time(now.duration_since(run.since));
    format!("{done} of {of} states{failed}, {since}")
}

/// The output of `--progress=plain`: a line for each state that finishes or takes long, and one
/// when all have finished.
#[derive(Debug, Default)]
pub(super) struct Plain {
    board: Board,
    is_begun: bool,
    pub(super) is_over: bool,
}

fn lines_of(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().map(|line| line + "\n").collect()
}

impl Plain {
    /// Returns the lines for an event, and whether it is the first event.
    pub(super) fn take(&mut self, worker: Worker, event: Event<'_>) -> (String, bool) {
        let lines = self.board.take(event, worker, Instant::now());
        let all = lines.into_iter().chain(self.board.summary());
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        (lines_of(all.map(|line| line.text)), is_first)
    }

    /// Returns the lines for chunks that take long.
    pub(super) fn overdue(&mut self) -> String {
        lines_of(self.board.overdue(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state<'a>(tag: &'a str, id: &'a str) -> Event<'a> {
        Event::StateStarted(State {
            jid: "1",
            tag,
            id,
            name: id,
            state: "cmd",
            fun: "run",
            sls: "a",
            tried: false,
        })
    }

    fn run(chunks: usize) -> Event<'static> {
        Event::Started {
            jid: "1",
            fun: "state.apply",
            test: false,
            chunks,
        }
    }

    #[test]
    fn a_step_says_what_it_waits_for_once_it_takes_long() {
        let (mut board, worker, start) = (Board::default(), 0, Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        board.take(run(2), worker, start);
        board.take(state("cmd_|-a_|-a_|-run", "a"), worker, start);
        board.take(Event::Waits(Some("the command make")), worker, start);
        assert_eq!(
            board.live(at(9), 5),
            ["running   9.0 s  cmd.run  a", "0 of 2 states, 9.0 s"]
        );
        assert_eq!(
            board.live(at(61), 5),
            [
                "running    1:01  cmd.run  a: waiting for the command make",
                "0 of 2 states, 1:01"
            ]
        );
        board.take(Event::Waits(None), worker, at(61));
        assert_eq!(board.live(at(61), 5)[0], "running    1:01  cmd.run  a");
    }

    #[test]
    fn plain_lines_say_once_what_is_waited_for() {
        let (mut board, worker, start) = (Board::default(), 0, Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        board.take(Event::Waits(Some("the run 7")), worker, start);
        assert!(board.overdue(at(9)).is_empty());
        assert_eq!(board.overdue(at(10)), ["waiting for the run 7 for 10 s"]);
        assert!(board.overdue(at(30)).is_empty());
        board.take(Event::Waits(None), worker, at(30));
        board.take(run(2), worker, at(30));
        board.take(state("cmd_|-a_|-a_|-run", "a"), worker, at(30));
        board.take(Event::Waits(Some("the command make")), worker, at(30));
        assert!(board.overdue(at(39)).is_empty());
        assert_eq!(
            board.overdue(at(40)),
            ["running    10 s  cmd.run  a: waiting for the command make"]
        );
        assert!(board.overdue(at(60)).is_empty());
        board.take(Event::Waits(None), worker, at(60));
        board.take(Event::Waits(Some("5 s until the next try")), worker, at(60));
        assert_eq!(
            board.overdue(at(61)),
            ["running    31 s  cmd.run  a: waiting for 5 s until the next try"]
        );
        board.take(Event::Waits(Some("the command test")), worker, at(62));
        assert!(board.overdue(at(65)).is_empty());
    }

    #[test]
    fn a_long_run_lists_what_matters_and_counts_the_rest() {
        let (mut board, worker, now) = (Board::default(), 0, Instant::now());
        board.take(run(LISTED + 1), worker, now);
        let mut finished = |result: Option<bool>| {
            let ret = Map::new().with("result", result).with("comment", "why");
            let tag = "cmd_|-a_|-a_|-run";
            let lines = board.take(
                Event::StateFinished {
                    jid: "1",
                    tag,
                    ret: &ret,
                },
                worker,
                now,
            );
            lines.into_iter().map(|line| line.text).collect::<Vec<_>>()
        };
        assert!(finished(Some(true)).is_empty());
        assert_eq!(
            finished(Some(false)),
            ["failed    0.0 s  cmd.run  a", "    why"]
        );
        assert_eq!(finished(None), ["would     0.0 s  cmd.run  a"]);
        board.take(
            Event::Finished {
                jid: "1",
                good: false,
            },
            worker,
            now,
        );
        let summary = board.summary().unwrap();
        assert_eq!(
            summary.text,
            "3 states in 0.0 s: 1 ok, 1 would change, 1 failed"
        );
        assert!(board.summary().is_none());
    }

    #[test]
    fn many_steps_at_a_time_leave_room_on_the_screen() {
        let (mut board, now) = (Board::default(), Instant::now());
        board.take(run(9), 0, now);
        let tags: Vec<String> = (0..9).map(|n| format!("cmd_|-{n}_|-{n}_|-run")).collect();
        for (worker, tag) in tags.iter().enumerate() {
            board.take(state(tag, "x"), worker, now);
        }
        let lines = board.live(now, 4);
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[3], "and 6 more");
    }
}
