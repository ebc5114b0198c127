//! Reads the options of `salt-key`.

use super::key_flags::ACTIONS;
use super::settings::{self, About, Settings};
use super::{Parsed, SALT_KEY, UsageError};

/// The request of a command line of `salt-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyOptions {
    /// To print the help or the version.
    About(About),
    /// To do something with keys.
    Action(KeyAction),
}

/// An action on keys. The text is a glob of ids, or several globs separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAction {
    /// Lists the keys of a status: `acc…`, `pre…`, `un…`, `rej…`, `den…` or `all…`.
    List(String),
    /// Lists all keys, with the names of their statuses as headings.
    ListAll,
    /// Prints keys.
    Print(String),
    /// Prints the fingerprints of keys.
    Finger(String),
    /// Accepts keys.
    Accept(String),
    /// Rejects keys.
    Reject(String),
    /// Deletes keys.
    Delete(String),
    /// Generates a pair of keys with this name.
    Generate(String),
    /// Signs the master's key.
    Sign,
    /// Begins or continues a rotation of the master's key.
    Rotate,
    /// Replaces the master's key now.
    FinishRotation,
    /// Keeps the master's key.
    CancelRotation,
}

/// A parsed command line of `salt-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaltKey {
    /// The request.
    pub request: KeyOptions,
    /// The settings of the configuration, including `yes`, `quiet`, `user`, `gen_keys_dir` and
    /// `preserve_minions`.
    pub settings: Settings,
    /// True if the action also applies to accepted keys.
    pub include_accepted: bool,
    /// True if the action also applies to rejected keys.
    pub include_rejected: bool,
    /// True if the action also applies to denied keys.
    pub include_denied: bool,
    /// The words that are not options.
    pub words: Vec<String>,
}

impl SaltKey {
    /// Parses a command line without the program's name.
    ///
    /// # Errors
    /// If an option is wrong.
    pub fn parse(
        args: Vec<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let parsed = SALT_KEY.parse(args)?;
        let request = options(&parsed)?;
        let mut settings = Settings::from_parsed(&SALT_KEY, &parsed, &[ACTIONS.flags], &env);
        for name in ["rotate_aes_key", "preserve_minions"] {
            if let Some(truth) = parsed.text(name).and_then(settings::truth) {
                settings.overrides.insert(name, truth);
            }
        }
        let all = parsed.has("include_all");
        let accepts = matches!(request, KeyOptions::Action(KeyAction::Accept(_)));
        let rejects = matches!(request, KeyOptions::Action(KeyAction::Reject(_)));
        Ok(Self {
            include_accepted: !accepts && (parsed.has("include_accepted") || (all && rejects)),
            include_rejected: !rejects && (parsed.has("include_rejected") || (all && accepts)),
            include_denied: parsed.has("include_denied"),
            request,
            settings,
            words: parsed.words,
        })
    }
}

fn options(parsed: &Parsed) -> Result<KeyOptions, UsageError> {
    if let Some(about) = settings::about(parsed) {
        return Ok(KeyOptions::About(about));
    }
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
    Ok(KeyOptions::Action(action(parsed)))
}

/// An option that takes a glob, the option for all keys, and their action.
type Verb = (&'static str, &'static str, fn(String) -> KeyAction);

/// The actions in the order in which Salt checks them. The first one that was given counts.
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
    let rotations = [
        ("finish_rotation", KeyAction::FinishRotation),
        ("cancel_rotation", KeyAction::CancelRotation),
        ("rotate_master_key", KeyAction::Rotate),
    ];
    if let Some((_, action)) = rotations.into_iter().find(|(name, _)| parsed.has(name)) {
        return action;
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
