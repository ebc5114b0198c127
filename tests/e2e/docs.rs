//! Runs the commands of README.md and of the pages in packaging/docs, and compares what they print
//! with the pages.
//!
//! Each page has a throw-away root, in which its commands run in order, in one shell. Before them,
//! the page's files are written there. A line `...` of an expected output matches any lines, and
//! `...` in a line any text. Times, dates and job ids need not be equal. A command must exit with
//! 0, unless the next one is `echo $?` or the block is `console exit=CODE`.

mod page;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use fancy_regex::Regex;
use tests::answer::without_times;
use tests::program::{in_recorded_environment, pinch_program};
use tests::scratch::corpus;

use page::{Block, Commands, blocks};

/// The longest time for a command, and for one that is repeated until it prints what is expected.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of pages that run at the same time.
const AT_ONCE: usize = 4;

/// The environment variable that selects the pages whose path contains its value.
const SELECTED: &str = "PINCH_DOCS";

/// Parts of outputs that differ in each run, in addition to those of [`without_times`].
static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\b20\d\d, [A-Z][a-z]{2} \d\d\b", "DATE"),
        (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d+", "TIME"),
        (r"[ \t]+\d+(?:\.\d+)? m?s\b", " T"),
        (r#""(duration|seconds)": [\d.]+"#, r#""$1": T"#),
        (r"(?m)[ \t]+$", ""),
    ]
    .map(|(pattern, text)| (Regex::new(pattern).unwrap(), text))
    .into()
});

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A page.
struct Page {
    /// Its path in the repository.
    path: String,
    text: String,
}

