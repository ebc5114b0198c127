//! `pinch migrate report`: reports for each SLS of a Salt tree whether it runs here.

use std::collections::{BTreeMap, BTreeSet};

use value::glob::fnmatch;
use value::json::{self, Layout};
use value::{Map, Value};

use crate::codes::Severity;
use crate::{Finding, Report};

/// The data about an SLS that the check of its tree collects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The file, as the user knows it.
    pub file: String,
    /// The state functions of its chunks.
    pub functions: BTreeSet<String>,
    /// The custom modules of the tree that it uses.
    pub custom: BTreeSet<String>,
    /// The differences from Salt that its text shows.
    pub differences: BTreeSet<&'static str>,
    /// A renderer that this program lacks.
    pub renderer: Option<String>,
}

/// The verdict about an SLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It will not run.
    Fails,
    /// It runs on machines with python3.
    Python,
    /// It runs, but something differs from Salt.
    Differs,
    /// It runs unchanged.
    Runs,
}

impl Verdict {
    const ALL: [Self; 4] = [Self::Runs, Self::Differs, Self::Python, Self::Fails];

    const fn title(self) -> &'static str {
        match self {
            Self::Runs => "runs as is",
            Self::Differs => "runs with a difference",
            Self::Python => "needs python3 for a custom module",
            Self::Fails => "will not run",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Differs => "differs",
            Self::Python => "python",
            Self::Fails => "fails",
        }
    }
}

/// A difference from Salt. `functions` are globs (`fnmatch`) of the functions that it concerns. It
/// applies if the SLS contains one of the `words`, or always if there are none. `what` is its
/// sentence in `tests/corpus/differences.toml`, or the beginning of it.
struct Difference {
    functions: &'static [&'static str],
    words: &'static [&'static str],
    what: &'static str,
}

const fn row(
    functions: &'static [&'static str],
    words: &'static [&'static str],
    what: &'static str,
) -> Difference {
    Difference {
        functions,
        words,
        what,
    }
}

const DIFFERENCES: &[Difference] = &[
    row(
        &["salt.*"],
        &[],
        "A failed masterless orchestration exits with 1; Salt exits with 0.",
    ),
    row(
        &[
            "salt.function",
            "salt.runner",
            "salt.wheel",
            "salt.wait_for_event",
            "salt.parallel_runners",
        ],
        &[],
        "A masterless orchestration runs every kind of step (salt.function, runner, wheel, wait_for_event, parallel_runners); Salt runs only salt.state and plain states.",
    ),
    row(
        &["salt.runner"],
        &[],
        "A salt.runner step with wrong arguments fails; in Salt it succeeds.",
    ),
    row(
        &["salt.*"],
        &["batch:"],
        "The batches of an orchestration's step run one after the other; Salt starts another minion as each one returns.",
    ),
    row(
        &["cmd.*"],
        &["runas:"],
        "`cmd.run runas=` takes the user's environment from `env -0` in a login shell; `fib` is limited to 184.",
    ),
    row(
        &["module.run"],
        &[],
        "`module.run` accepts a dictionary as named arguments and a scalar as one argument; an error is reported in one sentence.",
    ),
    row(
        &["http.query"],
        &[],
        "`http.query` disables certificate checks only if the call has an explicit `verify_ssl: False`.",
    ),
    row(
        &["file.*", "archive.*"],
        &[
            "s3://",
            "swift://",
            "ftp://",
            "selinux:",
            "plist",
            "serializer: python",
            "formatter: python",
        ],
        "ftp, s3 and swift sources, SELinux arguments of file states, and `file.serialize` with toml, plist and python are refused with a clear error.",
    ),
    row(
        &["file.replace"],
        &["append_if_not_found", "prepend_if_not_found"],
        "The diff of `file.replace` counts every appended line; Salt counts several lines as one.",
    ),
    row(
        &["pip.*"],
        &[],
        "`pip`: a requirements file from the file roots may include others (`-r more.txt`); package names are compared as package indexes compare them; a removal that fails is a failure; without `bin_env`, pip is the one of the machine's python3.",
    ),
    row(
        &["virtualenv.*"],
        &["pip:"],
        "`virtualenv.create pip=True` runs ensurepip; Salt downloads get-pip.py.",
    ),
    row(
        &["timezone.*"],
        &[],
        "timezone: a zone that does not exist is a failure, `timedatectl` is used only if systemd runs, and the clock of a machine without /etc/adjtime is in UTC.",
    ),
    row(
        &["sysctl.*", "kmod.*", "host.absent"],
        &[],
        "sysctl: if the last line of the file has no newline, one is added before a new setting; kmod reads /proc/modules if lsmod is missing, and lists modules in the order of the SLS; host.absent in test mode returns None if any address would be removed.",
    ),
    row(
        &["pkg.removed", "pkg.purged"],
        &["version"],
        "`pkg.removed` with a version removes only that version;",
    ),
    row(
        &["alternatives.*"],
        &[],
        "The `alternatives` state is available; Salt 3008 has removed it.",
    ),
    row(
        &["pkgrepo.*"],
        &[],
        "`pkgrepo.managed` recognizes a configured repository whatever the order of its options, and in files of both formats. It writes only the files that change, and test mode shows the resulting contents.",
    ),
    row(
        &["ssh_auth.absent"],
        &[],
        "Lines of authorized_keys that ssh cannot parse are kept when a key is removed.",
    ),
    row(
        &["archive.extracted"],
        &[],
        "archive.extracted: `.tar.zst` and `.tzst` are recognized by name, members outside the target are rejected, test mode stores no hash of the archive and predicts owners;",
    ),
    row(
        &["git.*"],
        &[],
        "git never asks for a password; test mode of git.latest on a bare repository returns a comment;",
    ),
    row(
        &["mount.*"],
        &[],
        "mount: a swap space that could not be activated is not written to fstab, a tmpfs is remounted when its `size=` changes, `LABEL=` and `UUID=` are resolved to their device, and spaces are escaped in fstab.",
    ),
    row(
        &["event.send"],
        &[],
        "`event.send` without a daemon returns True and reaches the listeners in `sock_dir/bus`; Salt returns False.",
    ),
    row(
        &["*"],
        &["unless: []"],
        "`unless: []` runs the chunk; in Salt it fails with a KeyError.",
    ),
    row(
        &["*"],
        &["onfail_stop", "_xenv"],
        "`onfail_stop: False` and `_xenv` includes work; Salt 3008.5 refuses both although they are documented.",
    ),
    row(
        &["*"],
        &["mine.get"],
        "`mine.get` without a master also calls functions of `mine_functions` whose data was never stored in the mine;",
    ),
    row(
        &["*"],
        &["json_query", "lipsum("],
        "`lipsum` and `json_query` are not available in templates: using them is an error.",
    ),
];

