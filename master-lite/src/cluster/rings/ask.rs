//! [`Rows`]: the requests of masters to each other about returns of jobs.

use value::{Map, Value};
use wire::Id;

use super::Version;
use crate::store::Returned;

/// The maximum number of jobs in one request.
pub(super) const JOBS_MAX: usize = 64;
/// The maximum number of returns that one request is about.
pub(super) const RETURNS_MAX: usize = 20_000;

/// A request about returns of jobs.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cluster) enum Rows {
    /// Does the receiver keep these returns, and has it their data on its disk? The answer is a list
    /// of a truth value for each job.
    Kept {
        /// The rings and members by which the sender decides.
        version: (u64, u64, u64),
        /// The jobs, with the minions whose data is meant.
        jobs: Vec<(String, Vec<Id>)>,
    },
    /// The returns of a job whose data the receiver has.
    Returns {
        jid: String,
        /// Only the return of this minion.
        only: Option<Id>,
        /// Only those after this minion's.
        after: Option<Id>,
    },
    /// Remove what the receiver does not keep.
    Shed { ring: String, dry_run: bool },
}

impl From<Version> for (u64, u64, u64) {
    fn from(version: Version) -> Self {
        (version.rings, version.routes, version.members)
    }
}

fn ids<'a>(ids: impl IntoIterator<Item = &'a Id>) -> Value {
    Value::list(ids.into_iter().map(|id| Value::from(id.as_str())))
}

fn number(value: &Value) -> Option<u64> {
    u64::try_from(value.as_int()?).ok()
}

fn id(value: &Value) -> Option<Id> {
    value.as_str()?.parse().ok()
}

/// Reads a field that may be absent.
fn some_id(map: &Map, name: &str) -> Option<Option<Id>> {
    match map.get(name) {
        Some(value) => Some(Some(id(value)?)),
        None => Some(None),
    }
}

impl Rows {
    pub(in crate::cluster) fn to_map(&self) -> Map {
        match self {
            Self::Kept { version, jobs } => {
                let (rings, routes, members) = *version;
                let version = [rings, routes, members].map(Value::from);
                let jobs = jobs
                    .iter()
                    .map(|(jid, minions)| Value::list([jid.as_str().into(), ids(minions)]));
                Map::new()
                    .with("kept", Value::list(jobs))
                    .with("version", Value::list(version))
            }
            Self::Returns { jid, only, after } => {
                let mut map = Map::new().with("returns", jid.as_str());
                for (name, id) in [("only", only), ("after", after)] {
                    if let Some(id) = id {
                        map.insert(name, id.as_str());
                    }
                }
                map
            }
            Self::Shed { ring, dry_run } => Map::new()
                .with("shed", ring.as_str())
                .with("dry_run", *dry_run),
        }
    }

    pub(in crate::cluster) fn from_map(map: &Map) -> Option<Self> {
        if let Some(jobs) = map.get("kept") {
            let [rings, routes, members] = map.get("version")?.as_list()? else {
                return None;
            };
            let version = (number(rings)?, number(routes)?, number(members)?);
            let jobs = jobs.as_list()?.iter().map(|job| match job.as_list()? {
                [jid, minions] => {
                    let minions = minions.as_list()?.iter().map(id);
                    Some((jid.as_str()?.to_owned(), minions.collect::<Option<_>>()?))
                }
                _ => None,
            });
            let jobs: Vec<(String, Vec<Id>)> = jobs.collect::<Option<_>>()?;
            let returns: usize = jobs.iter().map(|(_, minions)| minions.len()).sum();
            let fits = jobs.len() <= JOBS_MAX && returns <= RETURNS_MAX;
            return fits.then_some(Self::Kept { version, jobs });
        }
        if let Some(jid) = map.get("returns") {
            return Some(Self::Returns {
                jid: jid.as_str()?.to_owned(),
                only: some_id(map, "only")?,
                after: some_id(map, "after")?,
            });
        }
        Some(Self::Shed {
            ring: map.get("shed")?.as_str()?.to_owned(),
            dry_run: map.get("dry_run")?.as_bool()?,
        })
    }
}

/// Returns the answer to [`Rows::Returns`]. `has_more` says that there are further returns.
pub(super) fn pieces(returns: &[Returned], has_more: bool) -> Value {
    let returns = returns.iter().map(|returned| {
        Map::new()
            .with("id", returned.id.as_str())
            .with("at_ms", returned.at_ms)
            .with("data", Value::Map(returned.data.clone()))
            .into()
    });
    Map::new()
        .with("returns", Value::list(returns))
        .with("has_more", has_more)
        .into()
}

/// Reads the answer to [`Rows::Returns`].
pub(super) fn of_pieces(answer: &Value) -> Option<(Vec<Returned>, bool)> {
    let map = answer.as_map()?;
    let returns = map.get("returns")?.as_list()?.iter().map(|returned| {
        let returned = returned.as_map()?;
        Some(Returned {
            id: id(returned.get("id")?)?,
            at_ms: number(returned.get("at_ms")?)?,
            data: returned.get("data")?.as_map()?.clone(),
        })
    });
    Some((
        returns.collect::<Option<_>>()?,
        map.get("has_more")?.as_bool()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Id {
        text.parse().unwrap()
    }

    #[test]
    fn requests_are_read_back() {
        let kept = Rows::Kept {
            version: (1, 2, 3),
            jobs: vec![("1".to_owned(), vec![name("a"), name("b")])],
        };
        let returns = |only: Option<&str>, after: Option<&str>| Rows::Returns {
            jid: "1".to_owned(),
            only: only.map(name),
            after: after.map(name),
        };
        let shed = Rows::Shed {
            ring: "jobs".to_owned(),
            dry_run: true,
        };
        for rows in [
            kept,
            returns(None, None),
            returns(Some("a"), Some("b")),
            shed,
        ] {
            assert_eq!(Rows::from_map(&rows.to_map()), Some(rows));
        }
        assert_eq!(Rows::from_map(&Map::new()), None);
        assert_eq!(Rows::from_map(&Map::new().with("kept", 1)), None);
    }

    #[test]
    fn a_request_about_too_many_jobs_or_returns_is_refused() {
        let jobs = |count: usize, minions: usize| Rows::Kept {
            version: (1, 2, 3),
            jobs: vec![("1".to_owned(), vec![name("a"); minions]); count],
        };
        let is_read = |rows: Rows| Rows::from_map(&rows.to_map()).is_some();
        assert!(is_read(jobs(JOBS_MAX, 1)));
        assert!(!is_read(jobs(JOBS_MAX + 1, 1)));
        assert!(!is_read(jobs(1, RETURNS_MAX + 1)));
    }

    #[test]
    fn answers_are_read_back() {
        let returns = vec![Returned {
            id: name("a"),
            at_ms: 7,
            data: Map::new().with("return", true),
        }];
        assert_eq!(of_pieces(&pieces(&returns, true)), Some((returns, true)));
        assert_eq!(of_pieces(&Value::Null), None);
    }
}
