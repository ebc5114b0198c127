//! `salt-key`: calls wheel functions about keys, and prints their results.

mod rotation;

use cli::options::{KeyAction, KeyOptions, SaltKey};
use value::{Map, Value};

use crate::commands::command::flag;
use crate::commands::local_client::AskError;
use cli::output::Screen;

/// A callback that calls a wheel function by name with keyword arguments.
pub(crate) type Wheel<'a> = dyn Fn(&str, Map) -> Result<Value, AskError> + 'a;

/// A callback that reads one line from the user; `None` at the end of the input.
pub(crate) type Line<'a> = dyn FnMut() -> Option<String> + 'a;

/// One call of `salt-key`.
struct Call<'a, 's> {
    line: &'a SaltKey,
    opts: &'a Map,
    wheel: &'a Wheel<'a>,
    screen: &'a mut Screen<'s>,
}

/// Runs the command, and returns its exit code.
pub(crate) fn run(
    line: &SaltKey,
    opts: &Map,
    wheel: &Wheel<'_>,
    answer: &mut Line<'_>,
    screen: &mut Screen<'_>,
) -> u8 {
    let KeyOptions::Action(action) = &line.request else {
        return 0;
    };
    let mut call = Call {
        line,
        opts,
        wheel,
        screen,
    };
    call.act(action, answer).unwrap_or_else(|error| {
        if !flag(opts, "quiet") {
            let text = Value::from(error.to_string());
            call.screen.show(&text, Some("nested"), 0);
        }
        u8::from(!matches!(&error, AskError::Failed { reason, .. } if reason == "failed"))
    })
}

/// A change of keys: Salt's verb, the wheel function, and the meaning of an empty answer to the
/// confirmation.
struct Verb {
    name: &'static str,
    function: &'static str,
    default: bool,
}

const ACCEPT: Verb = Verb {
    name: "accept",
    function: "key.accept_dict",
    default: true,
};
const REJECT: Verb = Verb {
    name: "reject",
    function: "key.reject_dict",
    default: true,
};
const DELETE: Verb = Verb {
    name: "delet",
    function: "key.delete_dict",
    default: false,
};

impl Call<'_, '_> {
    fn act(&mut self, action: &KeyAction, answer: &mut Line<'_>) -> Result<u8, AskError> {
        let matching = |glob: &str| Map::new().with("match", glob);
        match action {
            KeyAction::List(which) => self.list("key.list", matching(which)),
            KeyAction::ListAll => self.list("key.list_all", Map::new()),
            KeyAction::Print(glob) => self.list("key.print", matching(glob)),
            KeyAction::Finger(glob) => self.list("key.finger", matching(glob)),
            KeyAction::Accept(glob) => self.change(&ACCEPT, glob, answer),
            KeyAction::Reject(glob) => self.change(&REJECT, glob, answer),
            KeyAction::Delete(_) if is_delete_all(self.line) && !self.line.words.is_empty() => {
                let text =
                    "Error: Delete all takes no arguments. Use -d to delete specified keys\n";
                self.screen.complain(text);
                Ok(1)
            }
            KeyAction::Delete(glob) => self.change(&DELETE, glob, answer),
            KeyAction::Generate(name) => self.generate(name),
            KeyAction::Rotate | KeyAction::FinishRotation | KeyAction::CancelRotation => {
                rotation::run(self, action, answer)
            }
            KeyAction::Sign => {
                self.screen.complain(
                    "error: --gen-signature is not supported: each session proves the master's key\n",
                );
                Ok(1)
            }
        }
    }

    fn list(&mut self, function: &str, kwargs: Map) -> Result<u8, AskError> {
        let mut keys = (self.wheel)(function, kwargs)?;
        // The master's own keys belong to no minion. Only their fingerprints are useful.
        if let Some(keys) = keys.as_map_mut().filter(|_| function != "key.finger") {
            keys.remove("local");
        }
        let shown = match keys {
            Value::Map(_) => keys,
            other => Value::Map(Map::new().with("return", other)),
        };
        self.screen.show(&shown, Some("key"), 0);
        Ok(0)
    }

