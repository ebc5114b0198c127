//! `salt-cp`: copies files of this machine to minions, by jobs.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use cli::failure::{Exit, Failure};
use cli::options::Target;
use cli::output::Screen;
use machine::fs;
use python::{base64, path};
use value::{Map, Value, random};
use wire::Publish;

use crate::commands::local_client::{AskError, Master};
use crate::commands::salt::{Asker, INCOMPLETE, NO_MATCH, NOTHING, Reply};

mod files;

use files::{Entry, Kind};

/// The maximum size in bytes of all files that are sent as one job, without `--chunked`.
const TEXT_MAX: u64 = 1 << 20;

/// The maximum of `salt_cp_chunk_size` in bytes: a job with the contents in base64 must fit into a
/// message.
const CHUNK_MAX: i64 = 4 << 20;

/// The number of random bytes in the id of a transfer.
const ID_BYTES: usize = 16;

/// The request of a command line.
pub(crate) struct Copy<'a> {
    pub(crate) target: &'a Target,
    pub(crate) sources: &'a [String],
    pub(crate) dest: &'a str,
    pub(crate) chunked: bool,
}

/// The reason why the command ends before it has copied everything.
enum Stop {
    /// A line for stderr, and the exit code.
    Refused(String, u8),
    /// A line for stdout. The exit code is 1.
    Folder(String),
    /// The master does not answer.
    Ask(AskError),
}

impl From<AskError> for Stop {
    fn from(error: AskError) -> Self {
        Self::Ask(error)
    }
}

/// Runs the command, and returns its exit code.
pub(crate) fn run(copy: &Copy<'_>, opts: &Map, master: &dyn Master, screen: &mut Screen<'_>) -> u8 {
    let groups = opts.get("nodegroups").and_then(Value::as_map);
    let groups = groups.cloned().unwrap_or_default();
    let target = copy.target;
    if let Err(wrong) = value::target::check(&target.tgt, target.tgt_type, &groups) {
        screen.complain(&Failure::new(Exit::Usage, wrong).text());
        return Exit::Usage as u8;
    }
    let asker = Asker::new(opts, master, target);
    let sources: Vec<String> = copy
        .sources
        .iter()
        .map(|path| path::realpath(path))
        .collect();
    let copied = match copy.chunked {
        true => in_pieces(&asker, &sources, copy.dest, screen),
        false => at_once(&asker, &sources, copy.dest, screen),
    };
    match copied {
        Ok(returns) => {
            screen.show(&returns.into(), Some("nested"), 0);
            0
        }
        Err(Stop::Refused(line, code)) => {
            screen.complain(&format!("{line}\n"));
            code
        }
        Err(Stop::Folder(line)) => {
            screen.say(&line);
            1
        }
        Err(Stop::Ask(error)) => {
            screen.show(&Value::from(error.to_string()), Some(""), 1);
            NOTHING
        }
    }
}

/// Sends all files as one job.
fn at_once(
    asker: &Asker<'_>,
    sources: &[String],
    dest: &str,
    screen: &mut Screen<'_>,
) -> Result<Map, Stop> {
    let mut files = Map::new();
    let mut left = TEXT_MAX;
    for source in sources {
        let text = text_of(source, left)?;
        left = left.saturating_sub(text.len() as u64);
        files.insert(source.as_str(), text);
    }
    let job = asker.job("cp.recv", vec![files.into(), dest.into()]);
    returns(asker, job, screen)
}

/// Returns the text of a file of at most `max` bytes.
fn text_of(source: &str, max: u64) -> Result<String, Stop> {
    let refused = |line: String| Stop::Refused(line, 1);
    if path::isdir(source) {
        return Err(Stop::Folder(format!(
            "{source} is a directory, only files are supported in non-chunked mode. Use \"--chunked\" command line argument."
        )));
    }
    if !path::isfile(source) {
        let line = format!("The referenced file, {source} is not available.");
        return Err(Stop::Refused(line, INCOMPLETE));
    }
    let mut text = Vec::new();
    let read = fs::open(source).map_err(|error| refused(error.to_string()))?;
    let read = read.take(max + 1).read_to_end(&mut text);
    read.map_err(|error| refused(format!("Cannot read {source}: {error}")))?;
    if text.len() as u64 > max {
        return Err(refused(format!(
            "Cannot send {source}: files of more than {TEXT_MAX} bytes together need --chunked"
        )));
    }
    let is_no_text = |_| {
        refused(format!(
            "Cannot send {source}: it is not UTF-8 text, which needs --chunked"
        ))
    };
    String::from_utf8(text).map_err(is_no_text)
}

