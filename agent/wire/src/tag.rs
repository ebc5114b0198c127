//! Event tags: builds and parses them, and decides which of them a minion may send.

use value::jid;

use crate::Id;

const LENGTH_MAX: usize = 1024;

/// The tag of events about keys that were offered, accepted, rejected or denied.
pub const AUTH: &str = "salt/auth";
/// The tag of events about keys that changed their state.
pub const KEY: &str = "salt/key";
/// The tag of events that list the connected minions.
pub const PRESENT: &str = "salt/presence/present";
/// The tag of the event that replaces events which a full spool had to drop. It is the only tag of
/// Pinch that a minion sends. It contains no id; the master adds the minion's.
pub const SPOOL_GAP: &str = "pinch/spool/gap";
/// The tag of the event about the end of a master. The connections of its minions end with it, and
/// there is no other event about that.
pub const MASTER_STOP: &str = "pinch/master/stop";
/// The prefixes, in addition to `salt/`, of tags that only the master may send.
const RESERVED: [&str; 2] = ["minion/refresh/", "pinch/"];
/// The tag of events about minions that connected or disconnected.
pub const CHANGE: &str = "salt/presence/change";

/// A parsed tag. Tags that have a meaning in Salt are split into their parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag<'a> {
    /// `salt/auth`
    Auth,
    /// `salt/key`
    Key,
    /// `salt/presence/present` and `salt/presence/change`
    Presence(&'a str),
    /// `salt/minion/ID/WHAT`: `start`, `refresh`
    Minion {
        /// The minion.
        id: &'a str,
        /// The action.
        what: &'a str,
    },
    /// `salt/job/JID/WHAT`: `new`, `publish`, `error`
    Job {
        /// The job.
        jid: &'a str,
        /// The action.
        what: &'a str,
    },
    /// `salt/job/JID/WHAT/ID[/REST]`: `ret`, `prog`, `start`, `sub`
    JobOf {
        /// The job.
        jid: &'a str,
        /// The action.
        what: &'a str,
        /// The minion that sends it.
        id: &'a str,
        /// The rest: the number of a state, or the function that failed.
        rest: &'a str,
    },
    /// `salt/state_result/JID/ID/NAME`
    StateResult {
        /// The job.
        jid: &'a str,
        /// The minion.
        id: &'a str,
        /// The state's name.
        name: &'a str,
    },
    /// `salt/run/JID/WHAT`
    Run {
        /// The runner's job.
        jid: &'a str,
        /// `new`, `ret`, `args`, `progress`
        what: &'a str,
    },
    /// `salt/wheel/JID/WHAT`
    Wheel {
        /// The wheel function's job.
        jid: &'a str,
        /// `new`, `ret`
        what: &'a str,
    },
    /// `salt/beacon/ID/NAME/[REST]`
    Beacon {
        /// The minion.
        id: &'a str,
        /// The beacon.
        name: &'a str,
        /// The part that the beacon adds.
        rest: &'a str,
    },
    /// Another tag of the master: it begins with `salt/`, `minion/refresh/` or `pinch/`.
    Reserved(&'a str),
    /// Any other tag, which belongs to the user.
    Custom(&'a str),
}

impl<'a> Tag<'a> {
    /// Parses a tag. Every text is a tag.
    #[must_use]
    pub fn parse(tag: &'a str) -> Self {
        let Some(inner) = tag.strip_prefix("salt/") else {
            return match RESERVED.iter().any(|begin| tag.starts_with(begin)) {
                true => Self::Reserved(tag),
                false => Self::Custom(tag),
            };
        };
        let (first, rest) = inner.split_once('/').unwrap_or((inner, ""));
        let mut parts = rest.splitn(4, '/');
        let mut next = || parts.next().unwrap_or_default();
        let (one, two, three, four) = (next(), next(), next(), next());
        match (first, one, two, three, four) {
            ("auth", "", "", "", "") if tag == AUTH => Self::Auth,
            ("key", "", "", "", "") if tag == KEY => Self::Key,
            ("presence", what @ ("present" | "change"), "", "", "") => Self::Presence(what),
            ("minion", id, what, "", "") if Id::is_valid(id) => Self::Minion { id, what },
            ("job", jid, what, "", "") if jid::is_jid(jid) => Self::Job { jid, what },
            ("job", jid, what, id, rest) if jid::is_jid(jid) && Id::is_valid(id) => Self::JobOf {
                jid,
                what,
                id,
                rest,
            },
            ("state_result", jid, id, name, _) if jid::is_jid(jid) && Id::is_valid(id) => {
                // The name comes from `fire_event`, and may contain slashes.
                let name = rest.splitn(3, '/').nth(2).unwrap_or(name);
                Self::StateResult { jid, id, name }
            }
            ("run", jid, what, "", "") if jid::is_jid(jid) => Self::Run { jid, what },
            ("wheel", jid, what, "", "") if jid::is_jid(jid) => Self::Wheel { jid, what },
            ("beacon", id, name, _, _) if Id::is_valid(id) && !name.is_empty() => {
                let rest = rest.splitn(3, '/').nth(2).unwrap_or_default();
                Self::Beacon { id, name, rest }
            }
            _ => Self::Reserved(tag),
        }
    }

    /// Returns the id of the job, of the runner's job or of the wheel function's job that the event
    /// is about.
    #[must_use]
    pub fn jid(self) -> Option<&'a str> {
        match self {
            Self::Job { jid, .. }
            | Self::JobOf { jid, .. }
            | Self::StateResult { jid, .. }
            | Self::Run { jid, .. }
            | Self::Wheel { jid, .. } => Some(jid),
            _ => None,
        }
    }
}

/// Builds `salt/minion/ID/start`.
#[must_use]
pub fn minion_start(id: &Id) -> String {
    format!("salt/minion/{id}/start")
}

/// Builds `pinch/minion/ID/up`, the tag of the event about a minion that connected.
#[must_use]
pub fn minion_up(id: &Id) -> String {
    format!("pinch/minion/{id}/up")
}

/// Builds `pinch/minion/ID/down`, the tag of the event about a minion that disconnected.
#[must_use]
pub fn minion_down(id: &Id) -> String {
    format!("pinch/minion/{id}/down")
}

/// Builds `minion/refresh/ID`.
#[must_use]
pub fn minion_refresh(id: &Id) -> String {
    format!("minion/refresh/{id}")
}

/// Builds `salt/job/JID/sub/ID/error/FUN`.
#[must_use]
pub fn job_sub_error(jid: &str, id: &str, fun: &str) -> String {
    format!("salt/job/{jid}/sub/{id}/error/{fun}")
}

/// Builds `salt/job/JID/WHAT`.
#[must_use]
pub fn job(jid: &str, what: &str) -> String {
    format!("salt/job/{jid}/{what}")
}

/// Builds `salt/job/JID/ret/ID`.
#[must_use]
pub fn job_ret(jid: &str, id: &Id) -> String {
    format!("salt/job/{jid}/ret/{id}")
}

/// Builds `salt/job/JID/prog/ID/RUN`.
#[must_use]
pub fn job_prog(jid: &str, id: &Id, run: u64) -> String {
    format!("salt/job/{jid}/prog/{id}/{run}")
}

/// Builds `salt/run/JID/WHAT`.
#[must_use]
pub fn run(jid: &str, what: &str) -> String {
    format!("salt/run/{jid}/{what}")
}

/// Builds `salt/wheel/JID/WHAT`.
#[must_use]
pub fn wheel(jid: &str, what: &str) -> String {
    format!("salt/wheel/{jid}/{what}")
}

/// Builds `salt/beacon/ID/NAME/REST`.
#[must_use]
pub fn beacon(id: &Id, name: &str, rest: &str) -> String {
    format!("salt/beacon/{id}/{name}/{rest}")
}

/// The reason why a minion may not send a tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The text cannot be a tag at all.
    #[error("an event tag must have 1 to {LENGTH_MAX} bytes and no control characters")]
    NotATag,
    /// The tag is reserved for the master or another minion.
    #[error("the minion {id} may not send the event tag {tag:?}")]
    Reserved {
        /// The sender.
        id: Id,
        /// The tag.
        tag: String,
    },
}

