//! [`Rule`]: a tag's pattern and the SLS files that are for it, as `reactor:` in the configuration has them.

use value::glob::fnmatch;
use value::{Map, Value};

/// One entry of the option `reactor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The pattern of tags.
    pub glob: String,
    /// Its SLS files: paths, patterns of paths, `salt://`.
    pub refs: Vec<String>,
}

impl Rule {
    /// The rules of the option, which may be the path of a file that holds them; and a sentence for each entry that is none.
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
            match Self::of(entry) {
                // Two entries for one pattern with the same files would do everything twice.
                Some(rule) if rules.contains(&rule) => {}
                Some(rule) => rules.push(rule),
                None => faults.push(format!(
                    "The option `reactor` has an entry that is no pattern of tags with a list of SLS files: {}",
                    value::python::repr(entry)
                )),
            }
        }
        (rules, faults)
    }

    fn of(entry: &Value) -> Option<Self> {
        let entry = entry.as_map().filter(|entry| entry.len() == 1)?;
        let (glob, refs) = entry.first()?;
        Some(Self::new(glob.as_str()?, refs))
    }

    /// A rule of one file or of a list of them.
    pub fn new(glob: &str, refs: &Value) -> Self {
        let refs = match refs {
            Value::List(refs) => refs.iter().map(Value::to_text).collect(),
            Value::Null => Vec::new(),
            one => vec![one.to_text()],
        };
        let glob = glob.to_owned();
        Self { glob, refs }
    }

    /// True when it is for events of this tag.
    pub fn matches(&self, tag: &str) -> bool {
        fnmatch(&self.glob, tag)
    }

    /// What it is known by in the store: the same for the same pattern and files, wherever it stands in the list (FNV-1a, 63 bits).
    pub fn number(&self) -> u64 {
        let texts = std::iter::once(&self.glob).chain(&self.refs);
        let bytes = texts.flat_map(|text| text.bytes().chain([0]));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash >> 1
    }

    /// As `reactor.list` shows it.
    pub fn shown(&self) -> Value {
        let refs = self.refs.iter().map(|one| one.as_str().into());
        Map::new().with(&self.glob, Value::list(refs)).into()
    }
}

/// What a file says that holds the rules.
fn of_file(path: &str) -> Result<Value, String> {
    let wrong = |problem: String| {
        format!("The option `reactor` names the file {path}, which is not used: {problem}")
    };
    let text = state::host::read(path.as_ref()).map_err(|error| wrong(error.to_string()))?;
    let rules = render::yaml::load(&text).map_err(|error| wrong(error.to_string()))?;
    match rules {
        Value::List(_) | Value::Null => Ok(rules),
        other => Err(wrong(format!(
            "it holds no list, but {}",
            other.type_name()
        ))),
    }
}