/// Runs a job, and returns the returns of its minions.
fn returns(asker: &Asker<'_>, job: Publish, screen: &mut Screen<'_>) -> Result<Map, Stop> {
    let mut all = Map::new();
    asker.publish(job, &mut |said| {
        match said {
            Reply::Sent(sent) if sent.minions.is_empty() => screen.say(NO_MATCH),
            Reply::Sent(_) => {}
            Reply::Answered(answer) => {
                all.insert(answer.id, answer.value);
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// Sends each file in pieces, one job each.
fn in_pieces(
    asker: &Asker<'_>,
    sources: &[String],
    dest: &str,
    screen: &mut Screen<'_>,
) -> Result<Map, Stop> {
    let size = chunk_size(asker.opts)?;
    let entries =
        files::below(sources).map_err(|error| Stop::Refused(error.to_string(), error.code()))?;
    let mut copied = Map::new();
    for entry in files::placed(entries, dest) {
        let done = match &entry.kind {
            Kind::EmptyFolder => {
                let arg = vec![entry.place.as_str().into(), Value::Null];
                returns(asker, asker.job("cp.recv_chunked", arg), screen)?
            }
            Kind::File { mode } => file_in_pieces(asker, &entry, *mode, size, screen)?,
        };
        if done.is_empty() {
            // No minion matches, and the screen says it.
            return Ok(copied);
        }
        for (id, value) in done.iter() {
            let of_minion = copied.entry(id.clone(), || Map::new().into());
            if let Some(of_minion) = of_minion.as_map_mut() {
                of_minion.insert(entry.place.as_str(), value.clone());
            }
        }
    }
    Ok(copied)
}

fn chunk_size(opts: &Map) -> Result<u64, Stop> {
    let given = opts.get("salt_cp_chunk_size").and_then(Value::as_int);
    let size = given.filter(|size| (1..=CHUNK_MAX).contains(size));
    size.map(i64::unsigned_abs).ok_or_else(|| {
        let line = format!("salt_cp_chunk_size is not a number of bytes between 1 and {CHUNK_MAX}");
        Stop::Refused(line, Exit::Usage as u8)
    })
}

/// Sends a file in pieces. A minion that has not confirmed a piece gets no further one.
fn file_in_pieces(
    asker: &Asker<'_>,
    entry: &Entry,
    mode: u32,
    size: u64,
    screen: &mut Screen<'_>,
) -> Result<Map, Stop> {
    let id = random::array::<ID_BYTES>().map_err(AskError::from)?;
    let id = value::python::hex(&id);
    let mut pieces = Pieces::open(&entry.source, size)?;
    let mut all = Map::new();
    let mut left: Option<BTreeSet<String>> = None;
    loop {
        let (offset, data) = (pieces.offset, pieces.next()?);
        let last = pieces.is_at_end;
        let transfer = Map::new()
            .with("id", id.as_str())
            .with("offset", i64::try_from(offset).unwrap_or(i64::MAX))
            .with("last", last);
        let arg = vec![
            entry.place.as_str().into(),
            base64::encode(&data).into(),
            (offset > 0).into(),
            false.into(),
            mode.into(),
            transfer.into(),
        ];
        let job = match &left {
            None => asker.job("cp.recv_chunked", arg),
            Some(ids) => {
                let ids: Vec<String> = ids.iter().cloned().collect();
                asker.job_for(&ids, "cp.recv_chunked", arg)
            }
        };
        let returned = returns(asker, job, screen)?;
        let confirmed = returned
            .iter()
            .filter(|(_, value)| **value == Value::Bool(true));
        let confirmed: BTreeSet<String> = confirmed.map(|(id, _)| id.to_text()).collect();
        all.update(returned);
        if last || confirmed.is_empty() {
            return Ok(all);
        }
        left = Some(confirmed);
    }
}

/// A file that is read in pieces.
struct Pieces<'a> {
    source: &'a str,
    file: std::fs::File,
    size: u64,
    offset: u64,
    next: Vec<u8>,
    is_at_end: bool,
}

impl<'a> Pieces<'a> {
    fn open(source: &'a str, size: u64) -> Result<Self, Stop> {
        let file = fs::open(Path::new(source));
        let mut pieces = Self {
            source,
            file: file.map_err(|error| Stop::Refused(error.to_string(), 1))?,
            size,
            offset: 0,
            next: Vec::new(),
            is_at_end: false,
        };
        pieces.next = pieces.read()?;
        Ok(pieces)
    }

    fn read(&mut self) -> Result<Vec<u8>, Stop> {
        let mut data = Vec::new();
        let read = self.file.by_ref().take(self.size).read_to_end(&mut data);
        read.map_err(|error| Stop::Refused(format!("Cannot read {}: {error}", self.source), 1))?;
        Ok(data)
    }

    /// Returns the next piece, and notes whether it is the last one.
    fn next(&mut self) -> Result<Vec<u8>, Stop> {
        let following = self.read()?;
        self.is_at_end = following.is_empty();
        let piece = std::mem::replace(&mut self.next, following);
        self.offset += piece.len() as u64;
        Ok(piece)
    }
}
