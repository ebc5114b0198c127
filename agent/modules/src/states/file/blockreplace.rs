//! `file.blockreplace`.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::Value;

use super::texts::{self, Sources, named};
use crate::exec::file::edit_block::{self, Wanted};

state::state_module! {
    /// Replace the text between two markers.
    #[facts(effects = Effects::Files(&["name"]))]
    mod file;

    /// Maintain an edit in a file in a zone delimited by two line markers.
    ///
    ///     /etc/hosts:
    ///       file.blockreplace:
    ///         - marker_start: '# BEGIN cluster'
    ///         - marker_end: '# END cluster'
    ///         - content: 10.0.0.7 db1
    ///         - append_if_not_found: True
    fn blockreplace(Blockreplace {
        /// The path of the file.
        name: String,
        /// The text that marks the first line of the block.
        marker_start: String = "#-- start managed zone --".into(),
        /// The text that marks the last line of the block.
        marker_end: String = "#-- end managed zone --".into(),
        #[group] sources: Sources,
        /// The text of the block, before accumulated texts and sources.
        content: String = String::new(),
        /// True to append the block if the markers are not found.
        append_if_not_found: bool = false,
        /// True to prepend the block if the markers are not found.
        prepend_if_not_found: bool = false,
        /// The suffix of the backup's name. False makes no backup.
        backup: Value = ".bak".into(),
        /// True to include a diff in the changes.
        show_changes: bool = true,
        /// Whether to add a newline after the content: always, never, or (None) only if it does not
        /// end with one.
        append_newline: Option<bool> = None,
        /// A regular expression. If the markers are not found, the block is inserted before the
        /// first line that matches.
        insert_before_match: Value = Value::Null,
        /// A regular expression. If the markers are not found, the block is inserted after the
        /// first line that matches.
        insert_after_match: Value = Value::Null,
    });
}

fn blockreplace(cx: &Exec, args: Blockreplace) -> Result<Ret, Error> {
    let name = texts::expanded(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.blockreplace".into());
    }
    let list = args.sources.list()?;
    if let Some(problem) = texts::unusable(&name) {
        return Ok(named(Ret::failed(problem), &name));
    }
    let mut content = args.content;
    for line in accumulated(cx, &name) {
        if !content.is_empty() {
            content.push('\n');
        }
        content.push_str(&line);
    }
    match args.sources.rendered(cx, &list) {
        Ok(texts) => content.push_str(&texts.concat()),
        Err(ret) => return Ok(ret),
    }
    let wanted = Wanted {
        marker_start: args.marker_start,
        marker_end: args.marker_end,
        content,
        append: args.append_if_not_found,
        prepend: args.prepend_if_not_found,
        backup: args.backup,
        dry_run: cx.test,
        append_newline: args.append_newline,
        before: args.insert_before_match,
        after: args.insert_after_match,
    };
    Ok(named(outcome(cx, &name, &wanted, args.show_changes), &name))
}

fn outcome(cx: &Exec, name: &str, wanted: &Wanted, show_changes: bool) -> Ret {
    match edit_block::run(cx, name, wanted) {
        Ok(diff) => {
            let shown = if show_changes {
                Value::from(diff)
            } else {
                (!diff.is_empty()).into()
            };
            super::replace::outcome(cx, shown, "would be made")
        }
        Err(error) => Ret::failed(format!(
            "Encountered error managing block: {error}. See the log for details."
        )),
    }
}

/// Returns the texts that `file.accumulated` has collected for a file in this run: those that are
/// meant for this state, or all if there are none.
fn accumulated(cx: &Exec, name: &str) -> Vec<String> {
    let (all, wanted) = cx.context(|context| {
        let of = |key: &str| {
            let map = context.get(key).and_then(|map| map.get(name));
            map.and_then(Value::as_map).cloned().unwrap_or_default()
        };
        (of("file.accumulators"), of("file.accumulators_deps"))
    });
    let id = cx
        .chunk
        .as_ref()
        .map(|low| low.id.clone())
        .unwrap_or_default();
    let names_this = |key: &Value| {
        let ids = wanted.get_value(key).and_then(Value::as_list);
        ids.is_some_and(|ids| ids.iter().any(|known| known.as_str() == Some(&id)))
    };
    let mut chosen: Vec<&Value> = all.keys().filter(|key| names_this(key)).collect();
    if chosen.is_empty() {
        chosen = all.keys().collect();
    }
    chosen
        .into_iter()
        .filter_map(|key| all.get_value(key)?.as_list())
        .flatten()
        .map(Value::to_text)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use state::low::LowChunk;

    use value::Map;

    use super::*;

    fn chunk(id: &str, require_in: &str) -> Option<Arc<LowChunk>> {
        let target = Value::from(Map::new().with("file", require_in));
        let data = Map::new().with("__id__", id);
        Some(Arc::new(LowChunk::from_map(
            data.with("require_in", vec![target]),
        )))
    }

    fn accumulate(cx: &Exec, name: &str, for_id: &str) {
        let mut cx = cx.clone();
        cx.chunk = chunk("acc", for_id);
        let given = Map::new()
            .with("name", name)
            .with("filename", "/f")
            .with("text", vec![format!("{name}1"), format!("{name}2")]);
        let function = cx.state_function("file.accumulated").unwrap();
        let given = state::module::Arguments::new(Vec::new(), given);
        function.invoke("file.accumulated", &cx, given).unwrap();
    }

    #[test]
    fn accumulated_texts_go_to_the_states_that_they_name() {
        let mut cx = crate::testing::exec();
        accumulate(&cx, "a", "mine");
        accumulate(&cx, "b", "other");
        cx.chunk = chunk("mine", "");
        assert_eq!(accumulated(&cx, "/f"), ["a1", "a2"]);
        cx.chunk = chunk("third", "");
        assert_eq!(accumulated(&cx, "/f"), ["a1", "a2", "b1", "b2"]);
        assert!(accumulated(&cx, "/g").is_empty());
    }
}
