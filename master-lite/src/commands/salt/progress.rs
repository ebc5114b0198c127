//! `--progress`: shows on stderr how many minions have returned. As in Salt, only a summary of the
//! returns is printed.

use std::ops::ControlFlow;

use wire::Publish;

use super::Asker;
use super::answer::Reply;
use super::summary::Summary;
use super::{NO_MATCH, received};
use crate::commands::local_client::AskError;
use cli::output::Screen;

/// The width of the bar in characters.
const WIDTH: usize = 40;

pub(super) fn run(
    asker: &Asker<'_>,
    job: Publish,
    screen: &mut Screen<'_>,
) -> Result<u8, AskError> {
    let mut summary = Summary::default();
    let (mut all, mut done) = (0, 0);
    asker.publish(job, &mut |said| {
        match said {
            Reply::Sent(sent) if sent.minions.is_empty() => screen.say(NO_MATCH),
            Reply::Sent(sent) => {
                all = sent.minions.len();
                screen.complain(&bar(done, all));
            }
            Reply::Answered(answer) => {
                if answer.given_up.is_none() {
                    done += 1;
                    screen.complain(&bar(done, all));
                }
                summary.add(&answer);
            }
        }
        ControlFlow::Continue(())
    })?;
    if all == 0 {
        return Ok(received(false, screen));
    }
    screen.complain("\n");
    summary.print(false, screen);
    Ok(0)
}

fn bar(done: usize, all: usize) -> String {
    let all = all.max(1);
    let filled = (WIDTH * done / all).min(WIDTH);
    format!(
        "\r{:3}% |{}{}| Returns: [{done}/{all}]",
        100 * done / all,
        "#".repeat(filled),
        " ".repeat(WIDTH - filled),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_grows_from_nothing_to_all() {
        assert_eq!(
            bar(1, 4),
            format!(
                "\r 25% |{}{}| Returns: [1/4]",
                "#".repeat(10),
                " ".repeat(30)
            )
        );
        assert_eq!(bar(0, 0).len(), bar(3, 3).len());
    }
}
