//! [`Message`]: the requests by which a master sends its roots to another one.

use std::sync::Arc;

use value::{Map, Value};

/// The roots that a sync can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Channel {
    /// `file_roots`.
    FileRoots,
    /// `pillar_roots`.
    PillarRoots,
}

impl Channel {
    pub(super) const ALL: [Self; 2] = [Self::FileRoots, Self::PillarRoots];

    /// Returns the option with the roots, which is also the name of the channel in Salt.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::FileRoots => "file_roots",
            Self::PillarRoots => "pillar_roots",
        }
    }

    fn read(map: &Map) -> Option<Self> {
        Self::of_value(map.get("channel")?)
    }

    fn of_value(value: &Value) -> Option<Self> {
        let word = value.as_str()?;
        Self::ALL.into_iter().find(|known| known.option() == word)
    }
}

/// The SHA-256 of a file.
pub(super) type Hash = [u8; 32];

/// A file of the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct Entry {
    /// Its path below the root.
    pub(super) path: String,
    /// Its size in bytes.
    pub(super) size: u64,
    /// Its permission bits, without the setuid, setgid and sticky bits.
    pub(super) mode: u32,
    pub(super) hash: Hash,
}

/// A request about the roots. `sync` is the sender's number of the sync that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cluster) enum Message {
    /// The asking master has no files, and wants those of the receiver.
    Fetch,
    /// A sync begins.
    Begin {
        sync: u64,
        channels: Vec<Channel>,
        /// True if files that the sender does not have are removed at the end.
        deletes: bool,
    },
    /// Some files of an environment. The receiver answers which of them it needs.
    Manifest {
        sync: u64,
        channel: Channel,
        saltenv: String,
        entries: Vec<Entry>,
    },
    /// A part of a file of the last manifest.
    Piece {
        sync: u64,
        /// The place of the file in the manifest.
        index: usize,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// The sync ends.
    End {
        sync: u64,
        /// True if all files of the sender are at the receiver.
        is_complete: bool,
    },
}

fn number<T: TryFrom<i64>>(map: &Map, name: &str) -> Option<T> {
    T::try_from(map.get(name)?.as_int()?).ok()
}

impl Entry {
    fn value(&self) -> Value {
        Value::list([
            self.path.as_str().into(),
            self.size.into(),
            self.mode.into(),
            Value::Bytes(self.hash.as_slice().into()),
        ])
    }

    fn read(value: &Value) -> Option<Self> {
        let [path, size, mode, Value::Bytes(hash)] = value.as_list()? else {
            return None;
        };
        Some(Self {
            path: path.as_str()?.to_owned(),
            size: size.as_int()?.try_into().ok()?,
            mode: mode.as_int()?.try_into().ok()?,
            hash: hash.as_ref().try_into().ok()?,
        })
    }
}

impl Message {
    pub(in crate::cluster) fn value(&self) -> Value {
        let map = Map::new();
        let map = match self {
            Self::Fetch => map.with("kind", "fetch"),
            Self::Begin {
                sync,
                channels,
                deletes,
            } => {
                let channels = channels.iter().map(|channel| channel.option().into());
                map.with("kind", "begin")
                    .with("sync", *sync)
                    .with("channels", Value::list(channels))
                    .with("deletes", *deletes)
            }
            Self::Manifest {
                sync,
                channel,
                saltenv,
                entries,
            } => map
                .with("kind", "manifest")
                .with("sync", *sync)
                .with("channel", channel.option())
                .with("saltenv", saltenv.as_str())
                .with("entries", Value::list(entries.iter().map(Entry::value))),
            Self::Piece {
                sync,
                index,
                offset,
                bytes,
            } => map
                .with("kind", "piece")
                .with("sync", *sync)
                .with("index", *index)
                .with("offset", *offset)
                .with("bytes", Value::Bytes(bytes.clone())),
            Self::End { sync, is_complete } => map
                .with("kind", "end")
                .with("sync", *sync)
                .with("is_complete", *is_complete),
        };
        map.into()
    }