fn pages() -> Vec<Page> {
    let entries = fs::read_dir(repository().join("packaging/docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut paths: Vec<String> = names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("packaging/docs/{name}"))
        .collect();
    paths.push("README.md".to_owned());
    paths.sort();
    let selected = std::env::var(SELECTED).unwrap_or_default();
    paths.retain(|path| path.contains(&selected));
    let read = |path: String| {
        let text = fs::read_to_string(repository().join(&path)).unwrap();
        Page { path, text }
    };
    paths.into_iter().map(read).collect()
}

fn masked(text: &str) -> String {
    let masked = MASKS.iter().fold(text.to_owned(), |text, (mask, with)| {
        mask.replace_all(&text, *with).into_owned()
    });
    without_times(masked.trim_end())
}

/// Returns whether a command printed what the page shows.
fn is_as_shown(shown: &[String], printed: &str) -> bool {
    let shown = masked(&shown.join("\n"));
    let mut pattern = String::new();
    for line in shown.lines() {
        if line.trim() == "..." {
            pattern.push_str(r"(?:[^\n]*\n)*?");
        } else {
            let parts: Vec<_> = line.split("...").map(fancy_regex::escape).collect();
            pattern.push_str(&parts.join(r"[^\n]*?"));
            pattern.push_str(r"\n");
        }
    }
    let pattern = Regex::new(&format!(r"\A{pattern}\z")).unwrap();
    let mut printed = masked(printed);
    if !printed.is_empty() {
        printed.push('\n');
    }
    pattern.is_match(&printed).unwrap()
}

/// A shell in a throw-away root.
struct Shell {
    folder: tempfile::TempDir,
    process: Child,
    input: ChildStdin,
    codes: Receiver<String>,
    commands: usize,
}

impl Shell {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(corpus().join("throwaway.sh"));
        let command = in_recorded_environment(command.arg(folder.path()))
            .args(["bash".into(), corpus().join("docs/root.sh")])
            .env("REPO", repository().canonicalize().unwrap())
            .env("PINCH", pinch_program())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (sender, codes) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(output.unwrap()).lines();
            let _ = lines
                .map_while(Result::ok)
                .try_for_each(|code| sender.send(code));
        });
        Self {
            folder,
            process,
            input: input.unwrap(),
            codes,
            commands: 0,
        }
    }

    /// Runs a command and returns what it printed and its exit code.
    fn run(&mut self, command: &str) -> Result<(String, i32), String> {
        self.commands += 1;
        let file = |ending: &str| {
            self.folder
                .path()
                .join(format!("{}.{ending}", self.commands))
        };
        fs::write(file("sh"), format!("{command}\n")).unwrap();
        let printed =
            || fs::read(file("out")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        writeln!(self.input, "{}", self.commands).map_err(|_| "the shell has ended".to_owned())?;
        match self.codes.recv_timeout(PATIENCE) {
            Ok(code) => Ok((printed().unwrap(), code.parse().unwrap())),
            Err(error) => Err(format!(
                "{error}; it printed:\n{}",
                printed().unwrap_or_default()
            )),
        }
    }

    fn write(&mut self, file: &page::File) -> Result<(), String> {
        let source = self.folder.path().join("file");
        fs::write(&source, &file.text).unwrap();
        let mode = if file.text.starts_with("#!") {
            755
        } else {
            644
        };
        let command = format!("install -D -m {mode} {} {}", source.display(), file.path);
        match self.run(&command)? {
            (_, 0) => Ok(()),
            (printed, _) => Err(printed),
        }
    }

    /// Runs the commands of a block, and returns each difference from the page.
    fn check(&mut self, block: &Commands) -> Vec<String> {
        let next = |at: usize| block.commands.get(at + 1).map(|next| next.text.as_str());
        let mut differences = Vec::new();
        for (at, command) in block.commands.iter().enumerate() {
            let result = self.repeated(command, block.repeats);
            let is_code_shown = next(at) == Some("echo $?");
            let exit = next(at).map_or(block.exit, |_| 0);
            let why = match result {
                Err(why) => why,
                Ok((printed, _)) if !is_as_shown(&command.output, &printed) => {
                    format!("it printed:\n{printed}")
                }
                Ok((printed, code)) if code != exit && !is_code_shown => {
                    format!("it exited with {code}, and printed:\n{printed}")
                }
                Ok(_) => continue,
            };
            differences.push(format!("{}: $ {}\n{why}", command.line, command.text));
        }
        differences
    }

    fn repeated(
        &mut self,
        command: &page::Command,
        repeats: bool,
    ) -> Result<(String, i32), String> {
        let began = Instant::now();
        loop {
            let result = self.run(&command.text)?;
            if !repeats || is_as_shown(&command.output, &result.0) || began.elapsed() > PATIENCE {
                return Ok(result);
            }
            sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the commands of a page, and returns each difference.
fn check(page: &Page) -> Vec<String> {
    let blocks = blocks(&page.text).unwrap();
    if !blocks
        .iter()
        .any(|block| matches!(block, Block::Commands(_)))
    {
        return Vec::new();
    }
    let mut shell = Shell::start();
    let check = |block: &Block| match block {
        Block::File(file) => shell.write(file).err().into_iter().collect(),
        Block::Commands(commands) => shell.check(commands),
        Block::NotRun => Vec::new(),
    };
    let differences = blocks.iter().flat_map(check);
    differences
        .map(|why| format!("{}:{why}", page.path))
        .collect()
}

#[test]
fn the_commands_of_the_pages_print_what_the_pages_show() {
    if !tests::skip::is_root() {
        return;
    }
    let mut differences = Vec::new();
    for some in pages().chunks(AT_ONCE) {
        thread::scope(|scope| {
            let run = |page| scope.spawn(move || check(page));
            let running: Vec<_> = some.iter().map(run).collect();
            for page in running {
                differences.extend(page.join().unwrap());
            }
        });
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn the_pages_have_few_commands_that_are_not_run() {
    let (mut run, mut not_run) = (0, 0);
    for Page { path, text } in pages() {
        for block in blocks(&text).unwrap_or_else(|why| panic!("{path}: {why}")) {
            match block {
                Block::Commands(block) => run += block.commands.len(),
                Block::NotRun => not_run += 1,
                Block::File(_) => {}
            }
        }
    }
    eprintln!("documentation: {run} commands, {not_run} blocks that are not run");
    assert!(
        not_run <= 12,
        "{not_run} blocks `console no-run:` are too many"
    );
}

/// Returns the anchors of a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn the_links_of_the_pages_lead_to_files_and_headings() {
    let link = Regex::new(r#"\]\(([^)#:\s"']*)(?:#([^)\s]*))?\)"#).unwrap();
    let mut broken = Vec::new();
    for Page { path, text } in pages() {
        let from = repository().join(&path);
        for found in link.captures_iter(&text) {
            let found = found.unwrap();
            let target = match &found[1] {
                "" => from.clone(),
                name => from.parent().unwrap().join(name),
            };
            let has_heading = found.get(2).is_none_or(|heading| {
                let page = fs::read_to_string(&target).unwrap_or_default();
                anchors(&page).contains(heading.as_str())
            });
            if !target.exists() || !has_heading {
                broken.push(format!("{path}: {}", &found[0]));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
