//! The part of the `pkg` execution module that manages groups of packages, for dnf and yum.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, sorted};

use crate::exec::pkg::providers::{self, capabilities::Groups};
use crate::exec::tool;

state::exec_module! {
    /// Manage packages.
    mod pkg;

    /// Return the names of all groups.
    ///
    ///     salt-call pkg.group_list
    fn group_list(GroupList {});

    /// Return the packages of a group, sorted by kind: mandatory, optional, default and
    /// conditional.
    ///
    ///     salt-call pkg.group_info 'Development Tools'
    fn group_info(GroupInfo {
        /// The name of the group.
        name: String,
        /// True to include the packages of the groups that the group contains.
        expand: bool = false,
        /// The names of groups to leave out.
        ignore_groups: Option<Vec<String>> = None,
        ..kwargs
    });

    /// Return which packages of a group are installed and which are not.
    ///
    ///     salt-call pkg.group_diff 'Development Tools'
    fn group_diff(GroupDiff {
        /// The name of the group.
        name: String,
        ..kwargs
    });

    /// Install the mandatory and default packages of groups.
    ///
    ///     salt-call pkg.group_install 'Development Tools'
    fn group_install(GroupInstall {
        /// The name of a group, a list of names, or a text with commas.
        name: Value,
        /// The default packages that are not installed.
        skip: Value = Value::list([]),
        /// Additional packages to install.
        include: Value = Value::list([]),
        ..kwargs
    });
}

/// The kinds of members of a group.
const KINDS: [&str; 4] = ["mandatory", "optional", "default", "conditional"];

/// The headings of the list of groups, with the keys of the result.
const HEADINGS: [(&str, &str); 5] = [
    ("installed groups:", "installed"),
    ("available groups:", "available"),
    ("installed environment groups:", "installed environments"),
    ("available environment groups:", "available environments"),
    ("available language groups:", "available languages"),
];

/// The maximum nesting of groups. Deeper groups indicate a cycle.
const DEPTH_MAX: usize = 16;

/// A group and its members.
#[derive(Default)]
struct Group {
    /// The fields that the program prints, such as `group`, `group-id` and `description`.
    about: Map,
    /// The members, one list for each kind in the order of [`KINDS`].
    members: [Vec<String>; 4],
}

/// Parses a heading such as ` Mandatory Packages:`. Returns the index of its kind and the text
/// after the colon, where newer programs begin the list.
fn heading(line: &str) -> Option<(usize, &str)> {
    let (head, first) = line.split_once(':')?;
    let head = head.trim_end().to_lowercase();
    let (kind, what) = head.split_once(' ')?;
    let is_one = matches!(what, "groups" | "packages");
    let kind = KINDS.iter().position(|one| *one == kind)?;
    is_one.then_some((kind, first.trim()))
}

fn parsed(text: &str) -> Group {
    let (mut group, mut kind) = (Group::default(), None);
    for line in text.lines() {
        if let Some((key, value)) = line.split_once(':').filter(|(_, rest)| !rest.contains(':')) {
            group.about.insert(key.trim().to_lowercase(), value.trim());
        }
        let line = line.trim();
        let line = line.trim_start_matches(|c: char| c.is_ascii_punctuation());
        let member = match heading(line.trim()) {
            Some((new, first)) => {
                kind = Some(new);
                first
            }
            None => line.trim(),
        };
        let list = kind.and_then(|kind| group.members.get_mut(kind));
        if let Some(list) = list.filter(|_| !member.is_empty()) {
            list.push(member.to_owned());
        }
    }
    group
}

/// Returns the options that select repositories.
fn options(kwargs: &Map) -> Vec<String> {
    let of = |name: &str| kwargs.get(name).map(tool::texts).unwrap_or_default();
    if let Some(repo) = of("fromrepo").first() {
        return vec!["--disablerepo=*".to_owned(), format!("--enablerepo={repo}")];
    }
    let all = ["disablerepo", "enablerepo"].into_iter();
    all.flat_map(|name| {
        of(name)
            .into_iter()
            .map(move |repo| format!("--{name}={repo}"))
    })
    .collect()
}

