//! The file server. It serves the files of the file roots and nothing else.

use std::io::SeekFrom;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use link::{Error, Question};
use modules::served::files::{self, Found};
use modules::served::{ENTRIES, PIECE};
use smol::io::{AsyncReadExt, AsyncSeekExt};
use state::opts::Opts;
use value::{Value, log};
use wire::{File, List, Stat};

use crate::refusals::NotServed;

/// The trees that minions may read.
#[derive(Clone, Debug)]
pub(crate) struct Files(Arc<files::Files>);

impl Files {
    pub(crate) fn new(opts: &Opts) -> Self {
        Self(Arc::new(files::Files::new(opts)))
    }

    /// Answers `list`: sends the entries in parts, then their number.
    pub(crate) async fn list(&self, mut question: Question, asked: List) -> Result<(), Error> {
        let files = self.0.clone();
        let listed = move || files.list(&asked.what, &asked.saltenv, &asked.prefix);
        let entries = match smol::unblock(listed).await {
            Ok(entries) => entries,
            Err((word, text)) => return question.fail(word, text).await,
        };
        for part in entries.chunks(ENTRIES) {
            let part = part.iter().map(|entry| entry.as_str().into());
            question.data(Value::list(part)).await?;
        }
        question.done(entries.len() as u64).await
    }

    /// Answers `stat`: sends a file's size, mode and hash.
    pub(crate) async fn stat(&self, question: Question, asked: Stat) -> Result<(), Error> {
        match self.find(asked.path, asked.saltenv).await {
            Ok(found) => question.done(found.information()).await,
            Err((word, text)) => question.fail(word, text).await,
        }
    }

    /// Answers `file`: sends the bytes from the offset on, then size and hash.
    pub(crate) async fn file(&self, mut question: Question, asked: File) -> Result<(), Error> {
        let found = match self.find(asked.path.clone(), asked.saltenv).await {
            Ok(found) => found,
            Err((word, text)) => return question.fail(word, text).await,
        };
        let path = asked.path;
        log::debug(format_args!(
            "serving salt://{path}: {} bytes from byte {}",
            found.metadata.size(),
            asked.offset
        ));
        if asked.hash.is_some_and(|hash| hash != found.hash) {
            let text = format!("salt://{path} has changed since its hash was read");
            return question.fail("invalid", text).await;
        }
        let broken = |error: std::io::Error| format!("cannot read salt://{path}: {error}");
        let end = found.end();
        let mut file = smol::fs::File::from(found.file);
        if let Err(error) = file.seek(SeekFrom::Start(asked.offset)).await {
            return question.fail("failed", broken(error)).await;
        }
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece).await {
                Ok(0) => break,
                Ok(length) => {
                    let bytes = piece.get(..length).unwrap_or_default();
                    question.data(Value::Bytes(bytes.into())).await?;
                }
                Err(error) => return question.fail("failed", broken(error)).await,
            }
        }
        question.done(end).await
    }

    async fn find(&self, path: String, saltenv: String) -> Result<Found, NotServed> {
        let files = self.0.clone();
        smol::unblock(move || files.find(&path, &saltenv)).await
    }
}
