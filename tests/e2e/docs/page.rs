//! The fenced blocks of a Markdown page.

/// A fenced block that the test uses.
pub(super) enum Block {
    /// A file that is written before the next commands. Its first line, or the second one after
    /// `#!`, is a comment `# file: PATH`.
    File(File),
    /// Commands that are run.
    Commands(Commands),
    /// Commands that no test machine can run, for the reason that the page states.
    NotRun,
}

pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

/// A block `console`.
pub(super) struct Commands {
    pub(super) commands: Vec<Command>,
    /// The exit code of the last command, from `console exit=CODE`.
    pub(super) exit: i32,
    /// True for `console repeat`: the commands are repeated until they print this.
    pub(super) repeats: bool,
}

pub(super) struct Command {
    /// The number of its line in the page.
    pub(super) line: usize,
    /// The command without its prompt.
    pub(super) text: String,
    pub(super) output: Vec<String>,
}

/// A fenced block in its written form.
struct Fence<'a> {
    line: usize,
    info: &'a str,
    lines: Vec<&'a str>,
}

/// Returns the blocks of a page that are files or commands.
///
/// # Errors
/// With the line of a block that has a command and is not run, or that has no valid form.
pub(super) fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let read = fences(page)?.into_iter().filter_map(|fence| {
        let at = fence.line;
        fence
            .block()
            .map_err(|why| format!("line {at}: {why}"))
            .transpose()
    });
    read.collect()
}

fn fences(page: &str) -> Result<Vec<Fence<'_>>, String> {
    let (mut done, mut open) = (Vec::new(), None::<Fence<'_>>);
    for (at, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(""), Some(_)) => done.extend(open.take()),
            (Some(info), None) => {
                let (line, lines) = (at + 1, Vec::new());
                open = Some(Fence { line, info, lines });
            }
            (None, None) => {}
            (_, Some(fence)) => fence.lines.push(line),
        }
    }
    match open {
        Some(fence) => Err(format!("line {}: the block has no end", fence.line)),
        None => Ok(done),
    }
}

impl Fence<'_> {
    fn block(&self) -> Result<Option<Block>, String> {
        let (kind, tag) = self.info.split_once(' ').unwrap_or((self.info, ""));
        if let Some(path) = self.path() {
            let text = self.lines.join("\n") + "\n";
            let path = path.to_owned();
            return Ok(Some(Block::File(File { path, text })));
        }
        match kind {
            "console" => self.console(tag).map(Some),
            "sh" | "bash" | "shell" | "yaml" if tag != "not-written" => Err(format!(
                "a block `{kind}` needs a first line `# file: PATH`; commands belong into a block `console`"
            )),
            _ if self.lines.iter().any(|line| line.starts_with("$ ")) => {
                Err("a command is not run: make the block a `console`".to_owned())
            }
            _ => Ok(None),
        }
    }

    fn path(&self) -> Option<&str> {
        let lines = self.lines.iter();
        let mut lines = lines.skip_while(|line| line.starts_with("#!"));
        lines.next()?.strip_prefix("# file: ")
    }

    fn console(&self, tag: &str) -> Result<Block, String> {
        if tag.strip_prefix("no-run: ").is_some() {
            return Ok(Block::NotRun);
        }
        let (mut exit, mut repeats) = (0, false);
        for word in tag.split_whitespace() {
            match word.split_once('=') {
                Some(("exit", code)) => exit = code.parse().map_err(|_| "exit needs a number")?,
                None if word == "repeat" => repeats = true,
                _ => {
                    return Err(format!(
                        "`{word}` is not exit=CODE, repeat or no-run: REASON"
                    ));
                }
            }
        }
        let commands = self.commands()?;
        Ok(Block::Commands(Commands {
            commands,
            exit,
            repeats,
        }))
    }

    fn commands(&self) -> Result<Vec<Command>, String> {
        let mut commands = Vec::<Command>::new();
        for (at, line) in self.lines.iter().enumerate() {
            let text = (*line).to_owned();
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(text), _) => commands.push(Command {
                    line: self.line + 1 + at,
                    text: text.to_owned(),
                    output: Vec::new(),
                }),
                (None, Some(command)) => command.output.push(text),
                (None, None) => return Err("the block begins without a command".to_owned()),
            }
        }
        match commands.is_empty() {
            true => Err("the block has no command".to_owned()),
            false => Ok(commands),
        }
    }
}

#[test]
fn a_command_that_is_not_run_is_an_error() {
    let error = |page: &str| blocks(page).err().unwrap_or_default();
    for page in [
        "```sh\npinch lint\n```\n",
        "```text\n$ pinch lint\n```\n",
        "```\n$ pinch lint\n```\n",
        "```yaml\na: 1\n```\n",
        "```console no-run:\n$ pinch lint\n```\n",
        "```console maybe\n$ pinch lint\n```\n",
        "```console\npinch lint\n```\n",
        "```console\n```\n",
        "```console\n$ pinch lint\n",
    ] {
        assert!(
            error(page).starts_with("line 1: "),
            "{page}: {}",
            error(page)
        );
    }
    for page in [
        "```text\npinch lint\n```\n",
        "```console no-run: it takes a day\n$ pinch lint\n```\n",
        "```sh\n#!/bin/sh\n# file: /srv/x\necho\n```\n",
        "```yaml not-written\na: 1\n```\n",
    ] {
        assert_eq!(error(page), "", "{page}");
    }
}

#[test]
fn a_block_has_commands_with_their_output() {
    let page = "# x\n```console exit=2\n$ a\n$ b c\none\n\ntwo\n```\n";
    let read = blocks(page).unwrap();
    let [Block::Commands(block)] = read.as_slice() else {
        panic!("expected one block of commands");
    };
    let [a, b] = block.commands.as_slice() else {
        panic!("expected two commands");
    };
    assert_eq!((block.exit, block.repeats), (2, false));
    assert_eq!((a.line, a.text.as_str(), a.output.len()), (3, "a", 0));
    assert_eq!((b.line, b.text.as_str()), (4, "b c"));
    assert_eq!(b.output, ["one", "", "two"]);
}
