//! Sends the roots of this master to others.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use link::wait::{pause, unblock, within};
use value::{Map, Value, log};

use super::manifest::{Manifest, Problems, Tree, open, plain};
use super::message::{Channel, Entry, Message, Wanted, unless_failed};
use super::{ANSWER_MAX, ENTRIES_MAX, PIECE_MAX, SYNC_MAX};
use crate::cluster::Cluster;
use crate::cluster::requests::Ask;

/// The size from which on a manifest is sent with fewer files: the receiver reads its own ones for
/// the answer.
const COMPARED: u64 = 256 << 20;
/// The pause before a sync is begun once more.
const BEGIN_AGAIN: Duration = Duration::from_secs(1);

/// The result of a sync with one master.
#[derive(Debug, Default)]
pub(super) struct Sent {
    installed: u64,
    unchanged: u64,
    deleted: u64,
    problems: Problems,
}

impl Sent {
    /// Returns the result for the caller of the runner.
    pub(super) fn value(&self) -> Map {
        let mut map = Map::new()
            .with("installed", self.installed)
            .with("unchanged", self.unchanged)
            .with("deleted", self.deleted);
        if let Some(text) = self.problems.text() {
            map.insert("error", text);
        }
        map
    }

    pub(super) fn problems(&self) -> Option<String> {
        self.problems.text()
    }
}

/// The reason why something is not sent.
enum NotSent {
    /// The file, or the files of the environment. The sync continues.
    File(String),
    /// The master does not answer, or does not continue.
    Rest(String),
}

/// A sync with one master.
struct Sync<'a> {
    cluster: &'a Cluster,
    /// The number of the master, and that of the sync.
    to: u64,
    sync: u64,
    manifest: &'a Manifest,
    sent: Sent,
}

impl Cluster {
    /// Sends the roots of this master to another one.
    ///
    /// # Errors
    /// When the other master does not answer, or does not take them.
    pub(super) async fn send_roots(
        &self,
        to: u64,
        manifest: &Manifest,
        deletes: bool,
    ) -> Result<Sent, String> {
        let mut sync = Sync {
            cluster: self,
            to,
            sync: self.next_sync(),
            manifest,
            sent: Sent {
                problems: manifest.problems.clone(),
                ..Sent::default()
            },
        };
        match within(SYNC_MAX, sync.run(deletes)).await {
            Some(Ok(())) => Ok(sync.sent),
            Some(Err(why)) => Err(why),
            None => Err(format!(
                "the sync took longer than {} s",
                SYNC_MAX.as_secs()
            )),
        }
    }

    /// Sends the roots of this master to all others, and returns the answer of each.
    ///
    /// # Errors
    /// When this master sends its roots already, or they are too large.
    pub(crate) async fn sync_roots(
        &self,
        channels: Vec<Channel>,
        deletes: bool,
    ) -> Result<Map, String> {
        let _sending = self.0.roots.sending.try_lock().ok_or(super::SENDING)?;
        let opts = self.0.roots.opts.clone();
        let manifest = unblock(move || Manifest::read(&opts, &channels, deletes)).await?;
        let (manifest, others) = (Arc::new(manifest), self.others().into_iter());
        let syncs: Vec<_> = others
            .map(|(number, member)| {
                let (cluster, manifest) = (self.clone(), manifest.clone());
                let sync = async move { cluster.send_roots(number, &manifest, deletes).await };
                (member.name, smol::spawn(sync))
            })
            .collect();
        let mut answers = Map::new();
        for (name, sync) in syncs {
            let answer = match sync.await {
                Ok(sent) => sent.value(),
                Err(why) => Map::new().with("error", plain(&why)),
            };
            if let Some(why) = answer.get("error").and_then(Value::as_str) {
                log::warning(format_args!("cannot send the roots to {name}: {why}"));
            }
            answers.insert(name, answer);
        }
        Ok(answers)
    }
}

