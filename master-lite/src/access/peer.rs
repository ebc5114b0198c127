//! The jobs and runners that minions may start: the options `peer` and `peer_run`. Without them
//! nothing is allowed.

use link::{Error, Question};
use value::pyre::{Anchor, Flags, Regex, Subject};
use value::target::PillarMatch;
use value::{Map, Value};
use wire::{Id, PEER, Publish};

use super::Access;
use crate::jobs::JobEvent;

/// The maximum time in seconds that a minion may wait for returns.
const TIMEOUT_MAX_S: f64 = 3600.0;

impl Access {
    /// Checks that `peer_run` allows a minion to call a runner.
    pub(crate) fn may_run(&self, id: &Id, fun: &str) -> Result<(), String> {
        self.allows("peer_run", id, &[fun])
    }

    fn allows(&self, option: &str, id: &Id, funs: &[&str]) -> Result<(), String> {
        let rules = self.opts.get(option).and_then(Value::as_map);
        let allowed = allowed(rules, id);
        let may = |fun: &&str| allowed.iter().any(|pattern| fullmatch(pattern, fun));
        match funs.iter().find(|fun| !may(fun)) {
            None if !funs.is_empty() => Ok(()),
            refused => {
                let fun = refused.copied().unwrap_or_default();
                let why = format!("not allowed to call {fun:?} ({option})");
                self.refusals.log(id.as_str(), why);
                Err(format!(
                    "{id} may not call {fun}: the option `{option}` does not allow it"
                ))
            }
        }
    }

    /// Publishes a job for a minion if `peer` allows it, and sends the returns in parts.
    pub(crate) async fn publish_for_peer(
        &self,
        id: &Id,
        mut question: Question,
        asked: Publish,
    ) -> Result<(), Error> {
        let funs: Vec<&str> = asked.fun.split(',').map(str::trim).collect();
        if let Err(text) = self.allows("peer", id, &funs) {
            return question.fail("refused", text).await;
        }
        // A minion must not choose the job id, or another user.
        let asked = Publish {
            jid: None,
            // Only the minion that asked receives the returns.
            ret: String::new(),
            timeout_s: asked
                .timeout_s
                .map(|seconds| seconds.clamp(0.0, TIMEOUT_MAX_S)),
            options: Map::new().with(PEER, id.as_str()),
            ..asked
        };
        let matched = match self.jobs.matched(&asked, PillarMatch::Exact).await {
            Ok(matched) => matched,
            Err(error) => {
                let why = format!("refused the job {:?}: {error}", asked.fun);
                self.refusals.log(id.as_str(), why);
                return question.fail("invalid", error).await;
            }
        };
        let mut published = match self.jobs.publish_to(asked, id.as_str(), matched).await {
            Ok(published) => published,
            Err(error) => return question.fail("invalid", error).await,
        };
        // No deadline: a silent minion is given up (`timeout`, `gather_job_timeout`).
        while let Some(came) = published.next().await {
            if let JobEvent::Return(data) = came {
                question.data(data).await?;
            }
        }
        question
            .done(Map::new().with("jid", published.jid.as_str()))
            .await
    }
}

/// Returns the patterns of functions that a minion may call. The rules map patterns of ids to
/// these.
fn allowed(rules: Option<&Map>, id: &Id) -> Vec<String> {
    let rules = rules.into_iter().flat_map(Map::iter);
    rules
        .filter(|(pattern, _)| fullmatch(&pattern.to_text(), id.as_str()))
        .flat_map(|(_, functions)| functions.texts())
        .collect()
}

/// Returns whether a regular expression matches a whole text.
pub(crate) fn fullmatch(pattern: &str, text: &str) -> bool {
    let pattern = format!("(?:{pattern})\\Z");
    let regex = Regex::compiled(&pattern, Flags::NONE, Subject::Text, Anchor::Start);
    regex.is_ok_and(|regex| regex.is_match(text).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_may_do_what_all_of_a_rule_matches() {
        let rules = Map::new()
            .with(
                "web.*",
                Value::list(["test.ping".into(), "network\\..*".into()]),
            )
            .with("db", Value::list([".*".into()]));
        let functions = |id: &str| {
            let id = id.parse().ok();
            id.map(|id| allowed(Some(&rules), &id)).unwrap_or_default()
        };
        assert_eq!(functions("web1"), ["test.ping", "network\\..*"]);
        assert_eq!(functions("db"), [".*"]);
        assert!(functions("db2").is_empty());
        assert!(fullmatch("test.ping", "test.ping"));
        assert!(!fullmatch("test.ping", "test.pings"));
        assert!(!fullmatch("test.ping", "test.ping\n"));
        assert!(!fullmatch("ping", "test.ping"));
    }
}
