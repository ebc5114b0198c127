//! The commits of a mirror that are used if the repository has keys (`verify`).

use std::collections::{BTreeMap, BTreeSet};

use state::module::Error;
use value::log;

use super::heads::Heads;
use super::mirror::{LOCAL_MAX, Mirror};
use super::remotes::Kind;
use super::signatures::{Keys, Verifier};

impl Mirror {
    /// Replaces the commits of references that no key has signed by those of the last update, or removes
    /// them.
    ///
    /// # Errors
    /// When the files for the programs that check signatures cannot be written.
    pub(super) fn keep_signed(
        &self,
        keys: &Keys,
        before: Option<&Heads>,
        heads: &mut Heads,
    ) -> Result<(), Error> {
        heads.keys = keys.digest()?;
        let verifier = Verifier::new(keys, &self.folder.join("trees"))?;
        let objects = self.objects_of_tags()?;
        let mut signed = BTreeSet::new();
        // A commit with a signed tag needs no signature, whatever else names it.
        for kind in [Kind::Tag, Kind::Branch, Kind::Commit] {
            for (name, commit) in std::mem::take(heads.of_kind(kind)) {
                let last = before.and_then(|before| before.commit(&[kind], &name));
                let object = objects.get(&name).filter(|_| kind == Kind::Tag);
                let object = object.unwrap_or(&commit).clone();
                let entry = (kind.name().to_owned(), name.clone(), object);
                let is_signed = last == Some(commit.as_str()) || signed.contains(&commit);
                let is_refused =
                    !is_signed && before.is_some_and(|before| before.refused.contains(&entry));
                let problem = match is_signed || is_refused {
                    true => None,
                    false => self.problem(&verifier, kind, &name, &commit),
                };
                if problem.is_none() && !is_refused {
                    signed.insert(commit.clone());
                    heads.of_kind(kind).insert(name, commit);
                    continue;
                }
                if let Some(problem) = problem {
                    self.warn_of_signature(kind, &name, &problem, last.is_some());
                }
                heads.refused.insert(entry);
                if let Some(last) = last {
                    self.keep_commit(last)?;
                    heads.of_kind(kind).insert(name, last.to_owned());
                }
            }
        }
        Ok(())
    }

    /// Returns the numbers of the objects that tags name, which are commits or have signatures.
    fn objects_of_tags(&self) -> Result<BTreeMap<String, String>, Error> {
        let format = "--format=%(objectname) %(refname)";
        let words = ["for-each-ref", format, "refs/tags"];
        let listed = self.git(LOCAL_MAX).run(&words, "")?;
        let pairs = listed.lines().filter_map(|line| {
            let (object, name) = line.split_once(' ')?;
            Some((
                name.strip_prefix("refs/tags/")?.to_owned(),
                object.to_owned(),
            ))
        });
        Ok(pairs.collect())
    }

    /// Makes git keep a commit that its branch has left.
    fn keep_commit(&self, commit: &str) -> Result<(), Error> {
        let name = format!("refs/kept/{commit}");
        self.git(LOCAL_MAX)
            .run(&["update-ref", &name, commit], "")
            .map(drop)
    }

    /// Returns the problem of the signature of a reference; `None` if it is valid.
    fn problem(&self, verifier: &Verifier, kind: Kind, name: &str, commit: &str) -> Option<String> {
        let problem = verifier.problem(self.git(LOCAL_MAX), commit)?;
        match kind {
            Kind::Tag => verifier.problem_of_tag(self.git(LOCAL_MAX), name),
            Kind::Branch | Kind::Commit => Some(problem),
        }
    }

    fn warn_of_signature(&self, kind: Kind, name: &str, problem: &str, has_last: bool) {
        let then = match has_last {
            true => "Its last signed commit stays in use",
            false => "It is not used",
        };
        let kind = kind.name();
        let problem = format!("no key of `verify` has signed the {kind} {name}: {problem}. {then}");
        log::warning(self.error(problem).sentence());
    }

    /// Checks the signature of a commit that no reference may have.
    ///
    /// # Errors
    /// When no key has signed it.
    pub(super) fn check_signature(&self, heads: &Heads, commit: &str) -> Result<(), Error> {
        let Some(keys) = &self.remote.keys else {
            return Ok(());
        };
        if heads.commits().any(|known| known == commit) {
            return Ok(());
        }
        let verifier = Verifier::new(keys, &self.folder.join("trees"))?;
        match verifier.problem(self.git(LOCAL_MAX), commit) {
            None => Ok(()),
            Some(problem) => Err(self.error(format!(
                "no key of `verify` has signed the commit {commit}: {problem}"
            ))),
        }
    }
}
