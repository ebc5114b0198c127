//! Users of `external_auth`: their rules, compared with the decisions that Salt's checker has recorded,
//! their passwords and their tokens.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use modules::loader::call::joined;
use state::opts::Opts;
use value::{Map, Value, json};
use wire::{Publish, Secret};

use super::World;
use crate::access::Access;
use crate::access::caller::Caller;
use crate::access::eauth::{Credentials, PASSWORD_MAX, Refusal, User, rules};
use crate::access::functions::Form;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/corpus/eauth");

fn put(path: &Path, text: &str) {
    let mut file = File::create(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn list(value: &Value, name: &str) -> Vec<Value> {
    value.get(name).unwrap().as_list().unwrap().to_vec()
}

/// Returns a master's access with other options.
fn with(world: &World, options: &str) -> Access {
    let mut access = world.master.runners.runs.access.clone();
    let mut opts = access.opts.map.clone();
    for (name, value) in json::read(options).unwrap().as_map().unwrap() {
        opts.insert(name.clone(), value.clone());
    }
    let opts = Arc::new(Opts::new(opts));
    let runs = &world.master.runners.runs;
    access.eauth = crate::access::eauth::Eauth::new(&opts, runs.registry, &runs.events);
    access.opts = opts;
    access
}

fn user(rules: Vec<Value>) -> Caller {
    Caller::User(User {
        name: "joe".into(),
        eauth: "file".into(),
        groups: vec!["ops".into()],
        rules: Arc::new(rules),
        shown: "eauth",
    })
}

/// Returns the request of a recorded job: target, type, functions and arguments.
fn job(recorded: &Value) -> Publish {
    let part = |index: usize| recorded.as_list().unwrap()[index].clone();
    let fun = match part(2) {
        Value::List(funs) => funs
            .iter()
            .map(Value::to_text)
            .collect::<Vec<_>>()
            .join(","),
        fun => fun.to_text(),
    };
    let tgt_type = part(1).to_text();
    let tgt = match tgt_type.as_str() {
        "list" => Value::list(part(0).to_text().split(',').map(Value::from)),
        _ => part(0),
    };
    Publish {
        tgt,
        tgt_type,
        fun,
        arg: part(3).as_list().unwrap().to_vec(),
        ret: String::new(),
        jid: None,
        timeout_s: None,
        options: Map::new(),
    }
}

/// Returns the decision on a recorded call, as Salt's checker words it.
fn called(access: &Access, caller: &Caller, recorded: &Value) -> Value {
    let part = |index: usize| recorded.as_list().unwrap()[index].clone();
    let form = match part(0).as_str() {
        Some("runner") => Form::Runner,
        _ => Form::Wheel,
    };
    let kwargs = part(3).as_map().unwrap().clone();
    let arg = joined(part(2).as_list().unwrap().to_vec(), kwargs);
    match access.may_call(caller, form, &part(1).to_text(), &arg) {
        Ok(()) => true.into(),
        Err((_, why)) if why.contains("Check syntax") => "error".into(),
        Err(_) => false.into(),
    }
}

#[test]
fn rules_decide_as_in_salt_or_more_strictly() {
    let world = World::new();
    let access = &world.master.runners.runs.access;
    let recorded = std::fs::read_to_string(format!("{CORPUS}/rules.json")).unwrap();
    let recorded = json::read(&recorded).unwrap();
    let (jobs, calls) = (list(&recorded, "jobs"), list(&recorded, "calls"));
    let cases = list(&recorded, "cases");
    assert!(cases.len() >= 56, "{}", cases.len());
    let mut stricter = String::new();
    for case in &cases {
        let table = case.get("table").unwrap();
        let opts = Map::new()
            .with("external_auth", Map::new().with("file", table.clone()))
            .with("permissive_acl", case.get("permissive").unwrap().clone());
        let own = rules::of_user(&Opts::new(opts), "file", "joe", &["ops".to_owned()]);
        assert_eq!(own, list(case, "rules"), "{table:?}");
        let caller = user(own);
        for (recorded, salts) in jobs.iter().zip(list(case, "jobs")) {
            let ours = smol::block_on(access.permitted(job(recorded), &caller));
            let text = recorded.to_text();
            match (ours, salts == true.into()) {
                (Ok(_), true) | (Err(_), false) => {}
                (Ok(_), false) => panic!("{table:?} must not allow {text}"),
                (Err((_, why)), true) => {
                    writeln!(stricter, "{}: {text}: {why}", table.to_text()).unwrap();
                }
            }
        }
        for (recorded, salts) in calls.iter().zip(list(case, "calls")) {
            let ours = called(access, &caller, recorded);
            let text = recorded.to_text();
            if ours == salts {
                continue;
            }
            assert_ne!(ours, true.into(), "{table:?} must not allow {text}");
            writeln!(stricter, "{}: {text}", table.to_text()).unwrap();
        }
    }
    let path = format!("{CORPUS}/stricter.txt");
    if std::env::var_os("PINCH_RECORD").is_some() {
        put(Path::new(&path), &stricter);
    }
    assert_eq!(stricter, std::fs::read_to_string(path).unwrap());
}

fn shown(eauth: &str, name: &str, password: &str) -> Credentials {
    Credentials {
        eauth: eauth.into(),
        username: name.into(),
        password: Secret::new(password),
        expire_s: None,
    }
}

/// Returns access for the users of a file.
fn of_file(world: &World, more: &str) -> Access {
    let path = world.folder.path().join("users");
    put(&path, "joe:secret\nann:other\n");
    let options = format!(
        r#"{{"external_auth": {{"file": {{"^filename": "{}", "joe": ["test.*", "@jobs"]}}, "sharedsecret": {{"*": [".*"]}}}}, "sharedsecret": "s3cret"{more}}}"#,
        path.display()
    );
    with(world, &options)
}

#[test]
fn a_password_of_a_file_gives_a_token_with_the_users_rules() {
    let world = World::new();
    let access = of_file(&world, "");
    let issued = smol::block_on(access.login(&shown("file", "joe", "secret"), "here")).unwrap();
    assert!((issued.expire - issued.start - 43_200.0).abs() < 0.001);
    let user = smol::block_on(access.user_of(&issued.token, "here")).unwrap();
    assert_eq!(*user.rules, ["test.*".into(), "@jobs".into()]);
    // The store has no token in clear text.
    let rows: Vec<_> = access.store.tokens().unwrap().collect();
    assert!(!format!("{rows:?}").contains(issued.token.reveal()));
    // A change of the rules counts at once, and a source that is removed ends its tokens.
    let other = with(&world, r#"{"external_auth": {"file": {"joe": []}}}"#);
    let user = smol::block_on(other.user_of(&issued.token, "here")).unwrap();
    assert!(user.rules.is_empty());
    let without = with(&world, "{}");
    let refused = smol::block_on(without.user_of(&issued.token, "here"));
    assert_eq!(refused, Err(Refusal::Authentication));
    // A removed token is gone.
    let removed = world.run(
        "auth.del_token",
        &format!("[\"{}\"]", issued.token.reveal()),
    );
    assert_eq!(removed, "true");
    let refused = smol::block_on(access.user_of(&issued.token, "here"));
    assert_eq!(refused, Err(Refusal::Authentication));
    assert_eq!(world.run("auth.del_token", r#"["abc"]"#), "false");
}

#[test]
fn a_token_ends_at_its_time_which_some_users_may_choose() {
    let world = World::new();
    let short = of_file(&world, r#", "token_expire": 0"#);
    let issued = smol::block_on(short.login(&shown("file", "joe", "secret"), "here")).unwrap();
    let refused = smol::block_on(short.user_of(&issued.token, "here"));
    assert_eq!(refused, Err(Refusal::Authentication));
    smol::block_on(short.forget_expired());
    assert_eq!(short.store.tokens().unwrap().count(), 0);
    for (setting, seconds) in [
        ("true", 7.0),
        (r#"{"file": ["joe"]}"#, 7.0),
        (r#"{"file": ["ann"], "pam": ["joe"]}"#, 100.0),
        ("false", 100.0),
    ] {
        let more = format!(r#", "token_expire": 100, "token_expire_user_override": {setting}"#);
        let access = of_file(&world, &more);
        let wanted = Credentials {
            expire_s: Some(7.0),
            ..shown("file", "joe", "secret")
        };
        let issued = smol::block_on(access.login(&wanted, "here")).unwrap();
        assert!(
            (issued.expire - issued.start - seconds).abs() < 0.001,
            "{setting}"
        );
    }
}

#[test]
fn wrong_names_passwords_and_sources_are_the_same_refusal() {
    let world = World::new();
    let access = of_file(&world, "");
    let long = "x".repeat(1 << 20);
    let just = "x".repeat(PASSWORD_MAX + 1);
    for (number, (eauth, name, password)) in [
        ("file", "joe", "wrong"),
        ("file", "bob", "secret"),
        ("pam", "root", "x"),
        ("nothing", "joe", "secret"),
        ("file", "joe", ""),
        ("file", "", "secret"),
        ("file", "-joe", "secret"),
        ("file", "joe\n", "secret"),
        ("file", "joe", "secret\0"),
        ("file", "joe", &long),
        ("file", "joe", &just),
        ("sharedsecret", "joe", "s3cre"),
    ]
    .into_iter()
    .enumerate()
    {
        let from = format!("{number}");
        let refused = smol::block_on(access.authenticate(&shown(eauth, name, password), &from));
        assert_eq!(refused, Err(Refusal::Authentication), "{eauth} {name:?}");
    }
    let right = smol::block_on(access.authenticate(&shown("sharedsecret", "bob", "s3cret"), "a"));
    assert_eq!(*right.unwrap().rules, [Value::from(".*")]);
}

#[test]
fn passwords_cannot_be_guessed_fast() {
    let world = World::new();
    let access = of_file(&world, "");
    let guess = |password: &str| {
        smol::block_on(access.authenticate(&shown("file", "joe", password), "here"))
    };
    let refused = (0..10).find_map(|_| match guess("wrong") {
        Err(Refusal::Later(seconds)) => Some(seconds),
        _ => None,
    });
    assert!(refused.is_some());
    // The right password waits as well, but not from elsewhere.
    assert!(matches!(guess("secret"), Err(Refusal::Later(_))));
    let elsewhere = smol::block_on(access.authenticate(&shown("file", "joe", "secret"), "there"));
    assert!(elsewhere.is_ok());
}

#[test]
fn a_custom_module_knows_users_groups_and_rules() {
    let world = World::new();
    let folder = world
        .folder
        .path()
        .join("var/cache/salt/master/extmods/auth");
    std::fs::create_dir_all(&folder).unwrap();
    let module = "def auth(username, password):\n    return password == 'of-' + username\n\n\ndef groups(username, **kwargs):\n    return ['ops'] if username == 'joe' else []\n\n\ndef acl(username):\n    return ['grains.*'] if username == 'ann' else None\n";
    put(&folder.join("house.py"), module);
    let options = format!(
        r#"{{"external_auth": {{"house": {{"ops%": ["test.*"]}}}}, "extension_modules": "{}"}}"#,
        folder.parent().unwrap().display()
    );
    let access = with(&world, &options);
    let user = |name: &str, password: &str| {
        smol::block_on(access.authenticate(&shown("house", name, password), name))
    };
    let joe = user("joe", "of-joe").unwrap();
    assert_eq!(
        (joe.groups.as_slice(), &**joe.rules),
        (&["ops".to_owned()][..], &[Value::from("test.*")][..])
    );
    assert_eq!(
        *user("ann", "of-ann").unwrap().rules,
        [Value::from("grains.*")]
    );
    assert!(user("bob", "of-bob").unwrap().rules.is_empty());
    assert_eq!(user("joe", "wrong"), Err(Refusal::Authentication));
}
