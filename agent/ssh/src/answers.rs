//! [`Answers`]: what the job on a host asks for, answered from the configuration and the trees of
//! this machine.

use std::io::SeekFrom;
use std::sync::Arc;

use link::Error;
use link::unix::Local;
use modules::served::files::Files;
use modules::served::options::options;
use modules::served::pillar::Asked;
use modules::served::{ENTRIES, PIECE};
use smol::io::{AsyncReadExt, AsyncSeekExt};
use state::opts::Opts;
use value::{Value, secret};
use wire::{File, Id, List, Pillar, Request, Stat, Tops};

/// The answers to the requests of one host's job.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    /// The configuration of this machine.
    pub(crate) opts: Arc<Opts>,
    pub(crate) files: Arc<Files>,
    /// The id of the host in the roster. The host cannot ask for the data of another one.
    pub(crate) id: Id,
}

impl Answers {
    /// Answers a request.
    ///
    /// # Errors
    /// When the host does not take the answer.
    pub(crate) async fn give(&self, request: Request, to: &mut Local) -> Result<(), Error> {
        match request {
            Request::Options(_) => to.done(options(&self.opts)).await,
            Request::Pillar(asked) => self.pillar(asked, to).await,
            Request::Tops(asked) => self.tops(asked, to).await,
            Request::List(asked) => self.list(asked, to).await,
            Request::Stat(asked) => self.stat(asked, to).await,
            Request::File(asked) => self.file(asked, to).await,
            Request::Ping(_) => to.done(true).await,
            other => {
                let text = format!(
                    "a host that is reached by ssh cannot use {}: this needs a master",
                    other.kind()
                );
                to.fail("unsupported", text).await
            }
        }
    }

    async fn pillar(&self, asked: Pillar, to: &mut Local) -> Result<(), Error> {
        let (opts, has_marks) = (self.opts.clone(), asked.secrets);
        let asked = Asked {
            id: self.id.as_str().to_owned(),
            grains: asked.grains,
            saltenv: asked.saltenv,
            pillarenv: asked.pillarenv,
            pillar_override: asked.pillar_override,
        };
        if let Err((word, text)) = asked.check() {
            return to.fail(word, text).await;
        }
        match smol::unblock(move || asked.compile(&opts)).await {
            Ok(pillar) => {
                let pillar = Value::Map(pillar);
                let marks = secret::marks(&pillar);
                if has_marks && !marks.is_null() {
                    to.data(marks).await?;
                }
                to.done(pillar).await
            }
            Err(error) => to.fail("failed", error.to_string()).await,
        }
    }

    async fn tops(&self, asked: Tops, to: &mut Local) -> Result<(), Error> {
        let opts = self.opts.clone();
        let asked = Asked {
            id: self.id.as_str().to_owned(),
            grains: asked.grains,
            ..Asked::default()
        };
        match smol::unblock(move || asked.tops(&opts)).await {
            Ok(tops) => to.done(tops).await,
            Err(error) => to.fail("failed", error.to_string()).await,
        }
    }

    async fn list(&self, asked: List, to: &mut Local) -> Result<(), Error> {
        let files = self.files.clone();
        let listed = move || files.list(&asked.what, &asked.saltenv, &asked.prefix);
        match smol::unblock(listed).await {
            Ok(entries) => {
                for part in entries.chunks(ENTRIES) {
                    let part = part.iter().map(|entry| entry.as_str().into());
                    to.data(Value::list(part)).await?;
                }
                to.done(entries.len() as u64).await
            }
            Err((word, text)) => to.fail(word, text).await,
        }
    }

    async fn stat(&self, asked: Stat, to: &mut Local) -> Result<(), Error> {
        let files = self.files.clone();
        let found = move || files.find(&asked.path, &asked.saltenv);
        match smol::unblock(found).await {
            Ok(found) => to.done(found.information()).await,
            Err((word, text)) => to.fail(word, text).await,
        }
    }

    async fn file(&self, asked: File, to: &mut Local) -> Result<(), Error> {
        let (files, path) = (self.files.clone(), asked.path);
        let (wanted, saltenv) = (path.clone(), asked.saltenv);
        let found = match smol::unblock(move || files.find(&wanted, &saltenv)).await {
            Ok(found) => found,
            Err((word, text)) => return to.fail(word, text).await,
        };
        if asked.hash.is_some_and(|hash| hash != found.hash) {
            let text = format!("salt://{path} has changed since its hash was read");
            return to.fail("invalid", text).await;
        }
        let end = found.end();
        let broken = |error: std::io::Error| format!("cannot read salt://{path}: {error}");
        let mut file = smol::fs::File::from(found.file);
        if let Err(error) = file.seek(SeekFrom::Start(asked.offset)).await {
            return to.fail("failed", broken(error)).await;
        }
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece).await {
                Ok(0) => return to.done(end).await,
                Ok(length) => {
                    let bytes = piece.get(..length).unwrap_or_default();
                    to.data(Value::Bytes(bytes.into())).await?;
                }
                Err(error) => return to.fail("failed", broken(error)).await,
            }
        }
    }
}