    fn change(&mut self, verb: &Verb, glob: &str, answer: &mut Line<'_>) -> Result<u8, AskError> {
        let kwargs = Map::new().with("match", glob);
        let found = (self.wheel)("key.name_match", kwargs)?;
        let Some(found) = found.as_map() else {
            self.screen.show(&found, Some("key"), 0);
            return Ok(0);
        };
        let keys = self.meant(verb, found);
        if keys.is_empty() {
            self.no_match(glob);
            return Ok(0);
        }
        let headline = format!("The following keys are going to be {}ed:", verb.name);
        self.screen.say(&headline);
        self.screen.show(&keys.clone().into(), Some("key"), 0);
        match self.confirmed(verb.default, answer) {
            Some(true) => {}
            Some(false) => return Ok(0),
            None => return Ok(self.no_answer()),
        }
        let changed = (self.wheel)(verb.function, self.arguments(verb, &keys))?;
        // After a deletion the wheel function returns no keys to name, so the matching ones are
        // named.
        let shown = changed.as_map().filter(|_| verb.default);
        self.report(verb, shown.unwrap_or(&keys));
        Ok(0)
    }

    /// Returns the matching keys that the verb applies to.
    fn meant(&self, verb: &Verb, found: &Map) -> Map {
        let more = [
            ("minions", self.line.include_accepted),
            ("minions_rejected", self.line.include_rejected),
            ("minions_denied", self.line.include_denied),
        ];
        let is_meant = |status: &Value| {
            let included = |(name, on): &(&str, bool)| *on && status.as_str() == Some(name);
            !verb.default || status.as_str() == Some("minions_pre") || more.iter().any(included)
        };
        found
            .iter()
            .filter(|(status, keys)| is_meant(status) && keys.is_true())
            .map(|(status, keys)| (status.clone(), keys.clone()))
            .collect()
    }

    fn arguments(&self, verb: &Verb, keys: &Map) -> Map {
        let kwargs = Map::new().with("match", keys.clone());
        match verb.name {
            "accept" => kwargs
                .with("include_rejected", self.line.include_rejected)
                .with("include_denied", self.line.include_denied),
            "reject" => kwargs
                .with("include_accepted", self.line.include_accepted)
                .with("include_denied", self.line.include_denied),
            _ => kwargs,
        }
    }

    fn no_match(&mut self, glob: &str) {
        let statuses = [
            ("unaccepted", true),
            ("accepted", self.line.include_accepted),
            ("rejected", self.line.include_rejected),
            ("denied", self.line.include_denied),
        ];
        let named: Vec<&str> = statuses
            .into_iter()
            .filter_map(|(name, on)| on.then_some(name))
            .collect();
        let statuses = match named.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            all => all.concat(),
        };
        self.screen.say(&format!(
            "The key glob '{glob}' does not match any {statuses} keys."
        ));
    }

    fn no_answer(&mut self) -> u8 {
        let text =
            "\nerror: no answer on standard input: nothing was changed; use -y to answer yes\n";
        self.screen.complain(text);
        1
    }

    /// Asks the user to confirm a change. An empty answer means `default`. Returns `None` at the end
    /// of the input.
    fn confirmed(&mut self, default: bool, answer: &mut Line<'_>) -> Option<bool> {
        if flag(self.opts, "yes") {
            return Some(true);
        }
        self.screen.put(if default {
            "Proceed? [n/Y] "
        } else {
            "Proceed? [N/y] "
        });
        let said = answer()?;
        Some(if said.is_empty() {
            default
        } else {
            said.to_lowercase().starts_with('y')
        })
    }

    fn report(&mut self, verb: &Verb, keys: &Map) {
        let ids = keys.values().filter_map(Value::as_list).flatten();
        for id in ids {
            let line = format!("Key for minion {} {}ed.", id.to_text(), verb.name);
            self.screen.say(&line);
        }
    }

    fn generate(&mut self, name: &str) -> Result<u8, AskError> {
        let folder = self.opts.get("gen_keys_dir").map(Value::to_text);
        let folder = std::path::PathBuf::from(folder.unwrap_or_else(|| ".".into()));
        let made = link::pki::Pki::open(&folder).and_then(|pki| pki.own(name));
        match made {
            Ok(own) => {
                let finger = Map::new().with("return", own.pair.public().finger());
                self.screen.show(&finger.into(), Some("key"), 0);
                Ok(0)
            }
            Err(error) => {
                self.screen.complain(&format!("error: {error}\n"));
                Ok(1)
            }
        }
    }
}

fn is_delete_all(line: &SaltKey) -> bool {
    matches!(&line.request, KeyOptions::Action(KeyAction::Delete(glob)) if glob == "*")
}
