//! The roster `cache`: the minions whose grains a running master of this machine has.

use std::net::IpAddr;
use std::time::Duration;

use link::unix::Pipe;
use link::{Limits, Part};
use modules::loader::call::joined;
use state::exec::Exec;
use value::networks::{Network, is_private};
use value::{Map, Value, log};
use wire::{Runner, Way};

use super::{HOSTS_MAX, flat, host};

/// The maximum time for an answer of the master.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The number of minions in one question.
const AT_ONCE: usize = 500;

/// The keys that may have a value that the minion itself writes.
const OF_MINIONS: [&str; 3] = ["host", "port", "user"];

/// Returns the entries of all minions of the master's cache, by id. A minion whose data is not well
/// formed is skipped with a warning.
///
/// # Errors
/// When `roster_order` is not well formed, no master runs, or it does not answer.
pub(super) fn entries(cx: &Exec) -> Result<Map, String> {
    let order = Order::read(cx, cx.opts().get("roster_order"))?;
    let ids = asked(cx, "cache.list", vec!["grains".into()], Map::new())?.texts();
    if ids.len() > HOSTS_MAX {
        return Err(format!("the cache has more than {HOSTS_MAX} minions"));
    }
    let mut entries = Map::new();
    for ids in ids.chunks(AT_ONCE) {
        let of = |source: Source| match source == Source::Grains || order.needs(source) {
            true => cached(cx, source, ids),
            false => Ok(Map::new()),
        };
        let data = Data {
            grains: of(Source::Grains)?,
            mine: of(Source::Mine)?,
            pillar: of(Source::Pillar)?,
        };
        entries.update(order.entries(ids, data));
    }
    Ok(entries)
}

/// The cached data of minions, by id.
#[derive(Debug, Default)]
struct Data {
    grains: Map,
    mine: Map,
    pillar: Map,
}

/// Returns the cached data of minions, by id.
fn cached(cx: &Exec, source: Source, ids: &[String]) -> Result<Map, String> {
    let list = Value::list(ids.iter().map(|id| id.as_str().into()));
    let fun = format!("cache.{}", source.name());
    let kwargs = Map::new().with("tgt_type", "list");
    match asked(cx, &fun, vec![list], kwargs)? {
        Value::Map(cached) => Ok(cached),
        other => Err(format!("the master cannot run {fun}: {}", other.to_text())),
    }
}

/// Calls a runner of the master on this machine.
fn asked(cx: &Exec, fun: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, String> {
    let socket = cx.opts().path("sock_dir").join("master.sock");
    let failed =
        |error: link::Error| format!("the master of this machine cannot be asked: {error}");
    let pipe = Pipe::connect(&socket, Way::ClientToMaster, Limits::default());
    let mut pipe = pipe.map_err(|error| {
        format!("it needs a running master, whose cache has the minions: {error}")
    })?;
    let request = Runner {
        fun: fun.to_owned(),
        arg: joined(args, kwargs),
        jid: None,
        asynchronous: false,
        watched: false,
    };
    pipe.ask(request).map_err(failed)?;
    loop {
        if let Part::Done(answer) = pipe.next(Some(ANSWER_MAX)).map_err(failed)? {
            let retcode = answer.get("retcode").and_then(Value::as_int);
            return match (answer.get("return"), retcode.unwrap_or_default()) {
                (Some(returned), 0) => Ok(returned.clone()),
                (returned, _) => Err(format!(
                    "the master cannot run {fun}: {}",
                    returned.map(Value::to_text).unwrap_or_default()
                )),
            };
        }
    }
}

/// The cached data of a minion.
struct Minion<'a> {
    id: &'a str,
    grains: Value,
    mine: Value,
    pillar: Value,
}

impl Minion<'_> {
    /// Returns the minion's addresses of one version, sorted.
    fn addresses(&self, version: u8) -> Result<Vec<IpAddr>, String> {
        let grain = self.grains.get(if version == 4 { "ipv4" } else { "ipv6" });
        let mut addresses = Vec::new();
        for text in grain.map(Value::texts).unwrap_or_default() {
            let ip: IpAddr = text
                .parse()
                .map_err(|_| format!("its grain ipv{version} has an invalid address"))?;
            addresses.push(ip);
        }
        addresses.sort();
        Ok(addresses)
    }

    /// Returns a value at a path; of a list the first item.
    fn at(&self, source: Source, path: &str) -> Option<Value> {
        let data = match source {
            Source::Grains => &self.grains,
            Source::Mine => &self.mine,
            Source::Pillar => &self.pillar,
        };
        let found = data.traverse(path, ":")?;
        // The mine keeps values with a list of readers in a dictionary.
        let found = found.get("__data__").unwrap_or(found);
        let found = match found.as_list() {
            Some(items) => items.first()?,
            None => found,
        };
        found.is_true().then(|| found.clone())
    }
}

/// A kind of cached data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Grains,
    Mine,
    Pillar,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Grains => "grains",
            Self::Mine => "mine",
            Self::Pillar => "pillar",
        }
    }
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    Global,
    Public,
    Private,
    Local,
}