/// The renderers of Salt that this program lacks.
const RENDERERS: [&str; 10] = [
    "aws_kms",
    "cheetah",
    "dson",
    "genshi",
    "hjson",
    "json5",
    "nacl",
    "pydsl",
    "pyobjects",
    "wempy",
];

impl Seen {
    /// Analyses the text of the SLS; `functions` are the custom execution functions of the tree.
    pub(crate) fn read(&mut self, text: &str, functions: &[String]) {
        let first = text.lines().next().and_then(|line| line.strip_prefix("#!"));
        let pipe: Vec<&str> = first
            .unwrap_or_default()
            .split('|')
            .map(str::trim)
            .collect();
        let missing = pipe.iter().find(|name| RENDERERS.contains(name));
        self.renderer = missing.map(|name| (*name).to_owned());
        for name in ["mako", "py"] {
            if pipe.contains(&name) {
                self.custom.insert(format!("#!{name}"));
            }
        }
        for name in functions.iter().filter(|name| text.contains(name.as_str())) {
            self.custom.insert(name.clone());
        }
        for difference in DIFFERENCES {
            let worded = difference.words.is_empty()
                || difference.words.iter().any(|word| text.contains(word));
            let used = self
                .functions
                .iter()
                .any(|name| difference.functions.iter().any(|glob| fnmatch(glob, name)));
            if worded && (used || difference.functions == ["*"]) {
                self.differences.insert(difference.what);
            }
        }
    }
}

/// An SLS with its verdict and the reasons.
struct Judged<'a> {
    name: &'a str,
    file: &'a str,
    verdict: Verdict,
    why: Vec<String>,
    notes: Vec<String>,
}

fn judged(report: &Report) -> Vec<Judged<'_>> {
    let mut by_file: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    let mut by_name: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in &report.findings {
        match &finding.when {
            // A fault between SLS files that are applied together (E4) counts against the SLS that
            // combines them.
            Some(sls) if finding.code.code.starts_with("E4") => by_name.entry(sls),
            _ => by_file.entry(&finding.file),
        }
        .or_default()
        .push(finding);
    }
    let all = report.sls.iter();
    all.map(|(name, seen)| {
        let own = by_file.get(seen.file.as_str()).into_iter();
        let together = by_name.get(name.as_str());
        let findings: Vec<&Finding> = own.chain(together).flatten().copied().collect();
        judge(name, seen, &findings)
    })
    .collect()
}