/// Runs the package manager and returns its output. The name of the program depends on its version.
fn output(cx: &Exec, words: &[String]) -> Result<String, Error> {
    let program = providers::provider(cx)?.about().program;
    let words: Vec<&str> = [program]
        .into_iter()
        .chain(words.iter().map(String::as_str))
        .collect();
    Ok(tool::run(cx, &words, None, None)?.into_stdout_regardless())
}

/// Returns the commands about groups of this machine's package manager.
fn commands(cx: &Exec, function: &str) -> Result<Groups, Error> {
    let provider = providers::provider(cx)?;
    provider.require(provider.groups(), function)
}

fn find_group(cx: &Exec, name: &str, kwargs: &Map) -> Result<Group, Error> {
    tool::is_name("group", name)?;
    let mut words = vec!["--quiet".to_owned()];
    words.extend(options(kwargs));
    match commands(cx, "group_info")? {
        Groups::Dnf5 => words.extend(["group", "info", name].map(str::to_owned)),
        Groups::Yum => words.extend(["groupinfo", name].map(str::to_owned)),
    }
    let group = parsed(&output(cx, &words)?);
    let is_known = ["environment group", "group", "name"];
    match is_known.iter().any(|key| group.about.contains(key)) {
        true => Ok(group),
        false => Err(Error::refused(format!("Group '{name}' not found"))),
    }
}

/// Returns a group, including the members of nested groups if `done` is given.
fn group(
    cx: &Exec,
    name: &str,
    kwargs: &Map,
    done: Option<&mut Vec<String>>,
    depth: usize,
) -> Result<Group, Error> {
    let mut all = find_group(cx, name, kwargs)?;
    let is_environment = all.about.contains("environment group");
    if let Some(done) = done.filter(|_| is_environment && depth < DEPTH_MAX) {
        let groups = std::mem::take(&mut all.members);
        for member in groups.into_iter().flatten() {
            if done.contains(&member) {
                continue;
            }
            done.push(member.clone());
            // A name that matches several groups needs the `@`; a name with spaces must not have
            // it.
            let marked = format!("@{member}");
            let inner = group(cx, &marked, &Map::new(), Some(&mut *done), depth + 1)
                .or_else(|_| group(cx, &member, &Map::new(), Some(&mut *done), depth + 1))?;
            for (list, more) in all.members.iter_mut().zip(inner.members) {
                list.extend(more);
            }
        }
    }
    for list in &mut all.members {
        sorted::sort(list);
        list.dedup();
    }
    Ok(all)
}

fn group_list(cx: &Exec, _: GroupList) -> Result<Value, Error> {
    let mut all: Map = HEADINGS
        .iter()
        .map(|(_, name)| (Value::from(*name), Value::list([])))
        .collect();
    all.insert("available languages", Map::new());
    if commands(cx, "group_list")? == Groups::Dnf5 {
        let text = output(cx, &["group", "list", "--hidden"].map(str::to_owned))?;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let key = match words.as_slice() {
                [_, _, .., last] if last.eq_ignore_ascii_case("yes") => "installed",
                [_, _, .., last] if last.eq_ignore_ascii_case("no") => "available",
                _ => continue,
            };
            add(&mut all, key, words.first().copied().unwrap_or_default());
        }
        return Ok(all.into());
    }
    let text = output(cx, &["grouplist", "hidden"].map(str::to_owned))?;
    let mut key = None;
    for line in text.lines() {
        let lower = line.to_lowercase();
        if lower == "done" {
            break;
        }
        let found = HEADINGS.iter().find(|(heading, _)| *heading == lower);
        match (found, key) {
            (Some((_, name)), _) => key = Some(*name),
            (None, Some(name)) => add(&mut all, name, line.trim()),
            (None, None) => {}
        }
    }
    Ok(all.into())
}

