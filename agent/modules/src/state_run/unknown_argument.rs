//! Finds misspelt keyword arguments of `state.*` functions on a command line. These functions
//! accept any keyword, as in Salt, so that a run with `tset=True` would change the machine.

use ::state::module::{Extra, Function, Module};
use value::hint::nearest;
use value::{Map, Value};

use super::resume;

/// The keyword arguments that runs accept although not every function declares them.
const KNOWN: [&str; 18] = [
    "cache",
    "concurrent",
    "env",
    "exclude",
    "force",
    "metadata",
    "mods",
    "name",
    "orchestration_jid",
    "pillar",
    "pillar_enc",
    "pillarenv",
    "queue",
    "saltenv",
    "state_events",
    "sync_mods",
    "terse",
    "test",
];

/// Functions whose other keyword arguments are those of the state that they run.
const SINGLE: [&str; 2] = ["single", "orchestrate_single"];

/// A keyword argument that a function does not take.
#[derive(Debug)]
pub struct UnknownArgument {
    /// The error.
    pub text: String,
    /// The argument that was probably meant.
    pub hint: Option<String>,
}

/// Returns the first keyword argument of a call that a function of the module `state` neither
/// declares nor reads. `modules` are the execution modules or the runners.
#[must_use]
pub fn unknown_argument(
    modules: &[Module<Value>],
    fun: &str,
    kwargs: &Map,
) -> Option<UnknownArgument> {
    let name = fun.strip_prefix("state.")?;
    if SINGLE.contains(&name) {
        return None;
    }
    let mut all = modules.iter().filter(|module| module.name == "state");
    let function = all.find_map(|module| module.function(name))?;
    if function.extra != Extra::Accept {
        return None;
    }
    let mut words = kwargs.keys().map(Value::to_text);
    let unknown = words.find(|word| !takes(function, word))?;
    let candidates = words_of(function);
    let hint = nearest(&unknown, candidates).map(|near| format!("did you mean {near}=?"));
    Some(UnknownArgument {
        text: format!("{fun} does not take the argument {unknown}=; nothing was run"),
        hint,
    })
}

fn takes(function: &Function<Value>, word: &str) -> bool {
    // `TEST=True` is `test=True`, as in Salt.
    word.starts_with("__")
        || word.eq_ignore_ascii_case("test")
        || words_of(function).any(|known| known == word)
}

fn words_of(function: &Function<Value>) -> impl Iterator<Item = &'static str> {
    let declared = function.args.iter().map(|arg| arg.name);
    declared.chain(KNOWN).chain(resume::ARGUMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(fun: &str, word: &str) -> Option<UnknownArgument> {
        let kwargs = Map::new().with(word, true);
        unknown_argument(crate::REGISTRY.functions, fun, &kwargs)
    }

    #[test]
    fn a_misspelt_argument_of_a_run_is_found() {
        let hint = |fun, word| found(fun, word).and_then(|found| found.hint);
        for fun in [
            "state.apply",
            "state.highstate",
            "state.orchestrate",
            "state.show_sls",
        ] {
            assert_eq!(
                hint(fun, "tset").as_deref(),
                Some("did you mean test=?"),
                "{fun}"
            );
            assert_eq!(
                hint(fun, "pilar").as_deref(),
                Some("did you mean pillar=?"),
                "{fun}"
            );
        }
        let far = found("state.apply", "bogus").unwrap();
        assert_eq!(
            far.text,
            "state.apply does not take the argument bogus=; nothing was run"
        );
        assert_eq!(far.hint, None);
    }

    #[test]
    fn arguments_that_salt_reads_are_accepted() {
        for word in [
            "test",
            "TEST",
            "saltenv",
            "__pub_jid",
            "resume",
            "from",
            "concurrent",
        ] {
            assert!(found("state.apply", word).is_none(), "{word}");
        }
        assert!(found("state.single", "contents").is_none());
        assert!(found("test.arg", "tset").is_none());
    }
}
