//! Reads the options of `salt-cloud`.

use value::Map;

use super::cloud_flags::{CLOUD_EXECUTION, CLOUD_OFFERS, CLOUD_QUERIES};
use super::settings::{self, About, Settings};
use super::{Flag, Parsed, SALT_CLOUD, UsageError};

/// The request of a command line of `salt-cloud`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudOptions {
    /// To print the help or the version.
    About(About),
    /// To do something with machines.
    Action(CloudAction),
}

/// Something to do with machines. The list of texts are their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudAction {
    /// Lists the machines, of a map if there is one, by the kind of query.
    Query(&'static str),
    /// Lists the providers.
    Providers,
    /// Lists the profiles of a provider, or of `all`.
    Profiles(String),
    /// Lists `locations`, `images` or `sizes` that a provider offers.
    Offers(&'static str, String),
    /// Destroys machines, or those of the map.
    Destroy(Vec<String>),
    /// Calls an action of machines, with its arguments.
    Act(String, Vec<String>, Map),
    /// Calls a function of a provider, with its arguments.
    Function(String, String, Map),
    /// Makes machines by a profile.
    Profile(String, Vec<String>),
    /// Makes the machines of the map, or only those with these names.
    Map(Vec<String>),
    /// Lists the machines that are half-made.
    Orphans,
    /// Does nothing: `-u`.
    Nothing,
}

/// A parsed command line of `salt-cloud`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaltCloud {
    /// The request.
    pub request: CloudOptions,
    /// The settings of the configuration.
    pub settings: Settings,
    /// The settings of clouds: `map`, `parallel`, `hard`, `deploy`, `location`, `script_args`.
    pub clouds: Map,
    /// True if no questions are asked.
    pub assumes_yes: bool,
}

/// Returns the name of the only option of a group that was given.
fn only(parsed: &Parsed, flags: &'static [Flag]) -> Result<Option<&'static str>, UsageError> {
    let given: Vec<&Flag> = flags.iter().filter(|flag| parsed.has(flag.dest)).collect();
    match given.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.dest)),
        several => {
            let name = |flag: &&Flag| format!("--{}", flag.long.first().unwrap_or(&""));
            let names: Vec<String> = several.iter().map(name).collect();
            Err(UsageError::new(format!(
                "The options {} are mutually exclusive. Please only choose one of them",
                names.join("/")
            )))
        }
    }
}

/// Returns the words without `=`, and the others as arguments.
fn split(words: &[String]) -> (Vec<String>, Map) {
    let (mut names, mut kwargs) = (Vec::new(), Map::new());
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => {
                kwargs.insert(key, value);
            }
            None => names.push(word.clone()),
        }
    }
    (names, kwargs)
}

impl SaltCloud {
    /// Parses a command line without the program's name.
    ///
    /// # Errors
    /// If an option is wrong, or nothing is to be done.
    pub fn parse(
        args: Vec<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let parsed = SALT_CLOUD.parse(args)?;
        let request = match settings::about(&parsed) {
            Some(about) => CloudOptions::About(about),
            None => CloudOptions::Action(action(&parsed)?),
        };
        let mut clouds = Map::new();
        for key in ["map", "location", "script_args"] {
            if let Some(text) = parsed.text(key) {
                clouds.insert(key, text);
            }
        }
        for key in ["parallel", "hard"] {
            if parsed.has(key) {
                clouds.insert(key, true);
            }
        }
        if parsed.has("no_deploy") {
            clouds.insert("deploy", false);
        }
        let own = [
            CLOUD_QUERIES.flags,
            CLOUD_EXECUTION.flags,
            CLOUD_OFFERS.flags,
        ];
        Ok(Self {
            request,
            settings: Settings::from_parsed(&SALT_CLOUD, &parsed, &own, &env),
            clouds,
            assumes_yes: parsed.has("assume_yes"),
        })
    }
}

