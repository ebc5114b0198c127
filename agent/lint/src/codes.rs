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
            "{code} {name} ({severity})\n\n{text}\n\nWhat to do: {help}.\nTo allow it, add a comment to the line: # pinch: allow {code}\n"
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
    "fix the indentation, the quotes or the colon at the caret; indent with spaces only",
    "The rendered SLS is not valid YAML. A line with more indentation belongs to the line above it, tabs cannot be used for indentation, and text that contains `: ` or ` #` needs quotes.\n\n    /etc/motd:\n      file.managed:\n      - source: salt://motd\n       - mode: '0644'        <- one space too far",
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
        "write a dictionary of IDs, with the states of each ID below it",
        "An SLS is a dictionary of IDs. This one is a list or a string: there is a `- ` too many, or a colon is missing.",
    ),
    row(
        "E201",
        "bad-jinja",
        &["Jinja syntax error"],
        "fix the tag at the caret; each {% if %}, {% for %} and {% macro %} needs its end tag",
        "The template is not valid Jinja: an end tag is missing, a filter or test does not exist, or the brackets do not match.\n\n    {% if grains.os == 'Debian' %}\n    …\n    {% endfor %}             <- endif is meant",
    ),
    row(
        "E202",
        "undefined-variable",
        &[],
        "define it with {% set %}, import it, or give it a default: {{ name | default('…') }}",
        "The template uses a variable that is not defined: Salt fails there. Variables of another template have to be imported by name.\n\n    {% set port = 80 %}\n    listen: {{ prot }}       <- port is meant",
    ),
    row(
        "W203",
        "missing-key",
        &["Jinja variable "],
        "use a default: salt['pillar.get']('a:b', '…'), grains.get('x'), or provide the data with -c and --grains",
        "The template reads a key of pillar, grains or another dictionary that this sample does not have. A minion without it cannot render the SLS. It is only a warning, because the data may come from elsewhere.",
    ),
    row(
        "E204",
        "unknown-function",
        &[],
        "fix the name; sys.list_functions lists all functions",
        "A template calls an execution function that does not exist, although its module exists; or an orchestration step or a reaction calls an execution, runner or wheel function whose name is similar to an existing one.\n\n    {{ salt['grains.gett']('os') }}\n\n    deploy:\n      runner.state.orchestrat:       <- state.orchestrate is meant\n        - args: [{mods: deploy}]",
    ),
    row(
        "W205",
        "unknown-module",
        &[
            "AliasedLoader object' has no attribute",
            "LoadedMod object' has no attribute",
        ],
        "add the module to _modules of the tree, or call an existing function",
        "A template, an orchestration step or a reaction calls a function that is neither built in nor in the folder _modules (_runners, _wheel) of this tree. Salt needs an extension for it, or the module is elsewhere.",
    ),
    row(
        "E206",
        "missing-template",
        &[],
        "fix the path: it is relative to the file roots, or with ./ to the template's own folder",
        "A template imports or includes a template that is not in the file roots.\n\n    {% from 'nginx/mpa.jinja' import nginx with context %}",
    ),
    row(
        "W207",
        "jinja-error",
        &["Jinja error", "Problem running salt function"],
        "check the values at the caret, with the given samples of grains and pillar",
        "Rendering the template with one of the samples fails: a filter gets an unsuitable value, a calculation is not possible, or a function returns an error.",
    ),
    row(
        "E208",
        "template-limit",
        &["The template "],
        "split the file and include the parts, or fix the endless loop",
        "The template exceeds the limit of file size, of steps, or of output size: a run rejects it.\n\n    {% for n in range(100000) %}{% for m in range(100000) %}    <- more steps than any run needs",
    ),
    row(
        "W209",
        "unfiltered-data",
        &[],
        "use a suitable filter, such as ipv4, int, tojson or quote, and skip values that do not pass",
        "A template prints data of the mine, or of an event in a reaction. A minion controls its own mine data, and a sender controls the data of its event: with a line break, it can add lines to your file.\n\n    {% for id, found in salt['mine.get']('web-*', 'address') | dictsort %}\n    server {{ id }} {{ found[0] }}:80            <- any text that web-1 chooses\n\n    {% set good = found | ipv4 %}\n    {% if good %}server {{ id }} {{ good | first }}:80{% endif %}",
    ),
    row(
        "E301",
        "unknown-state",
        &[],
        "fix the name; sys.list_state_functions lists all state functions",
        "The state function does not exist, although its module exists, or its name is similar to an existing one.\n\n    /etc/motd:\n      file.manged: []        <- file.managed is meant",
    ),
    row(
        "W302",
        "unknown-state-module",
        &["was not found in SLS"],
        "add the module to _states of the tree, or use an existing state",
        "The module of the state is neither built in nor in the folder _states of this tree. In Salt it needs an extension, or no longer exists.",
    ),
    row(
        "E303",
        "unknown-argument",
        &[
            "is an invalid keyword argument",
            "are invalid keyword arguments",
        ],
        "fix its name, or remove it; sys.state_argspec lists the valid arguments",
        "The state function does not have this argument: the state would fail.",
    ),
    row(
        "W304",
        "suspicious-argument",
        &["does not know the argument"],
        "fix its name, or remove it",
        "The state function accepts any argument, but this name is similar to a known argument, and would be ignored.\n\n    /etc/motd:\n      file.managed:\n        - contnets: hello    <- contents is meant",
    ),
    row(
        "E305",
        "missing-argument",
        &["Missing parameter", "Missing \""],
        "add the argument",
        "A required argument of the state function is missing.\n\n    replace it:\n      file.replace:\n        - name: /etc/motd\n        - pattern: a          <- repl is missing",
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
        "write an ID, below it module.function, and below that a list of arguments",
        "A declaration does not have the form that Salt expects: its arguments are not a list, it has no function or more than one, or a requisite is not of the form `module: name`.\n\n    nginx:\n      pkg.installed:\n        - require:\n          pkg: epel           <- `- pkg: epel` is meant",
    ),
    row(
        "E401",
        "missing-requisite",
        &[
            "Referenced state does not exist",
            "The following requisite was not found",
            "Cannot use",
        ],
        "fix the name, or include the SLS that defines the state",
        "A requisite names a state that does not exist: Salt rejects the whole run.\n\n    nginx:\n      service.running:\n        - require:\n          - pkg: ngnix",
    ),
    row(
        "W402",
        "requisite-elsewhere",
        &[],
        "add the SLS that defines it to include",
        "A requisite names a state of an SLS that this one does not include. It works only if both are applied together.",
    ),
    row(
        "E403",
        "requisite-cycle",
        &["ecursive requisite"],
        "remove one of the requisites of the cycle",
        "States require each other in a cycle, so that none of them can run first. Salt rejects the whole run.",
    ),
    row(
        "E404",
        "duplicate-id",
        &["conflicting ID", "found conflicting"],
        "use another ID for one of them, and set its name with - name:",
        "An ID is used twice: in one SLS, or in two that are applied together. IDs must be unique in a run.",
    ),
    row(
        "E405",
        "extend-nothing",
        &["Cannot extend ID"],
        "fix the ID, or include the SLS that defines it",
        "`extend`, or a requisite such as `require_in`, names an ID that is not part of the run.",
    ),
    row(
        "W406",
        "listen-nothing",
        &["Referenced state"],
        "fix the name",
        "`listen_in` names a state that does not exist, and has no effect.",
    ),
    row(
        "E407",
        "requisite-turn",
        &[
            "Requisite [compensate: (",
            "names a state that runs only when a later one fails",
            "names a state that runs at the end",
            "names a state that has already run by then",
            "has no effect: listeners are called",
            "names no state: give the ID",
            "neither True nor False",
        ],
        "ordinary states cannot name states that compensate, or states with finally: True",
        "A state that `compensate` names runs only if a later state fails, and a state with `finally: True` runs at the end. Other states cannot wait for them, and a state that compensates cannot be compensated itself.\n\n    unpack:\n      cmd.run:\n        - name: tar xf /root/site.tar -C /srv\n        - compensate: remove\n    remove:\n      cmd.run:\n        - name: rm -r /srv/site\n    tell:\n      cmd.run:\n        - name: logger ready\n        - require:\n          - cmd: remove       <- it would wait for a state that does not run",
    ),
    row(
        "E501",
        "missing-sls",
        &[
            "is not available on the salt master",
            "No matching sls found",
            "is not available in",
        ],
        "fix the name: a.b is a/b.sls or a/b/init.sls below the file roots",
        "An include or a top file names an SLS that is not in the roots: Salt rejects the whole run.",
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
        "write a list of SLS names; names with leading dots are relative to the folder of this SLS",
        "`include` is not a list of names, names an environment that does not exist, or leads above the roots.",
    ),
    row(
        "E503",
        "bad-top",
        &["top file", "topfile", "Top data", "Environment ", "saltenv"],
        "write environments, below them targets, and below these lists of SLS names",
        "The top file does not have the form that Salt expects.\n\n    base:\n      '*':\n        - nginx",
    ),
    row(
        "W504",
        "missing-file",
        &[],
        "fix the path: salt:// paths are relative to the file roots",
        "A state uses a file that is not in the tree. The state would fail. It is only a warning, because the file may be in other roots.",
    ),
    row(
        "E505",
        "bad-pillar",
        &["illar"],
        "fix the problem in the message; salt-call pillar.items shows it too",
        "The pillar does not compile: state runs do not start.",
    ),
    row(
        "W601",
        "target-matches-nothing",
        &[],
        "target this minion, or pass the grains of the intended minions with --grains",
        "The target of an orchestration step matches none of the samples. Without a master, this machine is the only minion.\n\n    restart:\n      salt.function:\n        - name: service.restart\n        - tgt: web1           <- a masterless minion is not web1",
    ),
    row(
        "E602",
        "bad-reaction",
        &[],
        "use local, runner, wheel or caller, as in local.state.apply",
        "A reactor SLS has a chunk of a type that is not a reaction type.",
    ),
    row(
        "I701",
        "not-reached",
        &[],
        "check it on a machine that uses it: salt-call state.show_sls",
        "This template was not checked beyond this point: it calls a function that changes or reads the machine, and lint runs nothing. The rest of the template is not checked.",
    ),
    row(
        "W801",
        "unquoted-value",
        &[],
        "put it in quotes",
        "YAML reads this value differently than it looks: `22:30` is 1350 (base 60), `1.10` is 1.1, `no` is False.\n\n    nginx:\n      pkg.installed:\n        - version: 1.10       <- '1.10' is meant",
    ),
    row(
        "I802",
        "unquoted-mode",
        &[],
        "put the value in quotes",
        "The mode begins with 0 and is not quoted. Salt reads it as the decimal number 644 and uses the right mode; other YAML parsers read it as 420.",
    ),
    row(
        "W803",
        "plain-secret",
        &[],
        "take it from the pillar: {{ pillar['…'] }}, encrypted with #!yaml|gpg or sdb://",
        "A state file contains a password or a key. Every minion can read the whole state tree; pillar is sent only to the minions that it targets.",
    ),
    row(
        "W804",
        "deprecated",
        &[],
        "use the newer form that the message names",
        "Salt has replaced this form.",
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
            "The template executes too many steps: is there a loop that never ends?",
            "The template outputs more than 1 bytes.",
        ] {
            assert_eq!(of_sentence(sentence).code, "E208", "{sentence}");
        }
    }
}
