//! [`Intent`]: a machine that a call has begun to make, on the disk until it is complete.
//!
//! A file for each name is in `cachedir/cloud/begun`. It is written before the request to the cloud. For a
//! step of an orchestration it stays, so that the resumed step finds the machines that it has
//! completed or removed; otherwise it is removed when the machine is complete.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use machine::{durable, fs, hashes};
use state::exec::Exec;
use value::json::{self, Layout};
use value::{Map, Value, jid, random, trust};
use wire::Id;

use crate::config::Provider;
use crate::driver::Machine;
use crate::fault::Fault;
use crate::spec::{self, Spec};

/// The maximum size of a file in bytes.
const SIZE_MAX: usize = 1 << 20;
/// The number of random bytes of a client token, which is their hexadecimal text.
const TOKEN_BYTES: usize = 16;
/// The number of letters and digits of a step.
const STEP_LENGTH: usize = 16;

/// A machine that a call has begun to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The name of the machine.
    pub name: Id,
    /// The alias and the driver of its provider.
    pub provider: String,
    /// The job id of the run that has begun it.
    pub run: String,
    /// The client token, which is the same for each attempt.
    pub token: String,
    /// The id of the machine, once the cloud has answered.
    pub id: Option<String>,
    /// The time of the first attempt, in seconds since 1970.
    pub since_s: i64,
    /// The user data, which must be the same for each attempt. It may have a secret.
    pub user_data: Option<String>,
    /// The return of a machine that is complete, or of one that is gone.
    pub done: Option<Map>,
    /// True when a call has begun to remove the machine.
    pub is_leaving: bool,
}

/// The intents of this machine.
#[derive(Clone, Debug)]
pub struct Intents {
    folder: PathBuf,
}

/// Returns the identity of the orchestration's step that a context runs, which a resumed run has, too.
#[must_use]
pub fn step(cx: &Exec) -> Option<String> {
    let own = &cx.run.as_ref()?.record;
    let run = own
        .record
        .as_ref()?
        .path()
        .file_name()?
        .to_string_lossy()
        .into_owned();
    let step = format!("{}\0{}", own.part, cx.chunk.as_ref()?.tag());
    let hash = hashes::of_bytes(step.as_bytes(), "sha256").ok()?;
    Some(format!("{run}/{}", hash.get(..STEP_LENGTH)?))
}

/// The lock of a name. It ends with the value, or with the process.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "the lock of the open file")] File);

fn now_s() -> i64 {
    i64::try_from(value::clock::since_epoch().as_secs()).unwrap_or(i64::MAX)
}

fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Fault {
    move |error| Fault::wrong(format!("{}: {error}", path.display()))
}

impl Intents {
    /// Returns the intents below the `cachedir` of the configuration.
    #[must_use]
    pub fn of(cx: &Exec) -> Self {
        Self {
            folder: cx.opts().cachedir().join("cloud").join("begun"),
        }
    }

    /// Keeps other calls from making or removing the machine with this name.
    ///
    /// # Errors
    /// When another call makes it now, or the lock cannot be taken.
    pub fn hold(&self, name: &Id) -> Result<Held, Fault> {
        trust::folder(&self.folder).map_err(io(&self.folder))?;
        let path = self.folder.join(format!("{name}.lock"));
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(io(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Held(file)),
            Err(TryLockError::WouldBlock) => Err(Fault::wrong(format!(
                "another call is making or removing {name} now"
            ))),
            Err(TryLockError::Error(error)) => Err(io(&path)(error)),
        }
    }

