//! The codes of findings: one table is the source of the findings, their help and `pinch explain`.

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A run fails.
    Error,
    /// The result may differ from what was meant, or depends on something outside of this tree.
    Warning,
    /// Information.
    Info,
}

impl Severity {
    /// Returns the word of the severity.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// A kind of finding. Its number never changes and is never used for another kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// The number, such as `E301`; the letter is that of the severity.
    pub code: &'static str,
    /// A short name.
    pub name: &'static str,
    /// The remedy, in one line.
    pub help: &'static str,
    /// The meaning and the reason, with an example.
    pub text: &'static str,
    /// Parts of the compiler's messages of this kind. A message belongs to the first row with a
    /// part that it contains.
    says: &'static [&'static str],
}

impl Code {
    /// Returns the severity.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self.code.as_bytes() {
            [b'E', ..] => Severity::Error,
            [b'W', ..] => Severity::Warning,
            _ => Severity::Info,
        }
    }

    /// Returns the page that `pinch explain` prints.
    #[must_use]
    pub fn page(&self) -> String {
        let (code, name, help, text) = (self.code, self.name, self.help, self.text);
        let severity = self.severity().word();
        format!(
            "{code} {name} ({severity})\n\n{text}\n\nWhat to do: {help}.\nIf it is meant so, say it on the line: # pinch: allow {code}\n"
        )
    }
}

const fn row(
    code: &'static str,
    name: &'static str,
    says: &'static [&'static str],
    help: &'static str,
    text: &'static str,
) -> Code {
    Code {
        code,
        name,
        help,
        text,
        says,
    }
}

/// The code of a document that cannot be read.
const BAD_YAML: Code = row(
    "E101",
    "bad-yaml",
    &[],
    "mend the indentation, the quotes or the colon at the caret; indent with spaces only",
    "The rendered SLS is no YAML. What is indented further belongs to the line above it, a tab is no indentation, and text with `: ` or ` #` in it wants quotes.\n\n    /etc/motd:\n      file.managed:\n      - source: salt://motd\n       - mode: '0644'        <- one space too far",
);

