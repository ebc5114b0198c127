//! [`Rule`]: a pattern of tags and the SLS files for it, as in the option `reactor`.

use value::glob::fnmatch;
use value::{Map, Value};

/// One entry of the option `reactor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The pattern of tags.
    pub glob: String,
    /// The rule's SLS files: paths, patterns of paths, or `salt://` references.
    pub refs: Vec<String>,
}

impl Rule {
    /// Reads the rules of the option, which may be the path of a file that has them. Also returns a
    /// sentence for each invalid entry.
    #[must_use]
    pub fn all(option: &Value) -> (Vec<Self>, Vec<String>) {
        let Some(path) = option.as_str() else {
            return Self::listed(option);
        };
        match of_file(path) {
            Ok(option) => Self::listed(&option),
            Err(fault) => (Vec::new(), vec![fault]),
        }
    }

    fn listed(option: &Value) -> (Vec<Self>, Vec<String>) {
        let (mut rules, mut faults) = (Vec::<Self>::new(), Vec::new());
        for entry in option.as_list().unwrap_or_default() {
            match Self::from_entry(entry) {
                // Two equal entries would do everything twice.
                Some(rule) if rules.contains(&rule) => {}
                Some(rule) => rules.push(rule),
                None => faults.push(format!(
                    "ignoring an entry of the option `reactor`, because it is not a tag pattern with a list of SLS files: {}",
                    value::python::repr(entry)
                )),
            }
        }
        (rules, faults)
    }

    fn from_entry(entry: &Value) -> Option<Self> {
        let entry = entry.as_map().filter(|entry| entry.len() == 1)?;
        let (glob, refs) = entry.first()?;
        Some(Self::new(glob.as_str()?, refs))
    }

    /// Creates a rule with one file or a list of files.
    pub fn new(glob: &str, refs: &Value) -> Self {
        let refs = match refs {
            Value::List(refs) => refs.iter().map(Value::to_text).collect(),
            Value::Null => Vec::new(),
            one => vec![one.to_text()],
        };
        let glob = glob.to_owned();
        Self { glob, refs }
    }

    /// Returns true if the rule is for events with this tag.
    pub fn matches(&self, tag: &str) -> bool {
        fnmatch(&self.glob, tag)
    }

    /// Returns the number of the rule in the store. It depends only on the pattern and the files,
    /// not on the place in the list (FNV-1a, 63 bits).
    pub fn number(&self) -> u64 {
        let texts = std::iter::once(&self.glob).chain(&self.refs);
        let bytes = texts.flat_map(|text| text.bytes().chain([0]));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash >> 1
    }

    /// Returns the rule as `reactor.list` shows it.
    pub fn to_value(&self) -> Value {
        let refs = self.refs.iter().map(|one| one.as_str().into());
        Map::new().with(&self.glob, Value::list(refs)).into()
    }
}

/// Reads the file that has the rules.
fn of_file(path: &str) -> Result<Value, String> {
    let wrong =
        |problem: String| format!("ignoring the file {path} of the option `reactor`: {problem}");
    let text = state::host::read(path.as_ref()).map_err(|error| wrong(error.to_string()))?;
    let rules = render::yaml::load(&text).map_err(|error| wrong(error.to_string()))?;
    match rules {
        Value::List(_) | Value::Null => Ok(rules),
        other => Err(wrong(format!("expected a list, got {}", other.type_name()))),
    }
}
