//! Files of a Salt master: lists, hashes, contents, and files that this minion sends.

use link::Part;
use smol::channel::{Receiver, Sender};
use value::{Map, Value, channel};
use wire::{File, List, Push, Stat};

use super::{Error, Inner};

/// The number of entries of a list in one part.
const ENTRIES: usize = 1000;
/// The size in bytes at which the parts of a file that is sent go to the master.
const PIECE: usize = 256 << 10;

/// The sender of the parts of an answer.
pub(super) struct Parts<'a>(pub(super) &'a Sender<Result<Part, Error>>);

impl Parts<'_> {
    /// Sends a part. If the process that asked is gone, the task of this answer ends with it.
    pub(super) async fn send(&self, part: Value) {
        // No deadline: the receiver takes the parts, or drops this task.
        channel::if_open(self.0.send(Ok(Part::Data(part))).await);
    }
}

/// Answers `list`.
pub(super) async fn list(inner: &Inner, asked: List, parts: &Parts<'_>) -> Result<Value, Error> {
    let command = match asked.what.as_str() {
        "files" => "_file_list",
        "dirs" => "_dir_list",
        "emptydirs" => "_file_list_emptydirs",
        "symlinks" => "_symlink_list",
        "envs" => "_file_envs",
        other => return Err(Error::new("invalid", format!("no list of {other}"))),
    };
    let load = Map::new()
        .with("saltenv", asked.saltenv)
        .with("prefix", asked.prefix);
    let entries = entries(inner.session.request(command, load).await?, command)?;
    for part in entries.chunks(ENTRIES) {
        parts.send(part.to_vec().into()).await;
    }
    Ok((entries.len() as u64).into())
}

/// Returns the entries of a master's list. An entry of a symbolic link has its target too.
fn entries(answer: Value, command: &str) -> Result<Vec<Value>, Error> {
    let entries: Vec<Value> = match answer {
        Value::Map(links) => {
            let links = links.iter();
            let entry = |(link, target): (&Value, &Value)| {
                format!("{}\0{}", link.to_text(), target.to_text()).into()
            };
            links.map(entry).collect()
        }
        list => list.as_list().map(<[Value]>::to_vec).ok_or_else(|| {
            let text = format!("the Salt master sent no list ({command})");
            Error::new("invalid", text)
        })?,
    };
    match entries.iter().all(|entry| matches!(entry, Value::Str(_))) {
        true => Ok(entries),
        false => {
            let text =
                format!("the Salt master sent a list with entries that are no text ({command})");
            Err(Error::new("invalid", text))
        }
    }
}

/// Answers `stat`.
pub(super) async fn stat(inner: &Inner, asked: Stat) -> Result<Value, Error> {
    let load = Map::new()
        .with("path", asked.path.as_str())
        .with("saltenv", asked.saltenv.as_str());
    let answer = inner.session.request("_file_hash_and_stat", load).await?;
    let missing = || {
        let text = format!("salt://{} does not exist ({})", asked.path, asked.saltenv);
        Error::new("missing", text)
    };
    let [hash, stat] = answer.as_list().unwrap_or_default() else {
        return Err(missing());
    };
    let text = |name| hash.get(name).and_then(Value::as_str);
    let sum = text("hsum").filter(|sum| !sum.is_empty());
    let mode = stat.as_list().and_then(<[Value]>::first);
    let size = stat.as_list().and_then(|stat| stat.get(6));
    Ok(Map::new()
        .with("hash", sum.ok_or_else(missing)?)
        .with("mode", mode.and_then(Value::as_int))
        .with("size", size.and_then(Value::as_int))
        .into())
}

/// Answers `file`. The master has no answer that names a hash; the receiver checks the whole file.
pub(super) async fn file(inner: &Inner, asked: File, parts: &Parts<'_>) -> Result<Value, Error> {
    let mut loc = asked.offset;
    loop {
        let load = Map::new()
            .with("path", asked.path.as_str())
            .with("saltenv", asked.saltenv.as_str())
            .with("loc", loc);
        let answer = inner.session.request("_serve_file", load).await?;
        let data = match answer.get("data") {
            Some(Value::Bytes(bytes)) => bytes.to_vec(),
            Some(Value::Str(text)) => text.as_bytes().to_vec(),
            _ => {
                let text = format!("the Salt master sent no data of salt://{}", asked.path);
                return Err(Error::new("invalid", text));
            }
        };
        if data.is_empty() {
            let dest = answer.get("dest").and_then(Value::as_str);
            return match dest.is_some_and(|dest| !dest.is_empty()) {
                true => Ok(Map::new().with("size", loc).into()),
                false => {
                    let text = format!("salt://{} does not exist ({})", asked.path, asked.saltenv);
                    Err(Error::new("missing", text))
                }
            };
        }
        loc += data.len() as u64;
        parts.send(Value::Bytes(data.as_slice().into())).await;
    }
}

/// Answers `push`.
pub(super) async fn push(
    inner: &Inner,
    asked: Push,
    following: &Receiver<Part>,
) -> Result<Value, Error> {
    let names = asked.path.split('/').filter(|name| !name.is_empty());
    let path = Value::list(names.map(Value::from));
    let (mut loc, mut waiting, mut has_ended, mut refused) = (0, Vec::new(), false, None);
    while !has_ended {
        // No deadline: the process that sends the file ends its parts, or its socket is closed.
        match following.recv().await {
            Ok(Part::Data(Value::Bytes(bytes))) => waiting.extend_from_slice(&bytes),
            Ok(Part::Data(_)) => {}
            Ok(Part::Done(_)) => has_ended = true,
            Err(_) => return Err(Error::new("invalid", "the file ended too early")),
        }
        let is_due = waiting.len() >= PIECE || (has_ended && (loc == 0 || !waiting.is_empty()));
        if !is_due || refused.is_some() {
            continue;
        }
        let bytes = std::mem::take(&mut waiting);
        let load = Map::new()
            .with("path", path.clone())
            .with("size", asked.size)
            .with("loc", loc)
            .with("data", Value::Bytes(bytes.as_slice().into()));
        let answer = inner.session.request("_file_recv", load).await?;
        loc += bytes.len() as u64;
        refused = (!answer.is_true()).then_some(());
    }
    match refused {
        None => Ok(true.into()),
        Some(()) => {
            let text =
                "the master does not accept the file: see file_recv and file_recv_max_size there";
            Err(Error::new("refused", text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_lists_become_entries() {
        let links = Map::new().with("a/link", "../target");
        let found = entries(links.into(), "_symlink_list").unwrap();
        assert_eq!(found, [Value::from("a/link\0../target")]);
        let list = Value::list(["a".into(), "b".into()]);
        assert_eq!(entries(list, "_file_list").unwrap().len(), 2);
        for wrong in [Value::Null, "text".into(), Value::list([1.into()])] {
            assert!(entries(wrong, "_file_list").is_err());
        }
    }
}