/// All codes, in order.
pub const CODES: &[Code] = &[
    BAD_YAML,
    row(
        "E102",
        "not-a-dictionary",
        &[
            "does not render to a dictionary",
            "Error when rendering state with contents",
            "is not formatted as a dictionary",
            "is not a dictionary",
        ],
        "write IDs with their states below them",
        "An SLS is a dictionary of IDs. This one is a list or a text: a leading `- `, or a colon that was forgotten.",
    ),
    row(
        "E201",
        "bad-jinja",
        &["Jinja syntax error"],
        "mend the tag at the caret; each {% if %}, {% for %} and {% macro %} has its end",
        "The template is no Jinja: a tag without its end, a filter or test that is not there, a bracket too many.\n\n    {% if grains.os == 'Debian' %}\n    …\n    {% endfor %}             <- endif is meant",
    ),
    row(
        "E202",
        "undefined-variable",
        &[],
        "define it with {% set %}, import it, or give it a default: {{ name | default('…') }}",
        "The template uses a variable that nobody has set: Salt stops at it. Variables of an imported template are there only by import.\n\n    {% set port = 80 %}\n    listen: {{ prot }}       <- port is meant",
    ),
    row(
        "W203",
        "missing-key",
        &["Jinja variable "],
        "ask with a default: salt['pillar.get']('a:b', '…'), grains.get('x'), or give the data with -c and --grains",
        "The template reads a key of pillar, grains or another dictionary that is not there in this sample. A minion that lacks it cannot render the SLS. It is a warning, since the data may come from elsewhere.",
    ),
    row(
        "E204",
        "unknown-function",
        &[],
        "mend the name; sys.list_functions prints all",
        "A template calls an execution function that is not there, though its module is; or a step of an orchestration or a reaction calls a function, a runner or a function of the wheel whose name is nearly that of another one.\n\n    {{ salt['grains.gett']('os') }}\n\n    deploy:\n      runner.state.orchestrat:       <- state.orchestrate is meant\n        - args: [{mods: deploy}]",
    ),
    row(
        "W205",
        "unknown-module",
        &[
            "AliasedLoader object' has no attribute",
            "LoadedMod object' has no attribute",
        ],
        "put the module into _modules of the tree, or call a function that is there",
        "A template, a step of an orchestration or a reaction calls a function that neither the program nor the folder _modules (_runners, _wheel) of this tree has. Salt needs an extension for it, or the module is somewhere else.",
    ),
    row(
        "E206",
        "missing-template",
        &[],
        "mend the path: it counts from the file roots, or from the template's own folder with ./",
        "A template imports or includes one that is not in the file roots.\n\n    {% from 'nginx/mpa.jinja' import nginx with context %}",
    ),
    row(
        "W207",
        "jinja-error",
        &["Jinja error", "Problem running salt function"],
        "look at the values at the caret, with the samples of grains and pillar that were given",
        "The template fails while it is rendered with one of the samples: a filter that gets a wrong value, a calculation that cannot be done, a function that says no.",
    ),
    row(
        "E208",
        "template-limit",
        &["The template "],
        "split the file and include the parts, or end the loop that goes on",
        "The template is larger than a file may be, does more steps, or makes more text than a template may: a run refuses it.\n\n    {% for n in range(100000) %}{% for m in range(100000) %}    <- more steps than any run needs",
    ),
    row(
        "W209",
        "unfiltered-data",
        &[],
        "pass it through a filter that fits, such as ipv4, int, tojson or quote, and skip what does not pass",
        "A template prints data of the mine, or of an event in a reaction. A minion writes its own mine, and an event holds what its sender likes: a line break is enough for lines of its own in your file.\n\n    {% for id, found in salt['mine.get']('web-*', 'address') | dictsort %}\n    server {{ id }} {{ found[0] }}:80            <- anything that web-1 says\n\n    {% set good = found | ipv4 %}\n    {% if good %}server {{ id }} {{ good | first }}:80{% endif %}",
    ),
    row(
        "E301",
        "unknown-state",
        &[],
        "mend the name; sys.list_state_functions prints all",
        "A state function that is not there, though its module is, or whose name is nearly that of another one.\n\n    /etc/motd:\n      file.manged: []        <- file.managed is meant",
    ),
    row(
        "W302",
        "unknown-state-module",
        &["was not found in SLS"],
        "put the module into _states of the tree, or use a state that is there",
        "A state of a module that neither the program nor the folder _states of this tree has. In Salt it comes with an extension, or does not exist any more.",
    ),
    row(
        "E303",
        "unknown-argument",
        &[
            "is an invalid keyword argument",
            "are invalid keyword arguments",
        ],
        "mend its name, or take it out; sys.state_argspec prints those that there are",
        "The state function does not take the argument: a run would stop at it.",
    ),
    row(
        "W304",
        "suspicious-argument",
        &["does not know the argument"],
        "mend its name, or take it out",
        "The state function takes any argument, and this one is nearly that of one it knows: it would be ignored.\n\n    /etc/motd:\n      file.managed:\n        - contnets: hello    <- contents is meant",
    ),
    row(
        "E305",
        "missing-argument",
        &["Missing parameter", "Missing \""],
        "give it",
        "The state function needs an argument that is not there.\n\n    replace it:\n      file.replace:\n        - name: /etc/motd\n        - pattern: a          <- repl is missing",
    ),
    row(
        "E306",
        "bad-form",
        &[
            "is not formed as a",
            "needs to be formed as a list",
            "trailing colon",
            "has whitespace",
            "No function declared",
            "Too many functions declared",
            "Multiple dictionaries",
            "multiple state declarations",
            "single key dictionary",
            "Requisite types must not contain dots",
            "Illegal requisite",
            "must have a string as the value",
            "Invalid umask",
            "is not formed as a string",
            "should be formed as",
        ],
        "write an ID, below it module.function, below that a list of arguments",
        "A declaration has not the form that Salt reads: arguments that are no list, two functions or none, a requisite that is no `module: name`.\n\n    nginx:\n      pkg.installed:\n        - require:\n          pkg: epel           <- `- pkg: epel` is meant",
    ),
    row(
        "E401",
        "missing-requisite",
        &[
            "Referenced state does not exist",
            "The following requisite was not found",
            "Cannot use",
        ],
        "mend the name, or include the SLS that has it",
        "A requisite names a state that is nowhere: Salt refuses the whole run.\n\n    nginx:\n      service.running:\n        - require:\n          - pkg: ngnix",
    ),
    row(
        "W402",
        "requisite-elsewhere",
        &[],
        "name the SLS that has it under include",
        "A requisite names a state of an SLS that this one does not include. It works only where both are applied together.",
    ),
    row(
        "E403",
        "requisite-cycle",
        &["ecursive requisite"],
        "take out one of the requisites of the circle",
        "States need each other in a circle: none of them can be the first. Salt refuses the whole run.",
    ),
    row(
        "E404",
        "duplicate-id",
        &["conflicting ID", "found conflicting"],
        "give one of them another ID, and its name with - name:",
        "An ID stands twice: in one SLS, or in two that are applied together. IDs are unique in a run.",
    ),
    row(
        "E405",
        "extend-nothing",
        &["Cannot extend ID"],
        "mend the ID, or include the SLS that has it",
        "`extend`, or a requisite like `require_in`, names an ID that is not in the run.",
    ),
    row(
        "W406",
        "listen-nothing",
        &["Referenced state"],
        "mend the name",
        "`listen_in` names a state that is not there: nobody is told.",
    ),
    row(
        "E407",
        "requisite-turn",
        &[
            "Requisite [compensate: (",
            "names a state that runs only when a later one fails",
            "names a state that runs at the end",
            "names a state that has had its turn before",
            "is not heard: listeners are called",
            "names no state: say the ID",
            "neither True nor False",
        ],
        "states in the ordinary course know nothing of those that compensate and of those with finally: True",
        "What `compensate` names runs only when a later state fails, and what says `finally: True` at the end: no other state can wait for it, and what undoes is not undone itself.\n\n    unpack:\n      cmd.run:\n        - name: tar xf /root/site.tar -C /srv\n        - compensate: remove\n    remove:\n      cmd.run:\n        - name: rm -r /srv/site\n    tell:\n      cmd.run:\n        - name: logger ready\n        - require:\n          - cmd: remove       <- it would wait for what does not happen",
    ),
    row(
        "E501",
        "missing-sls",
        &[
            "is not available on the salt master",
            "No matching sls found",
            "is not available in",
        ],
        "mend the name: a.b is a/b.sls or a/b/init.sls below the file roots",
        "An include or a top file names an SLS that is not in the roots: Salt refuses the whole run.",
    ),
    row(
        "E502",
        "bad-include",
        &[
            "include of",
            "include found in",
            "Include Declaration",
            "Nonexistent saltenv",
            "Exclude Declaration",
            "Extension",
        ],
        "write a list of SLS names; leading dots count from the own folder",
        "`include` is no list of names, names an environment that is not there, or leads above the roots.",
    ),
    row(
        "E503",
        "bad-top",
        &["top file", "topfile", "Top data", "Environment ", "saltenv"],
        "write environment, target, list of SLS",
        "The top file has not the form that Salt reads.\n\n    base:\n      '*':\n        - nginx",
    ),
    row(
        "W504",
        "missing-file",
        &[],
        "mend the path: salt:// counts from the file roots",
        "A state takes a file from the tree that is not there. The state would fail; it is a warning, since the file may come from other roots.",
    ),
    row(
        "E505",
        "bad-pillar",
        &["illar"],
        "mend what the sentence names; salt-call pillar.items shows it too",
        "The pillar does not compile: a state run refuses to start.",
    ),
    row(
        "W601",
        "target-matches-nothing",
        &[],
        "name this minion, or give the grains of those that are meant with --grains",
        "A step of an orchestration has a target that none of the samples matches. Without a master this machine is the only one there is.\n\n    restart:\n      salt.function:\n        - name: service.restart\n        - tgt: web1           <- a masterless minion is not web1",
    ),
    row(
        "E602",
        "bad-reaction",
        &[],
        "begin with local, runner, wheel or caller: local.state.apply",
        "A reactor's SLS has a chunk of a kind that no reactor has.",
    ),
    row(
        "I701",
        "not-reached",
        &[],
        "look at it on a machine that it is for: salt-call state.show_sls",
        "This template was not looked at from here on: it asks for what linting does not do, since it runs nothing. Nothing is said about the rest.",
    ),
    row(
        "W801",
        "unquoted-value",
        &[],
        "put it in quotes",
        "YAML reads this as something else than it looks: `22:30` is 1350 (base 60), `1.10` is 1.1, `no` is False.\n\n    nginx:\n      pkg.installed:\n        - version: 1.10       <- '1.10' is meant",
    ),
    row(
        "I802",
        "unquoted-mode",
        &[],
        "put it in quotes: '0644'",
        "A mode that begins with 0 and has no quotes. Salt reads it as the decimal number 644 and makes the right mode of it; every other reader of YAML makes 420 of it.",
    ),
    row(
        "W803",
        "plain-secret",
        &[],
        "take it from the pillar: {{ pillar['…'] }}, encrypted with #!yaml|gpg or sdb://",
        "A password or a key stands in a state file. Every minion can read all of the state tree; pillar goes only to those that it is for.",
    ),
    row(
        "W804",
        "deprecated",
        &[],
        "write the newer form that the sentence names",
        "A form that Salt has replaced.",
    ),
];

