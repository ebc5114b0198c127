//! Event tags: made, taken apart, and which of them a minion may send.

use value::jid;

use crate::Id;

const LENGTH_MAX: usize = 1024;

/// A key was offered, accepted, rejected or denied.
pub const AUTH: &str = "salt/auth";
/// A key changed its state.
pub const KEY: &str = "salt/key";
/// Who is connected.
pub const PRESENT: &str = "salt/presence/present";
/// Stands where a minion's spool had to drop what did not fit: the only one of ours that a minion sends. It names nobody; the
/// master adds whose it is.
pub const SPOOL_GAP: &str = "pinch/spool/gap";
/// The beginnings of tags that are the master's, besides `salt/`.
const RESERVED: [&str; 2] = ["minion/refresh/", "pinch/"];
/// Who came and who went.
pub const CHANGE: &str = "salt/presence/change";

/// A tag that Salt has a meaning for, taken apart.
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
        /// What it did.
        what: &'a str,
    },
    /// `salt/job/JID/WHAT`: `new`, `publish`, `error`
    Job {
        /// The job.
        jid: &'a str,
        /// What happened to it.
        what: &'a str,
    },
    /// `salt/job/JID/WHAT/ID[/REST]`: `ret`, `prog`, `start`, `sub`
    JobOf {
        /// The job.
        jid: &'a str,
        /// What happened to it.
        what: &'a str,
        /// The minion that says so.
        id: &'a str,
        /// What follows: the number of a state, the function that failed.
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
        /// What the beacon adds.
        rest: &'a str,
    },
    /// Another one of the master's: it begins with `salt/`, `minion/refresh/` or `pinch/`.
    Reserved(&'a str),
    /// Everything else: the user's own.
    Custom(&'a str),
}

impl<'a> Tag<'a> {
    /// Takes a tag apart; every text is one.
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
                // What `fire_event` says may have slashes.
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

    /// The job, the run or the call of a wheel function that it tells of.
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

/// `salt/minion/ID/start`
#[must_use]
pub fn minion_start(id: &Id) -> String {
    format!("salt/minion/{id}/start")
}

/// `minion/refresh/ID`
#[must_use]
pub fn minion_refresh(id: &Id) -> String {
    format!("minion/refresh/{id}")
}

/// `salt/job/JID/sub/ID/error/FUN`
#[must_use]
pub fn job_sub_error(jid: &str, id: &str, fun: &str) -> String {
    format!("salt/job/{jid}/sub/{id}/error/{fun}")
}

/// `salt/job/JID/WHAT`
#[must_use]
pub fn job(jid: &str, what: &str) -> String {
    format!("salt/job/{jid}/{what}")
}

/// `salt/job/JID/ret/ID`
#[must_use]
pub fn job_ret(jid: &str, id: &Id) -> String {
    format!("salt/job/{jid}/ret/{id}")
}

/// `salt/job/JID/prog/ID/RUN`
#[must_use]
pub fn job_prog(jid: &str, id: &Id, run: u64) -> String {
    format!("salt/job/{jid}/prog/{id}/{run}")
}

/// `salt/run/JID/WHAT`
#[must_use]
pub fn run(jid: &str, what: &str) -> String {
    format!("salt/run/{jid}/{what}")
}

/// `salt/wheel/JID/WHAT`
#[must_use]
pub fn wheel(jid: &str, what: &str) -> String {
    format!("salt/wheel/{jid}/{what}")
}

/// `salt/beacon/ID/NAME/REST`
#[must_use]
pub fn beacon(id: &Id, name: &str, rest: &str) -> String {
    format!("salt/beacon/{id}/{name}/{rest}")
}

/// A tag that a minion may not send, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is of no use as a tag at all.
    #[error("an event tag has 1 to {LENGTH_MAX} bytes and no control characters")]
    NotATag,
    /// It says something in the name of the master or of another minion.
    #[error("the event tag {tag:?} is not for the minion {id} to send")]
    Reserved {
        /// Who sent it.
        id: Id,
        /// The tag.
        tag: String,
    },
}

/// Checks that a minion may send an event of this tag: its own reports, and any that is not reserved.
///
/// # Errors
/// When it may not, with the reason.
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
