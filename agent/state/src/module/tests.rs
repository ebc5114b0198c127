use super::*;
use value::json;

crate::argument_group! {
    /// The server.
    pub(crate) struct Server {
        /// The host.
        host: String = "here".into(),
        #[group] login: Login,
    }
}

crate::argument_group! {
    /// The user.
    #[derive(PartialEq, Eq)]
    pub(crate) struct Login {
        /// The user.
        user: String,
        /// The password.
        r#type: Option<i64> = None,
    }
}

crate::argument_group! {
    /// The options.
    pub(crate) struct Options(Map) {
        /// The mode.
        mode: Value = Value::Null,
        /// The depth.
        depth: Value = 1.into(),
    }
}

crate::exec_module! {
    /// A module.
    mod grouped;

    /// A function.
    fn connect(Connect {
        /// The name.
        name: String,
        #[group] server: Server,
        #[group] options: Options,
        /// The last.
        last: bool = false,
        ..kwargs
    });
}

fn connect(_cx: &Exec, args: Connect) -> Result<Value, Error> {
    let login = &args.server.login;
    let words = [
        args.name.into(),
        args.server.host.as_str().into(),
        login.user.as_str().into(),
        login.r#type.into(),
        args.options.0.into(),
        args.last.into(),
        args.kwargs.into(),
    ];
    Ok(Value::list(words))
}

fn called(args: &str, kwargs: &str) -> Result<String, Error> {
    let (args, kwargs) = (json::read(args).unwrap(), json::read(kwargs).unwrap());
    let args = args.as_list().unwrap().to_vec();
    let given = Arguments::new(args, kwargs.as_map().unwrap().clone());
    let function = MODULE.function("connect").unwrap();
    let answer = function.invoke(
        "grouped.connect",
        &crate::run::tests_support::exec(Map::new()),
        given,
    );
    answer.map(|answer| value::python::repr(&answer))
}

#[test]
fn a_group_stands_for_its_arguments() {
    let args = MODULE.function("connect").unwrap().args;
    let shown = args.iter().map(|arg| {
        let default = arg.default.map(|default| default().to_text());
        (arg.name, arg.doc.trim_end(), default)
    });
    let none = || Some("None".to_owned());
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        Vec::from_iter(shown),
        [
            ("name", " The name.", None),
            ("host", " The host.", text("here")),
            ("user", " The user.", None),
            ("type", " The password.", none()),
            ("mode", " The mode.", none()),
            ("depth", " The depth.", text("1")),
            ("last", " The last.", text("False")),
        ]
    );
}

#[test]
fn a_group_is_given_by_position_and_by_name() {
    assert_eq!(
        called(r#"["a", "h", "u", 5, "m", 2, true]"#, r#"{"x": 1}"#).unwrap(),
        "['a', 'h', 'u', 5, {'mode': 'm', 'depth': 2}, True, {'x': 1}]"
    );
    assert_eq!(
        called(r#"["a"]"#, r#"{"user": "u", "type": "7"}"#).unwrap(),
        "['a', 'here', 'u', 7, {'depth': 1}, False, {}]"
    );
    let error = |args, kwargs| called(args, kwargs).unwrap_err().to_string();
    assert_eq!(error(r#"["a"]"#, "{}"), "Missing parameter user");
    assert_eq!(
        error(r#"["a", "h"]"#, r#"{"host": "i", "user": "u"}"#),
        "grouped.connect got multiple values for argument 'host'"
    );
    assert!(error(r#"["a", "h", "u", "x"]"#, "{}").starts_with("type: "));
}

#[test]
fn a_group_is_taken_from_keywords() {
    let kwargs = Map::new().with("user", "me").with("more", 1);
    let (login, rest) = Arguments::group_from::<Login>(kwargs).unwrap();
    assert_eq!(login.user, "me");
    assert_eq!(rest, Map::new().with("more", 1));
    assert!(Arguments::group_from::<Login>(Map::new()).is_err());
}