/// Adds a group to the result. A language group has the language in brackets after its name.
fn add(all: &mut Map, key: &str, line: &str) {
    match all.get_mut(key) {
        Some(Value::List(list)) => std::sync::Arc::make_mut(list).push(line.into()),
        Some(Value::Map(map)) => {
            let parts = line
                .strip_suffix(']')
                .and_then(|line| line.rsplit_once(" ["));
            if let Some((name, language)) = parts {
                let about = Map::new().with("name", name).with("language", language);
                map.insert(line, about);
            }
        }
        _ => {}
    }
}

fn group_info(cx: &Exec, args: GroupInfo) -> Result<Value, Error> {
    let mut done = args.ignore_groups.unwrap_or_default();
    let done = args.expand.then_some(&mut done);
    let group = group(cx, &args.name, &args.kwargs, done, 0)?;
    let about = |keys: &[&str]| {
        let mut found = keys.iter().filter_map(|key| group.about.get(key));
        found.next().cloned()
    };
    let kind = match group.about.contains("environment group") {
        true => "environment group",
        false => "package group",
    };
    let description = about(&["description"]).unwrap_or_else(|| "".into());
    let mut all: Map = KINDS
        .iter()
        .zip(&group.members)
        .map(|(kind, members)| (Value::from(*kind), Value::from(members.clone())))
        .collect();
    all.insert("type", kind);
    all.insert("group", about(&["environment group", "group", "name"]));
    all.insert("id", about(&["environment-id", "group-id", "id"]));
    all.insert("description", description);
    Ok(all.into())
}

fn group_diff(cx: &Exec, args: GroupDiff) -> Result<Value, Error> {
    let here = cx.call_internal("pkg.list_pkgs", Vec::new(), Map::new())?;
    let group = group(cx, &args.name, &args.kwargs, Some(&mut Vec::new()), 0)?;
    let mut all = Map::new();
    for (kind, members) in KINDS.iter().zip(group.members) {
        let is_here = |member: &String| here.get(member).is_some();
        let (there, missing): (Vec<String>, Vec<String>) = members.into_iter().partition(is_here);
        let about = Map::new().with("installed", there);
        all.insert(*kind, about.with("not installed", missing));
    }
    Ok(all.into())
}

/// Returns the texts of a list, or the parts of a text with commas.
fn names(value: &Value) -> Vec<String> {
    let texts = tool::texts(value);
    match value.as_list() {
        Some(_) => texts,
        None => texts
            .iter()
            .flat_map(|text| text.split(',').map(str::to_owned))
            .collect(),
    }
}

fn group_install(cx: &Exec, args: GroupInstall) -> Result<Value, Error> {
    let (skip, here) = (
        names(&args.skip),
        cx.call_internal("pkg.list_pkgs", Vec::new(), Map::new())?,
    );
    let groups = names(&args.name);
    if groups.is_empty() {
        return Err(Error::argument("name", "no groups specified".to_owned()));
    }
    let mut targets = Vec::new();
    for name in groups {
        let [mandatory, _, default, _] = group(cx, &name, &Map::new(), None, 0)?.members;
        targets.extend(mandatory);
        targets.extend(default.into_iter().filter(|member| !skip.contains(member)));
    }
    targets.extend(names(&args.include));
    targets.retain(|name| here.get(name).is_none());
    sorted::sort(&mut targets);
    targets.dedup();
    match targets.is_empty() {
        true => Ok(Map::new().into()),
        false => cx.call_internal("pkg.install", Vec::new(), args.kwargs.with("pkgs", targets)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_old_and_new_programs_are_read() {
        let old = "Group: Tools\n Description: some: tools\n Mandatory Packages:\n   one\n  =two\n Default Packages:\n   Three\n";
        let group = parsed(old);
        assert_eq!(group.members[0], ["one", "two"]);
        assert_eq!(group.members[2], ["Three"]);
        assert_eq!(group.about.get("group"), Some(&"Tools".into()));
        let new = "Id                   : tools\nName                 : Tools\nMandatory packages   : one\n                     : two\nOptional packages    : Three\n";
        let group = parsed(new);
        assert_eq!(group.members[0], ["one", "two"]);
        assert_eq!(group.members[1], ["Three"]);
    }
}