fn action(parsed: &Parsed) -> Result<CloudAction, UsageError> {
    let text = |dest: &str| parsed.text(dest).map(str::to_owned).unwrap_or_default();
    let words = parsed.words.clone();
    if parsed.has("update_bootstrap") {
        return Ok(CloudAction::Nothing);
    }
    if parsed.has("orphans") {
        return Ok(CloudAction::Orphans);
    }
    match only(parsed, CLOUD_QUERIES.flags)? {
        Some("query") => return Ok(CloudAction::Query("list_nodes")),
        Some("full_query") => return Ok(CloudAction::Query("list_nodes_full")),
        Some("select_query") => return Ok(CloudAction::Query("list_nodes_select")),
        Some("list_providers") if !words.is_empty() => {
            return Err(UsageError::new(
                "'--list-providers' does not accept any arguments".to_owned(),
            ));
        }
        Some("list_providers") => return Ok(CloudAction::Providers),
        Some(_) => return Ok(CloudAction::Profiles(text("list_profiles"))),
        None => {}
    }
    if let Some(dest) = only(parsed, CLOUD_OFFERS.flags)? {
        let kind = dest.trim_start_matches("list_");
        return Ok(CloudAction::Offers(kind, text(dest)));
    }
    let has_map = parsed.has("map");
    let has_machines = has_map || !words.is_empty();
    if parsed.has("destroy") && has_machines {
        if has_map && !words.is_empty() {
            return Err(UsageError::new(format!(
                "Supplying a mapfile, '{}', in addition to instance names {words:?} with the '--destroy' or '-d' function is not supported. Please choose to delete either the entire map file or individual instances.",
                text("map")
            )));
        }
        return Ok(CloudAction::Destroy(words));
    }
    if parsed.has("action") && has_machines {
        let (names, kwargs) = split(&words);
        return Ok(CloudAction::Act(text("action"), names, kwargs));
    }
    if parsed.has("function") {
        return function(text("function"), &words);
    }
    if parsed.has("profile") && !words.is_empty() {
        return Ok(CloudAction::Profile(text("profile"), words));
    }
    match has_map {
        true => Ok(CloudAction::Map(words)),
        false => Err(UsageError::new(
            "Nothing was done. Using the proper arguments?".to_owned(),
        )),
    }
}

fn function(fun: String, words: &[String]) -> Result<CloudAction, UsageError> {
    let (provider, rest) = match words.split_first() {
        Some((provider, rest)) if !provider.contains('=') => (provider.clone(), rest),
        _ => {
            return Err(UsageError::new(
                "--function expects two arguments: <function-name> <provider>".to_owned(),
            ));
        }
    };
    let (others, kwargs) = split(rest);
    match others.is_empty() {
        true => Ok(CloudAction::Function(fun, provider, kwargs)),
        false => Err(UsageError::new(format!(
            "Any arguments passed to --function need to be passed as kwargs. Ex: image=ami-54cf5c3d. Remaining arguments: {others:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<CloudAction, UsageError> {
        let words = line.iter().map(|word| (*word).to_owned()).collect();
        match SaltCloud::parse(words, |_| None)?.request {
            CloudOptions::Action(action) => Ok(action),
            CloudOptions::About(about) => panic!("{about:?}"),
        }
    }

    #[test]
    fn a_command_line_is_one_action() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let web = CloudAction::Profile("web".to_owned(), names(&["a", "b"]));
        assert_eq!(read(&["-p", "web", "a", "b"]).unwrap(), web);
        assert_eq!(read(&["-Q"]).unwrap(), CloudAction::Query("list_nodes"));
        let images = CloudAction::Offers("images", "all".to_owned());
        assert_eq!(read(&["--list-images=all"]).unwrap(), images);
        assert_eq!(
            read(&["-d", "a"]).unwrap(),
            CloudAction::Destroy(names(&["a"]))
        );
        let kwargs = Map::new().with("force", "True");
        let stop = CloudAction::Act("stop".to_owned(), names(&["a"]), kwargs);
        assert_eq!(read(&["-a", "stop", "a", "force=True"]).unwrap(), stop);
        let kwargs = Map::new().with("image", "x");
        let show = CloudAction::Function("show_image".to_owned(), "p".to_owned(), kwargs);
        assert_eq!(read(&["-f", "show_image", "p", "image=x"]).unwrap(), show);
        for wrong in [
            &["-Q", "-F"][..],
            &["--list-images=a", "--list-sizes=b"],
            &["-f", "x"],
            &["-f", "x", "p", "y"],
            &["-d", "-m", "map", "a"],
            &["-d"],
            &[],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn settings_of_clouds_are_apart_from_those_of_the_master() {
        let words = ["-m", "x.map", "-P", "--no-deploy", "-y"].map(str::to_owned);
        let line = SaltCloud::parse(words.to_vec(), |_| None).unwrap();
        let expected = Map::new()
            .with("map", "x.map")
            .with("parallel", true)
            .with("deploy", false);
        assert_eq!(line.clouds, expected);
        assert!(line.assumes_yes);
        assert!(!line.settings.overrides.contains("map"));
    }
}
