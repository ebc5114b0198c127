//! The options of `salt-key`.

use super::key_flags::ACTIONS;
use super::settings::{self, About, Settings};
use super::{Parsed, SALT_KEY, UsageError};

/// What `salt-key` is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAsked {
    /// Something about itself.
    About(About),
    /// Something with keys.
    Action(KeyAction),
}

/// What is to be done with keys; the text is a glob of ids, or several with commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAction {
    /// List them: `acc…`, `pre…`, `un…`, `rej…`, `den…` or `all…`.
    List(String),
    /// List them all, by their names as headings.
    ListAll,
    /// Print them.
    Print(String),
    /// Print their fingerprints.
    Finger(String),
    /// Accept them.
    Accept(String),
    /// Reject them.
    Reject(String),
    /// Delete them.
    Delete(String),
    /// Make a pair with this name.
    Generate(String),
    /// Sign the master's key.
    Sign,
}

/// A command line of `salt-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaltKey {
    /// What is asked for.
    pub asked: KeyAsked,
    /// Its configuration, with `yes`, `quiet`, `user`, `gen_keys_dir` and `preserve_minions`.
    pub settings: Settings,
    /// Whether accepted keys are meant too.
    pub include_accepted: bool,
    /// Whether rejected keys are meant too.
    pub include_rejected: bool,
    /// Whether denied keys are meant too.
    pub include_denied: bool,
    /// Words that are no options.
    pub words: Vec<String>,
}

impl SaltKey {
    /// Reads a command line without the program's name.
    ///
    /// # Errors
    /// When an option is wrong.
    pub fn parse(
        args: Vec<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let parsed = SALT_KEY.parse(args)?;
        let asked = asked(&parsed)?;
        let mut settings = Settings::of(&SALT_KEY, &parsed, &[ACTIONS.flags], &env);
        for name in ["rotate_aes_key", "preserve_minions"] {
            if let Some(truth) = parsed.text(name).and_then(settings::truth) {
                settings.overrides.insert(name, truth);
            }
        }
        let all = parsed.has("include_all");
        let accepts = matches!(asked, KeyAsked::Action(KeyAction::Accept(_)));
        let rejects = matches!(asked, KeyAsked::Action(KeyAction::Reject(_)));
        Ok(Self {
            include_accepted: !accepts && (parsed.has("include_accepted") || (all && rejects)),
            include_rejected: !rejects && (parsed.has("include_rejected") || (all && accepts)),
            include_denied: parsed.has("include_denied"),
            asked,
            settings,
            words: parsed.words,
        })
    }
}

fn asked(parsed: &Parsed) -> Result<KeyAsked, UsageError> {
    if let Some(about) = settings::about(parsed) {
        return Ok(KeyAsked::About(about));
    }
    settings::no_login(parsed)?;
    let which = parsed.text("list").unwrap_or_default();
    let known = ["acc", "pre", "un", "rej", "den", "all"];
    if !which.is_empty() && !known.iter().any(|start| which.starts_with(start)) {
        return Err(UsageError::new(format!(
            "'{which}' is not a valid argument to '--list'"
        )));
    }
    const SIZES: std::ops::RangeInclusive<i64> = 2048..=32_768;
    let size = parsed.get("keysize").and_then(value::Value::as_int);
    if let Some(wrong) = size.filter(|size| !SIZES.contains(size)) {
        let (end, limit) = if wrong < *SIZES.start() {
            ("minimum", SIZES.start())
        } else {
            ("maximum", SIZES.end())
        };
        return Err(UsageError::new(format!(
            "The {end} value for keysize is {limit}"
        )));
    }
    Ok(KeyAsked::Action(action(parsed)))
}

/// One option with a glob, its sibling for all keys, and what they do.
type Verb = (&'static str, &'static str, fn(String) -> KeyAction);

/// The verbs in the order in which Salt looks for them: the first one that was given counts.
const VERBS: [Verb; 5] = [
    ("print", "print_all", KeyAction::Print),
    ("accept", "accept_all", KeyAction::Accept),
    ("reject", "reject_all", KeyAction::Reject),
    ("delete", "delete_all", KeyAction::Delete),
    ("finger", "finger_all", KeyAction::Finger),
];

fn action(parsed: &Parsed) -> KeyAction {
    let given = |dest: &str| {
        let text = parsed.text(dest).filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    if let Some(name) = given("gen_keys") {
        return KeyAction::Generate(name);
    }
    if parsed.has("gen_signature") {
        return KeyAction::Sign;
    }
    if let Some(which) = given("list") {
        return KeyAction::List(which);
    }
    if parsed.has("list_all") {
        return KeyAction::ListAll;
    }
    for (one, all, verb) in VERBS {
        let every = || parsed.has(all).then(|| "*".to_owned());
        if let Some(glob) = given(one).or_else(every) {
            return verb(glob);
        }
    }
    KeyAction::ListAll
}