    /// Returns the intent of a name, if there is one.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn get(&self, name: &Id) -> Result<Option<Intent>, Fault> {
        let path = self.folder.join(format!("{name}.json"));
        let text = fs::text_or_none(&path).map_err(|error| Fault::wrong(error.to_string()))?;
        let parsed = text.map(|text| match text.len() > SIZE_MAX {
            true => Err(format!("it has more than {SIZE_MAX} bytes")),
            false => Intent::parse(&text),
        });
        parsed
            .transpose()
            .map_err(|problem| Fault::wrong(format!("Cannot read {}: {problem}", path.display())))
    }

    /// Returns the intent of a machine: the one of an earlier call, or a new one.
    ///
    /// # Errors
    /// When it cannot be stored, or the earlier call was for another provider.
    pub fn begin(&self, spec: &Spec, run: &str) -> Result<Intent, Fault> {
        let provider = spec.provider.full();
        if let Some(earlier) = self.get(&spec.name)? {
            return match earlier.provider == provider {
                true => Ok(earlier),
                false => Err(Fault::wrong(format!(
                    "{} was begun under {} by the run {} and is not finished: finish it there, or remove it by cloud.destroy",
                    spec.name, earlier.provider, earlier.run
                ))),
            };
        }
        let intent = Intent::new(spec.name.clone(), provider, run)?;
        self.put(&intent)?;
        Ok(intent)
    }

    /// Marks a machine as one that a call removes. If that call is cut short, the next one removes
    /// the key of a machine that is gone already.
    ///
    /// # Errors
    /// When the mark cannot be stored.
    pub fn leave(
        &self,
        name: &Id,
        (provider, machine): (&Provider, &Machine),
        run: &str,
    ) -> Result<Intent, Fault> {
        let mut intent = match self.get(name)? {
            Some(earlier) => earlier,
            None => Intent::new(name.clone(), provider.full(), run)?,
        };
        run.clone_into(&mut intent.run);
        intent.id = Some(machine.id.clone());
        (intent.is_leaving, intent.done) = (true, None);
        self.put(&intent)?;
        Ok(intent)
    }

    /// Stores an intent durably.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, intent: &Intent) -> Result<(), Fault> {
        let text = json::write(&intent.to_map().into(), Layout::default());
        let name = format!("{}.json", intent.name);
        if text.len() > SIZE_MAX {
            return Err(Fault::wrong(format!(
                "{}: its settings and what the cloud says about it have more than {SIZE_MAX} bytes",
                intent.name
            )));
        }
        durable::write(&self.folder, &name, text.as_bytes()).map_err(io(&self.folder.join(&name)))
    }

    /// Removes the intent of a machine that is complete or gone.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn end(&self, cx: &Exec, name: &Id) -> Result<(), Fault> {
        let path = self.folder.join(format!("{name}.json"));
        match fs::remove(cx, &path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io(&path)(error)),
            _ => Ok(()),
        }
    }

    /// Returns all intents.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn all(&self) -> Result<Vec<Intent>, Fault> {
        let entries = fs::list_or_none(&self.folder);
        let entries = entries.map_err(|error| Fault::wrong(error.to_string()))?;
        let mut all = Vec::new();
        for entry in entries.unwrap_or_default() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let Some(name) = file.strip_suffix(".json") else {
                continue;
            };
            all.extend(self.get(&spec::id(name)?)?);
        }
        value::sorted::sort_by_key(&mut all, |intent: &Intent| intent.name.to_string());
        Ok(all)
    }
}

impl Intent {
    /// Creates an intent with a new token.
    fn new(name: Id, provider: String, run: &str) -> Result<Self, Fault> {
        let random = random::array::<TOKEN_BYTES>();
        let random = random.map_err(|error| Fault::wrong(error.to_string()))?;
        Ok(Self {
            name,
            provider,
            run: run.to_owned(),
            token: random.iter().map(|byte| format!("{byte:02x}")).collect(),
            id: None,
            since_s: now_s(),
            user_data: None,
            done: None,
            is_leaving: false,
        })
    }

    /// Returns the age in seconds.
    #[must_use]
    pub fn age_s(&self) -> i64 {
        now_s().saturating_sub(self.since_s)
    }

    /// Returns what users may know of the intent.
    #[must_use]
    pub fn shown(&self) -> Map {
        let since = u64::try_from(self.since_s).unwrap_or_default();
        let since = jid::stamp_of(since.saturating_mul(1_000_000));
        Map::new()
            .with("provider", self.provider.as_str())
            .with("run", self.run.as_str())
            .with("token", self.token.as_str())
            .with("id", self.id.clone())
            .with("since", since)
            .with("destroying", self.is_leaving)
    }