impl Sync<'_> {
    async fn run(&mut self, deletes: bool) -> Result<(), String> {
        let begin = Message::Begin {
            sync: self.sync,
            channels: self.manifest.channels.clone(),
            deletes,
        };
        if self.ask(begin.clone()).await.is_err() {
            // The connection may be one from before the start of the other master.
            pause(BEGIN_AGAIN).await;
            self.ask(begin).await?;
        }
        let manifest = self.manifest;
        for tree in &manifest.trees {
            match self.send_tree(tree).await {
                Ok(()) => {}
                Err(NotSent::File(why)) => {
                    let (option, saltenv) = (tree.channel.option(), &tree.saltenv);
                    self.sent
                        .problems
                        .add(&format!("{option} {saltenv}: {why}"));
                }
                Err(NotSent::Rest(why)) => return Err(why),
            }
        }
        let is_complete = self.sent.problems.is_empty();
        if deletes && !is_complete {
            self.sent.problems.add("no file was removed");
        }
        let end = Message::End {
            sync: self.sync,
            is_complete,
        };
        match unless_failed(self.ask(end).await?) {
            Ok(ended) => {
                let deleted = ended.get("deleted").and_then(Value::as_int);
                self.sent.deleted = deleted.and_then(|count| count.try_into().ok()).unwrap_or(0);
            }
            Err(why) => self.sent.problems.add(&why),
        }
        Ok(())
    }

    async fn ask(&self, message: Message) -> Result<Value, String> {
        self.cluster
            .ask(self.to, &Ask::Roots(message), ANSWER_MAX)
            .await
    }

    /// Sends the files of an environment.
    async fn send_tree(&mut self, tree: &Tree) -> Result<(), NotSent> {
        let mut rest = tree.entries.as_slice();
        while !rest.is_empty() {
            let (entries, later) = rest.split_at(count(rest));
            rest = later;
            let wanted = self.compare(tree, entries).await?;
            for (at, why) in &wanted.refused {
                let path = entries.get(*at).map_or("", |entry| entry.path.as_str());
                self.sent.problems.add(&tree.about(path, why));
            }
            let needed: BTreeSet<usize> = wanted.needed.iter().copied().collect();
            let others = entries
                .len()
                .saturating_sub(needed.len() + wanted.refused.len());
            self.sent.unchanged += others as u64;
            for index in needed {
                let Some(entry) = entries.get(index) else {
                    return Err(NotSent::Rest(
                        "it needs a file that is not there".to_owned(),
                    ));
                };
                match self.send_file(tree, index, entry).await {
                    Ok(()) => self.sent.installed += 1,
                    Err(NotSent::File(why)) => {
                        self.sent.problems.add(&tree.about(&entry.path, &why));
                    }
                    Err(rest) => return Err(rest),
                }
            }
        }
        Ok(())
    }

    /// Sends a manifest. Returns the files that the other master needs.
    async fn compare(&self, tree: &Tree, entries: &[Entry]) -> Result<Wanted, NotSent> {
        let manifest = Message::Manifest {
            sync: self.sync,
            channel: tree.channel,
            saltenv: tree.saltenv.clone(),
            entries: entries.to_vec(),
        };
        let answer = self.ask(manifest).await.map_err(NotSent::Rest)?;
        let answer = unless_failed(answer).map_err(NotSent::File)?;
        let wanted = Wanted::read(&answer);
        wanted.ok_or_else(|| NotSent::Rest("the answer has an unknown form".to_owned()))
    }

    /// Sends a file that the other master needs.
    async fn send_file(&self, tree: &Tree, index: usize, entry: &Entry) -> Result<(), NotSent> {
        let (roots, path, saltenv) = (tree.roots.clone(), entry.path.clone(), tree.saltenv.clone());
        let opened = unblock(move || open(&roots, &path, &saltenv));
        let mut file = opened.await.map_err(NotSent::File)?;
        let (size, mut offset) = (entry.size, 0);
        loop {
            let (same, piece) = unblock(move || {
                let piece = piece(&mut file, size - offset);
                (file, piece)
            })
            .await;
            file = same;
            let bytes = piece.map_err(NotSent::File)?;
            let at = offset;
            offset += bytes.len() as u64;
            let piece = Message::Piece {
                sync: self.sync,
                index,
                offset: at,
                bytes: bytes.into(),
            };
            let answer = self.ask(piece).await.map_err(NotSent::Rest)?;
            unless_failed(answer).map_err(NotSent::File)?;
            if offset == size {
                return Ok(());
            }
        }
    }
}

/// Returns the number of files in the next manifest.
fn count(entries: &[Entry]) -> usize {
    let mut bytes = 0_u64;
    let fits = |entry: &&Entry| {
        bytes = bytes.saturating_add(entry.size);
        bytes <= COMPARED
    };
    let count = entries.iter().take(ENTRIES_MAX).take_while(fits).count();
    count.max(1)
}

/// Reads the next piece of a file with this many bytes left. The last piece is only read if the file
/// still ends there.
fn piece(file: &mut File, left: u64) -> Result<Vec<u8>, String> {
    let length = left.min(PIECE_MAX as u64);
    let mut bytes = Vec::new();
    let is_last = length == left;
    let most = if is_last { length + 1 } else { length };
    let read = file.take(most).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot read it: {error}"))?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err("it has changed during the sync".to_owned()),
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own files")]
#[cfg(test)]
mod tests {
    use super::*;

    fn entry(size: u64) -> Entry {
        Entry {
            path: "a".to_owned(),
            size,
            mode: 0o644,
            hash: [0; 32],
        }
    }

    #[test]
    fn a_manifest_has_few_files_if_they_are_large() {
        assert_eq!(count(&[entry(COMPARED + 1), entry(1)]), 1);
        assert_eq!(count(&[entry(COMPARED / 2), entry(1), entry(COMPARED)]), 2);
        assert_eq!(count(&vec![entry(0); ENTRIES_MAX + 1]), ENTRIES_MAX);
    }

    #[test]
    fn a_file_that_has_changed_is_not_sent_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"12345").unwrap();
        let read = |left| piece(&mut File::open(&path).unwrap(), left);
        assert_eq!(read(5), Ok(b"12345".to_vec()));
        for wrong in [4, 6, 0] {
            let why = read(wrong).unwrap_err();
            assert_eq!(why, "it has changed during the sync", "{wrong}");
        }
    }
}
