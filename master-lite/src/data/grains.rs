//! The grains of a minion that the master believes. A minion cannot set a grain that only its key's
//! binding may set.

use link::{Error, Question};
use value::{Map, Value};
use wire::{Grains, bound_grains};

use super::Data;
use crate::jobs::minions::Minion;
use crate::store::{Cache, Change};

impl Data {
    /// Returns a minion's grains without those of the option `bound_grains`, but with those that
    /// its key is bound to.
    pub(super) fn believed(&self, minion: &Minion, grains: Map) -> Map {
        let names = self.opts.get("bound_grains").map(Value::texts);
        let (grains, ignored) = believed(grains, &minion.bound, &names.unwrap_or_default());
        if !ignored.is_empty() {
            let why = format!(
                "ignoring the grain {}: the key is not bound to it. A token or a rule of autosign_policy binds keys; the option `bound_grains` lists such grains",
                ignored.join(", ")
            );
            self.ignored_grains.log(minion.id.as_str(), why);
        }
        grains
    }

    /// Answers `grains`: stores a minion's grains, as far as they are believed.
    pub(crate) async fn store_grains(
        &self,
        minion: &Minion,
        question: Question,
        asked: Grains,
    ) -> Result<(), Error> {
        let grains = asked.grains.with("id", minion.id.as_str());
        let grains = Change::Set(self.believed(minion, grains));
        self.cache(minion, question, Cache::Grains, grains).await
    }
}

/// Returns the grains that are believed, and the names of the ignored ones that the key is not
/// bound to.
fn believed(mut grains: Map, bound: &Map, names: &[String]) -> (Map, Vec<String>) {
    let bound = bound_grains(bound);
    let mut ignored = Vec::new();
    for name in names {
        if grains.remove(name).is_some() && !bound.contains(name) {
            ignored.push(name.clone());
        }
    }
    grains.update(bound);
    (grains, ignored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["role".to_owned(), "identity".to_owned()]
    }

    #[test]
    fn a_role_comes_from_the_keys_binding_alone() {
        let said = Map::new().with("os", "Debian").with("role", "db");
        let bound = Map::new().with("role", "web");
        let (kept, ignored) = believed(said.clone(), &Map::new(), &names());
        assert_eq!(kept, Map::new().with("os", "Debian"));
        assert_eq!(ignored, ["role"]);
        let (kept, ignored) = believed(said.clone(), &bound, &names());
        assert_eq!(kept, Map::new().with("os", "Debian").with("role", "web"));
        assert!(ignored.is_empty());
        // An administrator may believe every grain. The key's binding still has precedence.
        assert_eq!(believed(said.clone(), &Map::new(), &[]).0, said);
        assert_eq!(
            believed(said, &bound, &[]).0.get("role"),
            Some(&"web".into())
        );
    }

    #[test]
    fn an_identity_comes_from_the_keys_binding_alone() {
        let said = Map::new().with("identity", Map::new().with("account", "1"));
        assert!(believed(said.clone(), &Map::new(), &names()).0.is_empty());
        let proven = Map::new().with("identity", Map::new().with("account", "2"));
        let bound = Map::new().with("grains", proven.clone());
        assert_eq!(believed(said, &bound, &names()), (proven, Vec::new()));
    }
}