/// Finds a code by its number, in upper or lower case, or by its name.
#[must_use]
pub fn find(word: &str) -> Option<&'static Code> {
    let mut all = CODES.iter();
    all.find(|row| row.code.eq_ignore_ascii_case(word) || row.name == word)
}

/// Returns the row of a number that is in the table.
pub(crate) fn code(number: &str) -> &'static Code {
    find(number).unwrap_or(&BAD_YAML)
}

/// Returns the code of a compiler message.
pub(crate) fn of_sentence(sentence: &str) -> &'static Code {
    let says = |row: &&Code| row.says.iter().any(|part| sentence.contains(part));
    code(special(sentence).unwrap_or_else(|| {
        let row = CODES.iter().find(says);
        row.map_or("E101", |row| row.code)
    }))
}

/// Returns the code of messages that a single phrase cannot distinguish.
fn special(sentence: &str) -> Option<&'static str> {
    if sentence.contains("Jinja variable '") && sentence.contains("' is undefined") {
        return Some("E202");
    }
    if sentence.contains("that a template may have. Split it") {
        return Some("E208");
    }
    if sentence.contains("AliasedLoader object' has no")
        || sentence.contains("LoadedMod object' has no")
    {
        return Some("W205");
    }
    let jinja = sentence.split("Jinja error: ").nth(1)?;
    let first = jinja.lines().next().unwrap_or_default();
    let first = first.split("; line ").next().unwrap_or_default();
    let is_path = first.contains(['/', '.']) && !first.contains(' ');
    (is_path || first.starts_with("none of the templates")).then_some("E206")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_code_and_name_stands_once() {
        let both = CODES.iter().flat_map(|row| [row.code, row.name]);
        let all: Vec<&str> = both.collect();
        let once: HashSet<&&str> = all.iter().collect();
        assert_eq!(all.len(), once.len());
        assert!(CODES.iter().all(|row| find(row.code) == Some(row)));
    }

    #[test]
    fn what_a_run_refuses_as_too_large_is_an_error() {
        for sentence in [
            "x.sls has 2 bytes, more than the 1 that a template may have. Split it and include the parts.",
            "Jinja error: x.jinja has 2 bytes, more than the 1 that a template may have. Split it and include the parts.",
            "The template does more steps than a template may: is there a loop that never ends?",
            "The template puts out more than 1 bytes.",
        ] {
            assert_eq!(of_sentence(sentence).code, "E208", "{sentence}");
        }
    }
}