impl Range {
    fn has(self, ip: IpAddr) -> bool {
        let is_link_local = match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        match self {
            Self::Global | Self::Public => !is_private(ip),
            Self::Private => is_private(ip) && !ip.is_loopback() && !is_link_local,
            Self::Local => ip.is_loopback(),
        }
    }
}

/// A rule by which a value is found.
#[derive(Clone, Debug, PartialEq)]
enum Rule {
    /// The id itself.
    Id,
    /// An address in a range, of one version or of both.
    Address(Option<u8>, Range),
    /// An address in a network.
    Network(Network),
    /// The first of these paths that has a value.
    Data(Source, Vec<String>),
    /// A value that is the same for all minions.
    Fixed(Value),
}

impl Rule {
    /// Reads a rule. A secret is read once.
    fn read(cx: &Exec, rule: &Value) -> Result<Self, String> {
        let expected = || {
            format!(
                "unknown rule {}; expected id, [ipv4-|ipv6-]global, public, private or local, a network, sdb://…, or grain, mine or pillar with a path",
                rule.to_text()
            )
        };
        if let Some(map) = rule.as_map() {
            let (source, paths) = map.first().ok_or_else(expected)?;
            let source = match source.to_text().as_str() {
                "grain" => Source::Grains,
                "mine" => Source::Mine,
                "pillar" => Source::Pillar,
                _ => return Err(expected()),
            };
            let paths = paths.texts();
            return match paths.is_empty() || map.len() > 1 {
                true => Err(expected()),
                false => Ok(Self::Data(source, paths)),
            };
        }
        let text = rule.as_str().ok_or_else(expected)?;
        if text == "id" {
            return Ok(Self::Id);
        }
        if text.starts_with("sdb://") {
            return flat::revealed(cx, rule, 0).map(Self::Fixed);
        }
        let (version, range) = match text.split_once('-') {
            Some(("ipv4", range)) => (Some(4), range),
            Some(("ipv6", range)) => (Some(6), range),
            _ => (None, text),
        };
        let range = match range {
            "global" => Range::Global,
            "public" => Range::Public,
            "private" => Range::Private,
            "local" => Range::Local,
            _ => {
                return Network::parse(text, true)
                    .map(Self::Network)
                    .map_err(|_| expected());
            }
        };
        Ok(Self::Address(version, range))
    }

    fn value(&self, minion: &Minion<'_>) -> Result<Option<Value>, String> {
        let first = |version: u8, fits: &dyn Fn(IpAddr) -> bool| {
            let addresses = minion.addresses(version)?;
            let found = addresses.into_iter().find(|ip| fits(*ip));
            Ok::<_, String>(found.map(|ip| Value::from(ip.to_string())))
        };
        match self {
            Self::Id => Ok(Some(minion.id.into())),
            Self::Address(version, range) => {
                for version in version.map_or_else(|| vec![4, 6], |version| vec![version]) {
                    if let Some(found) = first(version, &|ip| range.has(ip))? {
                        return Ok(Some(found));
                    }
                }
                Ok(None)
            }
            Self::Network(network) => {
                let version = if network.address.is_ipv4() { 4 } else { 6 };
                first(version, &|ip| network.contains(ip))
            }
            Self::Data(source, paths) => Ok(paths.iter().find_map(|path| minion.at(*source, path))),
            Self::Fixed(value) => Ok(Some(value.clone())),
        }
    }
}

/// The option `roster_order`: for each key of an entry the rules for its value.
#[derive(Debug)]
struct Order(Vec<(String, Vec<Rule>)>);

impl Order {
    fn read(cx: &Exec, order: Option<&Value>) -> Result<Self, String> {
        let Some(order) = order else {
            let ranges = [
                (6, Range::Private),
                (6, Range::Global),
                (4, Range::Private),
                (4, Range::Public),
            ];
            let rules = ranges.map(|(version, range)| Rule::Address(Some(version), range));
            return Ok(Self(vec![("host".to_owned(), rules.to_vec())]));
        };
        let order = order.as_map().ok_or("roster_order must be a dictionary")?;
        let mut all = Vec::new();
        for (key, rules) in order {
            let key = key.to_text();
            let failed = |error: String| format!("roster_order: {key}: {error}");
            host::known(&key).map_err(|error| format!("roster_order: {error}"))?;
            let one = [rules.clone()];
            let rules = rules.as_list().unwrap_or(&one);
            let rules = rules.iter().map(|rule| Rule::read(cx, rule));
            let rules: Vec<Rule> = rules.collect::<Result<_, _>>().map_err(failed)?;
            let of_minion =
                |rule: &Rule| matches!(rule, Rule::Data(Source::Grains | Source::Mine, _));
            if rules.iter().any(of_minion) && !OF_MINIONS.contains(&key.as_str()) {
                return Err(failed(
                    "it cannot come from grains or the mine, which the minion itself writes".into(),
                ));
            }
            all.push((key, rules));
        }
        Ok(Self(all))
    }