fn judge<'a>(name: &'a str, seen: &'a Seen, findings: &[&Finding]) -> Judged<'a> {
    // A state module that neither this program nor this tree has (W302) fails here too.
    let fails =
        |finding: &&&Finding| finding.severity() == Severity::Error || finding.code.code == "W302";
    let place = |finding: &&Finding| {
        let (file, line, column) = (&finding.file, finding.line, finding.column);
        format!(
            "{file}:{line}:{column}: {} ({})",
            finding.message, finding.code.code
        )
    };
    let mut wrong: Vec<String> = findings.iter().filter(fails).map(place).collect();
    if let Some(renderer) = &seen.renderer {
        wrong.push(format!(
            "the renderer {renderer} is not supported: use jinja and yaml"
        ));
    }
    let partly = findings
        .iter()
        .filter(|finding| finding.code.code == "I701");
    let (verdict, why) = match (
        wrong.is_empty(),
        seen.custom.is_empty(),
        seen.differences.is_empty(),
    ) {
        (false, ..) => (Verdict::Fails, wrong),
        (_, false, _) => {
            let names = seen.custom.iter().chain([]).cloned();
            let differences = seen.differences.iter().map(|what| (*what).to_owned());
            (Verdict::Python, names.chain(differences).collect())
        }
        (.., false) => (
            Verdict::Differs,
            seen.differences
                .iter()
                .map(|what| (*what).to_owned())
                .collect(),
        ),
        _ => (Verdict::Runs, Vec::new()),
    };
    Judged {
        name,
        file: &seen.file,
        verdict,
        why,
        notes: partly.map(place).collect(),
    }
}

/// Returns the report as Markdown, or as JSON.
#[must_use]
pub fn migration(report: &Report, format: &str) -> String {
    let judged = judged(report);
    match format {
        "json" => as_json(&judged),
        _ => as_markdown(&judged),
    }
}

fn count(judged: &[Judged<'_>], verdict: Verdict) -> usize {
    judged.iter().filter(|one| one.verdict == verdict).count()
}

fn as_markdown(judged: &[Judged<'_>]) -> String {
    let mut out = String::from("# From Salt to Pinch\n\n| | SLS |\n|---|---:|\n");
    for verdict in Verdict::ALL {
        out.push_str(&format!(
            "| {} | {} |\n",
            verdict.title(),
            count(judged, verdict)
        ));
    }
    out.push_str(&format!("| all | {} |\n", judged.len()));
    for verdict in Verdict::ALL.into_iter().rev() {
        let of = |one: &&Judged<'_>| one.verdict == verdict;
        if verdict == Verdict::Runs || count(judged, verdict) == 0 {
            continue;
        }
        out.push_str(&format!("\n## {}\n\n", capital(verdict.title())));
        for one in judged.iter().filter(of) {
            out.push_str(&format!("- `{}` ({})\n", one.name, one.file));
            one.why
                .iter()
                .for_each(|why| out.push_str(&format!("  - {}\n", flat(why))));
        }
    }
    let partly: Vec<_> = judged.iter().filter(|one| !one.notes.is_empty()).collect();
    if !partly.is_empty() {
        out.push_str("\n## Partly checked\n\nThis report runs nothing, so the rest of a template after these places was not checked. The grains of more machines (--grains) may help.\n\n");
        for one in partly {
            out.push_str(&format!("- `{}`\n", one.name));
            one.notes
                .iter()
                .for_each(|note| out.push_str(&format!("  - {}\n", flat(note))));
        }
    }
    out
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn as_json(judged: &[Judged<'_>]) -> String {
    let texts = |texts: &[String]| Value::list(texts.iter().map(|text| text.as_str().into()));
    let one = |one: &Judged<'_>| -> Value {
        Map::new()
            .with("sls", one.name)
            .with("file", one.file)
            .with("verdict", one.verdict.word())
            .with("why", texts(&one.why))
            .with("not_seen", texts(&one.notes))
            .into()
    };
    let totals = Verdict::ALL
        .into_iter()
        .fold(Map::new(), |totals, verdict| {
            totals.with(verdict.word(), count(judged, verdict))
        });
    let all = Map::new()
        .with("version", 1)
        .with("totals", totals)
        .with("sls", Value::list(judged.iter().map(one)));
    let layout = Layout {
        indent: Some(4),
        ..Layout::default()
    };
    format!("{}\n", json::write(&all.into(), layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sentence here must be in the list of differences.
    #[test]
    fn each_difference_is_in_the_list() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/corpus/differences.toml"
        );
        let list = std::fs::read_to_string(path).unwrap();
        for difference in DIFFERENCES {
            assert!(list.contains(difference.what), "{}", difference.what);
        }
    }
}