/// Checks whether a minion may send an event with this tag: its own reports, and any tag that is
/// not reserved.
///
/// # Errors
/// When it may not; the error contains the reason.
pub fn may_send(sender: &Id, tag: &str) -> Result<(), Refused> {
    if tag.is_empty() || tag.len() > LENGTH_MAX || tag.chars().any(char::is_control) {
        return Err(Refused::NotATag);
    }
    let own = match Tag::parse(tag) {
        Tag::Custom(_) => true,
        Tag::Minion { id, what } => id == sender.as_str() && !what.is_empty(),
        Tag::JobOf { what, id, .. } => {
            id == sender.as_str() && matches!(what, "ret" | "prog" | "start" | "sub")
        }
        Tag::StateResult { id, .. } | Tag::Beacon { id, .. } => id == sender.as_str(),
        Tag::Reserved(tag) => tag == SPOOL_GAP,
        _ => false,
    };
    own.then_some(()).ok_or_else(|| Refused::Reserved {
        id: sender.clone(),
        tag: tag.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JID: &str = "20261120101035942505";

    fn m1() -> Id {
        "m1".parse().unwrap()
    }

    #[test]
    fn what_is_made_is_taken_apart_again() {
        let id = &m1();
        let all = [
            (
                minion_start(id),
                Tag::Minion {
                    id: "m1",
                    what: "start",
                },
            ),
            (
                job(JID, "new"),
                Tag::Job {
                    jid: JID,
                    what: "new",
                },
            ),
            (
                job_ret(JID, id),
                Tag::JobOf {
                    jid: JID,
                    what: "ret",
                    id: "m1",
                    rest: "",
                },
            ),
            (
                job_prog(JID, id, 3),
                Tag::JobOf {
                    jid: JID,
                    what: "prog",
                    id: "m1",
                    rest: "3",
                },
            ),
            (
                run(JID, "ret"),
                Tag::Run {
                    jid: JID,
                    what: "ret",
                },
            ),
            (
                wheel(JID, "new"),
                Tag::Wheel {
                    jid: JID,
                    what: "new",
                },
            ),
            (
                beacon(id, "inotify", "/etc/hosts"),
                Tag::Beacon {
                    id: "m1",
                    name: "inotify",
                    rest: "/etc/hosts",
                },
            ),
            (AUTH.into(), Tag::Auth),
            (KEY.into(), Tag::Key),
            (PRESENT.into(), Tag::Presence("present")),
            ("my/own".into(), Tag::Custom("my/own")),
            (
                "salt/netapi/hook/x".into(),
                Tag::Reserved("salt/netapi/hook/x"),
            ),
        ];
        for (tag, parsed) in all {
            assert_eq!(Tag::parse(&tag), parsed, "{tag}");
        }
    }

    #[test]
    fn a_minion_speaks_for_itself_alone() {
        let own = [
            "salt/minion/m1/start",
            "salt/job/20261120101035942505/ret/m1",
            "salt/job/20261120101035942505/prog/m1/0",
            "salt/job/20261120101035942505/start/m1",
            "salt/job/20261120101035942505/sub/m1/error/state.sls",
            "salt/state_result/20261120101035942505/m1/x",
            "salt/state_result/20261120101035942505/m1/custom/tag/b",
            "salt/beacon/m1/load/",
            "salt/beacon/m1/inotify//etc/hosts",
            "my/custom/event",
            "minion_start",
            "minion/own",
            "minion/refreshed",
            "pinch",
            SPOOL_GAP,
            "x",
        ];
        for tag in own {
            assert_eq!(may_send(&m1(), tag), Ok(()), "{tag}");
        }
        let others = [
            "salt/auth",
            "salt/auth/",
            "salt/key",
            "salt/",
            "salt//auth",
            "salt/job/20261120101035942505/new",
            "salt/job/20261120101035942505/publish",
            "salt/job/20261120101035942505/publish/m1",
            "salt/job/20261120101035942505/ret/m2",
            "salt/job/20261120101035942505/ret/M1",
            "salt/job/x/ret/m1",
            "salt/minion/m2/start",
            "salt/minion/m1/../m2/start",
            "salt/beacon/m2/load/",
            "salt/beacon/../m1/load/",
            "salt/run/20261120101035942505/new",
            "salt/wheel/20261120101035942505/ret",
            "salt/presence/present",
            "salt/cloud/x/created",
            "salt/reactors/manage/add",
            "salt/cluster/peer/x",
            "salt/netapi/hook/x",
            "minion/refresh/m1",
            "minion/refresh/m2",
            "minion/refresh/",
            "pinch/refused/m1",
            "pinch/refused/m2",
            "pinch/spool/gap/m2",
            "pinch/spool",
            "pinch/",
        ];
        for tag in others {
            assert!(
                matches!(may_send(&m1(), tag), Err(Refused::Reserved { .. })),
                "{tag}"
            );
        }
        for tag in ["", "a\nb", "a\0", &"x".repeat(1025)] {
            assert_eq!(may_send(&m1(), tag), Err(Refused::NotATag), "{tag}");
        }
    }
}