    fn needs(&self, wanted: Source) -> bool {
        let mut rules = self.0.iter().flat_map(|(_, rules)| rules);
        rules.any(|rule| matches!(rule, Rule::Data(source, _) if *source == wanted))
    }

    /// Returns the entries of minions. One without an address is skipped with a warning.
    fn entries(&self, ids: &[String], mut data: Data) -> Map {
        let mut entries = Map::new();
        for id in ids {
            let minion = Minion {
                id,
                grains: data.grains.remove(id).unwrap_or_default(),
                mine: data.mine.remove(id).unwrap_or_default(),
                pillar: data.pillar.remove(id).unwrap_or_default(),
            };
            match self.entry(&minion) {
                Ok(entry) => {
                    entries.insert(id.as_str(), Value::Map(entry));
                }
                Err(error) => log::warning(format_args!("roster cache: {id} is skipped: {error}")),
            }
        }
        entries
    }

    fn entry(&self, minion: &Minion<'_>) -> Result<Map, String> {
        let mut entry = Map::new();
        for (key, rules) in &self.0 {
            for rule in rules {
                if let Some(found) = rule.value(minion)? {
                    entry.insert(key.as_str(), found);
                    break;
                }
            }
        }
        match entry.contains("host") {
            true => Ok(entry),
            false => Err("its data in the cache has no address for host".to_owned()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use value::json;

    use super::*;
    use crate::roster::tests::context;

    /// Returns the entries for data of a cache, by `grains`, `mine` and `pillar` of each minion.
    pub(in crate::roster) fn entries_of(cx: &Exec, cached: &Map) -> Result<Map, String> {
        let order = Order::read(cx, cx.opts().get("roster_order"))?;
        let (mut data, mut ids) = (Data::default(), Vec::new());
        for (id, all) in cached {
            let id = id.to_text();
            let of = |name: &str| all.get(name).cloned().unwrap_or_default();
            data.grains.insert(id.as_str(), of("grains"));
            data.mine.insert(id.as_str(), of("mine"));
            data.pillar.insert(id.as_str(), of("pillar"));
            ids.push(id);
        }
        Ok(order.entries(&ids, data))
    }

    fn read(order: &str) -> Result<Order, String> {
        Order::read(&context(Map::new()), Some(&json::read(order).unwrap()))
    }

    #[test]
    fn an_order_that_is_not_well_formed_is_refused() {
        for (order, part) in [
            ("[]", "must be a dictionary"),
            (r#"{"hots": "id"}"#, "did you mean host?"),
            (r#"{"host": "privat"}"#, "unknown rule privat"),
            (r#"{"host": "ipv5-private"}"#, "unknown rule"),
            (r#"{"host": "10.0.0.1/8"}"#, "unknown rule"),
            (r#"{"host": {"grains": "x"}}"#, "unknown rule"),
            (r#"{"host": {"grain": "x", "mine": "y"}}"#, "unknown rule"),
            (r#"{"host": {}}"#, "unknown rule"),
            (r#"{"host": 7}"#, "unknown rule"),
        ] {
            let error = read(order).unwrap_err();
            assert!(error.contains(part), "{order}: {error}");
        }
    }

    /// Attack: a minion writes its grains and its mine itself.
    #[test]
    fn only_the_address_and_the_user_come_from_a_minion() {
        for key in [
            "priv",
            "passwd",
            "ssh_options",
            "minion_opts",
            "thin_dir",
            "ssh_pre_hook",
        ] {
            for source in ["grain", "mine"] {
                let order = format!(r#"{{"{key}": ["id", {{"{source}": "x"}}]}}"#);
                let error = read(&order).unwrap_err();
                assert!(error.contains("which the minion itself writes"), "{error}");
            }
            read(&format!(r#"{{"{key}": {{"pillar": "x"}}}}"#)).unwrap();
        }
    }

    /// Attack: one minion's grains are forged, and the others are found.
    #[test]
    fn a_forged_minion_is_skipped() {
        let cached = json::read(
            r#"{"a": {"grains": {"ipv4": ["10.0.0.1"]}}, "b": {"grains": {"ipv4": ["-oProxyCommand=id"]}},
                "c": {"grains": {"ipv4": {"x": 1}}}, "d": {"grains": "no"}, "e": {"grains": {"ipv4": [["10.0.0.1"]]}}}"#,
        );
        let cx = context(Map::new());
        let found = entries_of(&cx, cached.unwrap().as_map().unwrap()).unwrap();
        assert_eq!(Value::Map(found).to_text(), "{'a': {'host': '10.0.0.1'}}");
    }

    #[test]
    fn a_cache_without_a_master_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let sock_dir = folder.path().to_str().unwrap();
        let error = entries(&context(Map::new().with("sock_dir", sock_dir))).unwrap_err();
        assert!(error.contains("it needs a running master"), "{error}");
        assert!(error.contains("master.sock"), "{error}");
    }
}