    fn to_map(&self) -> Map {
        Map::new()
            .with("name", self.name.as_str())
            .with("provider", self.provider.as_str())
            .with("run", self.run.as_str())
            .with("token", self.token.as_str())
            .with("id", self.id.clone())
            .with("since_s", self.since_s)
            .with("user_data", self.user_data.clone())
            .with("done", self.done.clone())
            .with("destroying", self.is_leaving)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value = json::read(text).map_err(|error| error.to_string())?;
        let text = |key: &str| {
            let found = value.get(key).and_then(Value::as_str).map(str::to_owned);
            found.ok_or_else(|| format!("it has no {key}"))
        };
        Ok(Self {
            name: spec::id(&text("name")?).map_err(|error| error.to_string())?,
            provider: text("provider")?,
            run: text("run")?,
            token: text("token")?,
            id: value.get("id").and_then(Value::as_str).map(str::to_owned),
            since_s: value
                .get("since_s")
                .and_then(Value::as_int)
                .ok_or("it has no since_s")?,
            user_data: value
                .get("user_data")
                .and_then(Value::as_str)
                .map(str::to_owned),
            done: value.get("done").and_then(Value::as_map).cloned(),
            is_leaving: value.get("destroying").is_some_and(Value::is_true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Home, spec_of};

    #[test]
    fn each_attempt_has_the_token_of_the_first_one() {
        let home = Home::new();
        let intents = Intents::of(&home.cx());
        let spec = spec_of("web1", "mine", "ec2");
        let first = intents.begin(&spec, "20260101000000000000").unwrap();
        assert_eq!(first.token.len(), 2 * TOKEN_BYTES);
        let second = intents.begin(&spec, "20260102000000000000").unwrap();
        assert_eq!(first, second);
        assert_eq!(intents.all().unwrap(), [first]);
        intents.end(&home.cx(), &spec.name).unwrap();
        let later = intents.begin(&spec, "20260102000000000000").unwrap();
        assert_ne!(later.token, second.token);
    }

    #[test]
    fn a_machine_that_another_provider_has_begun_is_not_made() {
        let home = Home::new();
        let intents = Intents::of(&home.cx());
        intents.begin(&spec_of("web1", "mine", "ec2"), "1").unwrap();
        let other = intents.begin(&spec_of("web1", "other", "ec2"), "2");
        assert!(
            other
                .unwrap_err()
                .to_string()
                .contains("begun under mine:ec2")
        );
    }

    #[test]
    fn two_calls_cannot_make_the_same_machine() {
        let home = Home::new();
        let intents = Intents::of(&home.cx());
        let name = spec::id("web1").unwrap();
        let held = intents.hold(&name).unwrap();
        let error = intents.hold(&name).unwrap_err().to_string();
        assert_eq!(error, "another call is making or removing web1 now");
        drop(held);
        intents.hold(&name).unwrap();
    }

    #[test]
    fn a_machine_that_is_removed_is_marked_with_its_id() {
        let home = Home::new();
        let intents = Intents::of(&home.cx());
        let spec = spec_of("web1", "mine", "ec2");
        let machine = Machine {
            id: "i-1".to_owned(),
            ..Machine::default()
        };
        let made = (&spec.provider, &machine);
        intents.leave(&spec.name, made, "1").unwrap();
        let marked = intents.get(&spec.name).unwrap().unwrap();
        assert!(marked.is_leaving);
        assert_eq!(marked.id.as_deref(), Some("i-1"));
        assert_eq!(marked.provider, "mine:ec2");
    }

    #[test]
    fn an_intent_that_is_too_large_is_an_error() {
        let home = Home::new();
        let intents = Intents::of(&home.cx());
        let spec = spec_of("web1", "mine", "ec2");
        let mut intent = intents.begin(&spec, "1").unwrap();
        let text = "x".repeat(SIZE_MAX + 1);
        std::fs::write(intents.folder.join("web1.json"), &text).unwrap();
        assert!(intents.get(&spec.name).is_err());
        intent.user_data = Some(text);
        assert!(intents.put(&intent).is_err());
    }

    #[test]
    fn a_damaged_intent_is_an_error() {
        let home = Home::new();
        let intents = Intents::of(&home.cx());
        let spec = spec_of("web1", "mine", "ec2");
        intents.begin(&spec, "1").unwrap();
        std::fs::write(intents.folder.join("web1.json"), "{").unwrap();
        assert!(intents.get(&spec.name).is_err());
        assert!(intents.all().is_err());
    }
}