    pub(in crate::cluster) fn read(value: &Value) -> Option<Self> {
        let map = value.as_map()?;
        let sync = || number(map, "sync");
        Some(match map.get("kind")?.as_str()? {
            "fetch" => Self::Fetch,
            "begin" => {
                let channels = map.get("channels")?.as_list()?.iter();
                Self::Begin {
                    sync: sync()?,
                    channels: channels.map(Channel::of_value).collect::<Option<_>>()?,
                    deletes: map.get("deletes")?.is_true(),
                }
            }
            "manifest" => {
                let entries = map.get("entries")?.as_list()?.iter();
                Self::Manifest {
                    sync: sync()?,
                    channel: Channel::read(map)?,
                    saltenv: map.get("saltenv")?.as_str()?.to_owned(),
                    entries: entries.map(Entry::read).collect::<Option<_>>()?,
                }
            }
            "piece" => {
                let Value::Bytes(bytes) = map.get("bytes")? else {
                    return None;
                };
                Self::Piece {
                    sync: sync()?,
                    index: number(map, "index")?,
                    offset: number(map, "offset")?,
                    bytes: bytes.clone(),
                }
            }
            "end" => Self::End {
                sync: sync()?,
                is_complete: map.get("is_complete")?.is_true(),
            },
            _ => return None,
        })
    }
}

/// The receiver's answer to a manifest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The places of the files that it needs.
    pub(super) needed: Vec<usize>,
    /// The places of the files that it does not take, each with the reason.
    pub(super) refused: Vec<(usize, String)>,
}

impl Wanted {
    pub(super) fn value(&self) -> Value {
        let refused = self.refused.iter();
        let refused = refused.map(|(at, why)| Value::list([(*at).into(), why.as_str().into()]));
        Map::new()
            .with(
                "needed",
                Value::list(self.needed.iter().map(|at| (*at).into())),
            )
            .with("refused", Value::list(refused))
            .into()
    }

    pub(super) fn read(value: &Value) -> Option<Self> {
        let map = value.as_map()?;
        let place = |value: &Value| usize::try_from(value.as_int()?).ok();
        let refused = map.get("refused")?.as_list()?.iter();
        let refused = refused.map(|pair| match pair.as_list()? {
            [at, why] => Some((place(at)?, why.to_text())),
            _ => None,
        });
        Some(Self {
            needed: (map.get("needed")?.as_list()?.iter())
                .map(place)
                .collect::<Option<_>>()?,
            refused: refused.collect::<Option<_>>()?,
        })
    }
}

/// The receiver's answer about a file, or an environment, that it does not take. The sync continues.
pub(super) fn failed(why: String) -> Value {
    Map::new().with("failed", why).into()
}

/// Returns an answer, or the reason why the receiver does not take something.
pub(super) fn unless_failed(value: Value) -> Result<Value, String> {
    match value.get("failed") {
        Some(why) => Err(why.to_text()),
        None => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back_and_hostile_ones_are_not() {
        let entry = Entry {
            path: "a/b.sls".to_owned(),
            size: 3,
            mode: 0o644,
            hash: [7; 32],
        };
        let messages = [
            Message::Fetch,
            Message::Begin {
                sync: 1,
                channels: Channel::ALL.to_vec(),
                deletes: true,
            },
            Message::Manifest {
                sync: 1,
                channel: Channel::PillarRoots,
                saltenv: "base".to_owned(),
                entries: vec![entry.clone()],
            },
            Message::Piece {
                sync: 1,
                index: 2,
                offset: 3,
                bytes: [1, 2, 3].as_slice().into(),
            },
            Message::End {
                sync: 1,
                is_complete: true,
            },
        ];
        for message in messages {
            assert_eq!(Message::read(&message.value()), Some(message));
        }
        let piece = Map::new().with("kind", "piece").with("sync", 1);
        let piece = piece.with("bytes", Value::Bytes([1].as_slice().into()));
        for (index, offset) in [(-1, 0), (0, -1)] {
            let hostile = piece.clone().with("index", index).with("offset", offset);
            assert_eq!(Message::read(&hostile.into()), None);
        }
        let entry = entry.value();
        for (at, wrong) in [(0, 1.into()), (1, (-1).into()), (2, "x".into())] {
            let mut list = entry.as_list().unwrap().to_vec();
            list[at] = wrong;
            assert_eq!(Entry::read(&Value::list(list)), None);
        }
        for channel in ["cachedir", "", "file_roots/.."] {
            assert_eq!(Channel::of_value(&channel.into()), None, "{channel}");
        }
    }

    #[test]
    fn answers_are_read_back() {
        let wanted = Wanted {
            needed: vec![0, 7],
            refused: vec![(1, "no".to_owned())],
        };
        assert_eq!(Wanted::read(&wanted.value()), Some(wanted));
        assert_eq!(Wanted::read(&Value::Null), None);
        assert_eq!(unless_failed(failed("no".to_owned())), Err("no".to_owned()));
        assert_eq!(unless_failed(true.into()), Ok(true.into()));
    }
}
