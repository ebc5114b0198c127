//! `salt -d`: prints the documentation that minions return, each function once.

use std::ops::ControlFlow;

use value::{Map, Value};
use wire::Publish;

use super::answer::Reply;
use super::{Asker, NO_MATCH, NOTHING};
use crate::commands::local_client::AskError;
use cli::output::Screen;

pub(super) fn run(
    asker: &Asker<'_>,
    job: Publish,
    screen: &mut Screen<'_>,
) -> Result<u8, AskError> {
    let mut docs = Map::new();
    let mut anyone = false;
    asker.publish(job, &mut |said| {
        match said {
            Reply::Sent(sent) if sent.minions.is_empty() => screen.say(NO_MATCH),
            Reply::Sent(_) => {}
            Reply::Answered(answer) => {
                anyone = true;
                let told = answer.value.as_map();
                for (fun, doc) in told.into_iter().flat_map(Map::iter) {
                    if doc.is_true() {
                        docs.entry(fun.clone(), || doc.clone());
                    }
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    if !anyone {
        screen.complain("No minions found to gather docs from\n");
        return Ok(NOTHING);
    }
    let mut names: Vec<Value> = docs.keys().cloned().collect();
    value::sorted::sort(&mut names);
    for name in names {
        let doc = docs.get_value(&name).cloned().unwrap_or_default();
        if screen.has_outputter() {
            let one: Map = [(name, doc)].into_iter().collect();
            screen.show(&one.into(), Some("nested"), 0);
        } else {
            screen.say(&format!("{}:\n{}\n", name.to_text(), doc.to_text()));
        }
    }
    Ok(0)
}
