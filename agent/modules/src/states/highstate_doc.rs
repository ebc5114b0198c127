//! The `highstate_doc` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

state::state_module! {
    /// Add notes to a state tree for its readers.
    #[facts(free_arguments = true)]
    mod highstate_doc;

    /// Add a note about other states. It changes nothing.
    ///
    ///     about this server:
    ///       highstate_doc.note:
    ///         - contents: Backups run at three in the morning.
    fn note(Note {
        /// Any name.
        name: String,
        /// A file with more text.
        source: Option<String> = None,
        /// The text.
        contents: Option<String> = None,
        ..kwargs
    });
}

/// The length in characters from which a text is not shown.
const SHOWN_CHARACTERS: usize = 200;

fn note(_cx: &Exec, args: Note) -> Result<Ret, Error> {
    let _: &Value = &args.kwargs.into();
    let source = args.source.filter(|source| !source.is_empty());
    let source = source.map(|source| format!("include file: {source}\n"));
    let contents = args
        .contents
        .filter(|text| text.chars().count() < SHOWN_CHARACTERS);
    let said: String = source.into_iter().chain(contents).collect();
    Ok(Ret::ok(said))
}
