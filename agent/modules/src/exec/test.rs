//! The `test` execution module.

use std::time::{Duration, Instant};

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, python, random};

state::exec_module! {
    /// Functions that test the connection and the loader.
    #[facts(pure = true)]
    mod test;

    /// Return True, to show that the minion responds.
    ///
    ///     salt-call test.ping
    fn ping(Ping {});

    /// Return the positional and keyword arguments.
    ///
    ///     salt-call test.arg web 80 tls=True
    fn arg(Arguments {
        *rest,
        ..kwargs
    });

    /// Return the Python types of the arguments.
    ///
    ///     salt-call test.arg_type web 80
    fn arg_type(ArgType {
        *rest,
        ..kwargs
    });

    /// Return the arguments in Python's notation.
    ///
    ///     salt-call test.arg_repr web 80
    fn arg_repr(ArgRepr {
        *rest,
        ..kwargs
    });

    /// Return the arguments without the keys that Salt adds.
    ///
    ///     salt-call test.arg_clean web 80
    fn arg_clean(ArgClean {
        *rest,
        ..kwargs
    });

    /// Return the keyword arguments.
    ///
    ///     salt-call test.kwarg port=8080
    fn kwarg(Kwarg {
        ..kwargs
    });

    /// Return a string - used for testing the connection
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt '*' test.echo 'foo bar baz quo qux'
    fn echo(Echo {
        /// The value to return.
        text: Value,
    });

    /// Return the data unchanged, to test outputters.
    ///
    ///     salt-call test.outputter '{port: 8080}'
    fn outputter(Outputter {
        /// The value to return.
        data: Value,
    });

    /// Return True.
    ///
    ///     salt-call test.true
    fn r#true(True {});

    /// Return False.
    ///
    ///     salt-call test.false
    fn r#false(False {});

    /// Return a Fibonacci number and the time in seconds that the calculation took.
    ///
    ///     salt-call test.fib 10
    fn fib(Fib {
        /// The index of the number.
        num: i64,
    });

    /// Return the steps of a Collatz sequence and the time in seconds that the calculation took.
    ///
    ///     salt-call test.collatz 6
    fn collatz(Collatz {
        /// The first number of the sequence.
        start: i64,
    });

    /// Wait for a number of seconds, then return True.
    ///
    ///     salt-call test.sleep 1
    #[facts(pure = false)]
    fn sleep(Sleep {
        /// The number of seconds.
        length: f64,
    });

    /// Wait for a random time, then return True.
    ///
    ///     salt-call test.rand_sleep max=1
    #[facts(pure = false)]
    fn rand_sleep(RandSleep {
        /// The maximum number of seconds.
        max: i64 = 60,
    });

    /// Return a hash of random data.
    ///
    ///     salt-call test.random_hash
    fn random_hash(RandomHash {
        /// Accepted and ignored.
        size: i64 = 9_999_999_999,
        /// The hash algorithm; the option `hash_type` if not given.
        hash_type: Option<String> = None,
    });

    /// The same as `test.random_hash`. This is its older name.
    ///
    ///     salt-call test.rand_str 16
    fn rand_str(RandStr {
        /// Accepted and ignored.
        size: i64 = 9_999_999_999,
        /// The hash algorithm; the option `hash_type` if not given.
        hash_type: Option<String> = None,
    });

    /// Return the options of this minion.
    ///
    ///     salt-call test.get_opts
    fn get_opts(GetOpts {});

    /// Return the options and the grains of this minion.
    ///
    ///     salt-call test.opts_pkg
    fn opts_pkg(OptsPkg {});

    /// Return the value of the option `test.foo`.
    ///
    ///     salt-call test.conf_test
    fn conf_test(ConfTest {});

    /// Return the grains.
    ///
    ///     salt-call test.attr_call
    fn attr_call(AttrCall {});

    /// Call another function.
    ///
    ///     salt-call test.cross_test file.file_exists /etc/hosts
    fn cross_test(CrossTest {
        /// The name of the function.
        func: String,
        /// The positional arguments of the function.
        args: Option<Vec<Value>> = None,
    });

    /// Call another function, and return None if it fails.
    ///
    ///     salt-call test.try cron
    fn r#try(Try {
        /// The name of the function.
        module: String,
        /// True to return the error of a function that fails.
        return_try_exception: bool = false,
        ..kwargs
    });

    /// Set the return code of the call.
    ///
    ///     salt-call test.retcode 3
    fn retcode(Retcode {
        /// The return code.
        code: i64 = 42,
    });

    /// Fail with an exception.
    ///
    ///     salt-call test.exception 'it failed'
    fn exception(Exception {
        /// The message of the exception.
        message: String = "Test Exception".into(),
    });

    /// Fail unless the value is true.
    ///
    ///     salt-call test.assertion True
    fn assertion(Assertion {
        /// The value to test.
        assertion: Value,
    });

    /// Fail with an exception of the given name and arguments.
    ///
    ///     salt-call test.raise_exception TypeError 'it failed'
    fn raise_exception(RaiseException {
        /// The name of the exception.
        name: String,
        *rest,
        ..kwargs
    });

    /// Return the name of Salt's file that implements a module on this machine, such as `aptpkg`
    /// for `pkg`.
    ///
    ///     salt-call test.provider pkg
    fn provider(Provider {
        /// The name of the module.
        module: String,
    });

    /// Return the names of the modules and of Salt's files that implement them.
    ///
    ///     salt-call test.providers
    fn providers(Providers {});

    /// Return the modules that are not loaded. There are none, because all modules are built in.
    ///
    ///     salt-call test.not_loaded
    fn not_loaded(NotLoaded {});

    /// Return the available modules and functions.
    ///
    ///     salt-call test.module_report
    fn module_report(ModuleReport {});

    /// Return the version of Salt that this program behaves as.
    ///
    ///     salt-call test.version
    fn version(Version {});

    /// Return the versions of this program.
    ///
    ///     salt-call test.versions
    fn versions(Versions {});

    /// Return the versions of this program as a dictionary.
    ///
    ///     salt-call test.versions_information
    fn versions_information(VersionsInformation {});

    /// The same as `test.versions`.
    ///
    ///     salt-call test.versions_report
    fn versions_report(VersionsReport {});

    /// This function has moved to `cmd.tty`.
    ///
    ///     salt-call test.tty tty1 'The server restarts soon.'
    fn tty(Tty {
        *rest,
        ..kwargs
    });
}

fn ping(_cx: &Exec, _args: Ping) -> Result<Value, Error> {
    Ok(true.into())
}

fn pair(args: impl Into<Value>, kwargs: impl Into<Value>) -> Value {
    Map::new().with("args", args).with("kwargs", kwargs).into()
}

fn arg(_cx: &Exec, args: Arguments) -> Result<Value, Error> {
    Ok(pair(Value::Tuple(args.rest.into()), args.kwargs))
}

fn arg_type(_cx: &Exec, args: ArgType) -> Result<Value, Error> {
    let class = |value: &Value| Value::from(format!("<class '{}'>", value.type_name()));
    let named: Map = args
        .kwargs
        .iter()
        .map(|(key, value)| (key.clone(), class(value)))
        .collect();
    Ok(pair(Value::list(args.rest.iter().map(class)), named))
}

fn arg_repr(_cx: &Exec, args: ArgRepr) -> Result<Value, Error> {
    let tuple = Value::Tuple(args.rest.into());
    Ok(pair(
        python::repr(&tuple),
        python::repr(&args.kwargs.into()),
    ))
}

fn arg_clean(_cx: &Exec, args: ArgClean) -> Result<Value, Error> {
    let mut kwargs = args.kwargs;
    kwargs.retain(|key, _| !key.as_str().is_some_and(|key| key.starts_with("__")));
    Ok(pair(args.rest, kwargs))
}

fn kwarg(_cx: &Exec, args: Kwarg) -> Result<Value, Error> {
    Ok(args.kwargs.into())
}

fn echo(_cx: &Exec, args: Echo) -> Result<Value, Error> {
    Ok(args.text)
}

fn outputter(_cx: &Exec, args: Outputter) -> Result<Value, Error> {
    Ok(args.data)
}

fn r#true(_cx: &Exec, _args: True) -> Result<Value, Error> {
    Ok(true.into())
}

fn r#false(_cx: &Exec, _args: False) -> Result<Value, Error> {
    Ok(false.into())
}

fn timed(value: Value, start: Instant) -> Value {
    Value::Tuple(vec![value, start.elapsed().as_secs_f64().into()].into())
}

fn fib(_cx: &Exec, args: Fib) -> Result<Value, Error> {
    let start = Instant::now();
    if args.num < 0 {
        return Err("Negative number is not allowed!".into());
    }
    let (mut previous, mut current) = (0_i128, 1_i128);
    for _ in 0..args.num {
        let next = previous.checked_add(current);
        (previous, current) = (
            current,
            next.ok_or("test.fib only supports numbers up to the 184th")?,
        );
    }
    Ok(timed(previous.into(), start))
}

fn collatz(_cx: &Exec, args: Collatz) -> Result<Value, Error> {
    let start = Instant::now();
    if args.start < 1 {
        return Err("test.collatz needs a start above 0".into());
    }
    // As in Python, a division returns a float, and all following numbers are floats too.
    let (mut number, mut float, mut steps) = (args.start as f64, false, Vec::new());
    while number != 1.0 {
        steps.push(if float {
            Value::Float(number)
        } else {
            Value::Int(number as i64)
        });
        if number % 2.0 == 0.0 {
            (number, float) = (number / 2.0, true);
        } else {
            number = number * 3.0 + 1.0;
        }
    }
    Ok(timed(steps.into(), start))
}

fn sleep(_cx: &Exec, args: Sleep) -> Result<Value, Error> {
    std::thread::sleep(Duration::from_secs(args.length.max(0.0) as u64));
    Ok(true.into())
}

fn rand_sleep(_cx: &Exec, args: RandSleep) -> Result<Value, Error> {
    let most = u64::try_from(args.max).unwrap_or(0);
    std::thread::sleep(Duration::from_secs(random::below(most + 1)?));
    Ok(true.into())
}

fn random_hash(cx: &Exec, args: RandomHash) -> Result<Value, Error> {
    hash(cx, args.hash_type)
}

fn rand_str(cx: &Exec, args: RandStr) -> Result<Value, Error> {
    hash(cx, args.hash_type)
}

/// Returns a random number with the length of a hash, because the hash of unknown data is random.
fn hash(cx: &Exec, hash_type: Option<String>) -> Result<Value, Error> {
    let kind = hash_type.unwrap_or_else(|| cx.opts().text("hash_type").unwrap_or("sha256").into());
    let bytes = match kind.as_str() {
        "md5" => 16,
        "sha1" => 20,
        "sha224" => 28,
        "sha256" => 32,
        "sha384" => 48,
        "sha512" => 64,
        other => return Err(Error::refused(format!("Invalid hash type: {other}"))),
    };
    Ok(python::hex(&random::vec(bytes)?).into())
}

fn get_opts(cx: &Exec, _args: GetOpts) -> Result<Value, Error> {
    Ok(cx.opts().map.clone().into())
}

fn opts_pkg(cx: &Exec, _args: OptsPkg) -> Result<Value, Error> {
    Ok(cx.opts().map.clone().with("grains", cx.grains()).into())
}

fn conf_test(cx: &Exec, _args: ConfTest) -> Result<Value, Error> {
    cx.call_internal("config.option", vec!["test.foo".into()], Map::new())
}

fn attr_call(cx: &Exec, _args: AttrCall) -> Result<Value, Error> {
    Ok(cx.grains().into())
}

fn cross_test(cx: &Exec, args: CrossTest) -> Result<Value, Error> {
    cx.call(&args.func, args.args.unwrap_or_default(), Map::new())
}

fn r#try(cx: &Exec, args: Try) -> Result<Value, Error> {
    let tried = cx.call(&args.module, Vec::new(), args.kwargs);
    Ok(tried.unwrap_or_else(|error| {
        let shown = args.return_try_exception.then(|| error.to_string());
        shown.into()
    }))
}

fn retcode(cx: &Exec, args: Retcode) -> Result<Value, Error> {
    cx.set_retcode(args.code);
    Ok(true.into())
}

fn exception(_cx: &Exec, args: Exception) -> Result<Value, Error> {
    Err(Error::refused(args.message))
}

fn assertion(_cx: &Exec, args: Assertion) -> Result<Value, Error> {
    if args.assertion.is_true() {
        Ok(Value::Null)
    } else {
        Err("AssertionError".into())
    }
}

fn raise_exception(_cx: &Exec, args: RaiseException) -> Result<Value, Error> {
    let name = args.name.rsplit('.').next().unwrap_or_default();
    let known = [
        "Error",
        "Exception",
        "Exit",
        "Interrupt",
        "Warning",
        "StopIteration",
    ];
    if !known.iter().any(|end| name.ends_with(end)) {
        log::error(format_args!("No such exception: {}", args.name));
        return Ok(false.into());
    }
    Err(Error::refused(match args.rest.as_slice() {
        [one] => one.to_text(),
        several => python::repr(&several.to_vec().into()),
    }))
}

/// The modules whose file in Salt has another name on every system.
const FILES: [(&str, &str); 8] = [
    ("cmd", "cmdmod"),
    ("group", "groupadd"),
    ("mine", "mine"),
    ("pip", "pip"),
    ("shadow", "linux_shadow"),
    ("sys", "sysmod"),
    ("sysctl", "linux_sysctl"),
    ("user", "useradd"),
];

fn provider(cx: &Exec, args: Provider) -> Result<Value, Error> {
    let modules = cx.shared.registry.functions;
    let known = modules.iter().any(|module| module.name == args.module);
    Ok(if known {
        file_of(cx, &args.module)
    } else {
        String::new()
    }
    .into())
}

/// Returns the name of Salt's file that implements a module on this system.
fn file_of(cx: &Exec, module: &str) -> String {
    let grains = cx.grains();
    let grain = |name: &str| grains.get(name).map(Value::to_text).unwrap_or_default();
    let named = (module == "pkg").then(|| cx.provider("pkg")).flatten();
    if let Some(named) = named {
        return named;
    }
    let file = match module {
        "pkg" => match grain("os_family").as_str() {
            "Debian" => "aptpkg",
            "RedHat" => "yumpkg",
            "Suse" => "zypperpkg",
            "Alpine" => "apkpkg",
            "Arch" => "pacmanpkg",
            _ => module,
        },
        "service" => crate::exec::service::providers::find(cx, "start")
            .map_or(module, |provider| provider.name()),
        _ => FILES
            .iter()
            .find(|(name, _)| *name == module)
            .map_or(module, |(_, file)| file),
    };
    file.to_owned()
}

fn providers(cx: &Exec, _args: Providers) -> Result<Value, Error> {
    let modules = cx.shared.registry.functions.iter();
    Ok(modules
        .map(|module| (file_of(cx, module.name), module.name))
        .collect())
}

fn not_loaded(_cx: &Exec, _args: NotLoaded) -> Result<Value, Error> {
    Ok(Value::list([]))
}

fn module_report(cx: &Exec, _args: ModuleReport) -> Result<Value, Error> {
    let modules = cx.shared.registry.functions;
    let functions = modules.iter().flat_map(|module| {
        module
            .functions
            .iter()
            .map(move |f| format!("{}.{}", module.name, f.name))
    });
    let functions = Value::list(functions.map(Value::from));
    let mut names: Vec<&str> = modules.iter().map(|module| module.name).collect();
    names.dedup();
    Ok(Map::new()
        .with("functions", functions.clone())
        .with("function_attrs", functions.clone())
        .with("function_subs", functions)
        .with("modules", names.clone())
        .with("module_attrs", names)
        .with("missing_attrs", Value::list([]))
        .with("missing_subs", Value::list([]))
        .into())
}

/// Returns the version of Salt that this program behaves as, which the grain `saltversion`
/// contains.
pub(super) fn salt_version(cx: &Exec) -> String {
    let own = || env!("CARGO_PKG_VERSION").to_owned();
    cx.grains()
        .get("saltversion")
        .map_or_else(own, Value::to_text)
}

fn version(cx: &Exec, _args: Version) -> Result<Value, Error> {
    Ok(salt_version(cx).into())
}

fn report(cx: &Exec) -> Value {
    let (salt, own) = (salt_version(cx), env!("CARGO_PKG_VERSION"));
    format!("Salt Version:\n          Salt: {salt}\n \nPinch Version:\n         Pinch: {own}\n")
        .into()
}

fn versions(cx: &Exec, _args: Versions) -> Result<Value, Error> {
    Ok(report(cx))
}

fn versions_information(cx: &Exec, _args: VersionsInformation) -> Result<Value, Error> {
    let own = Map::new().with("Pinch", env!("CARGO_PKG_VERSION"));
    Ok(Map::new()
        .with("Salt Version", Map::new().with("Salt", salt_version(cx)))
        .with("Pinch Version", own)
        .into())
}

fn versions_report(cx: &Exec, _args: VersionsReport) -> Result<Value, Error> {
    Ok(report(cx))
}

fn tty(_cx: &Exec, _args: Tty) -> Result<Value, Error> {
    Ok("ERROR: This function has been moved to cmd.tty".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::exec;

    #[test]
    fn the_versions_are_salts_and_our_own() {
        let found = exec()
            .call("test.versions_information", Vec::new(), Map::new())
            .unwrap();
        for path in ["Salt Version:Salt", "Pinch Version:Pinch"] {
            assert!(found.traverse(path, ":").is_some_and(|one| one.is_true()));
        }
    }

    #[test]
    fn what_was_given_comes_back() {
        let cx = exec();
        let call = |function: &str| {
            let kwargs = Map::new().with("a", true).with("__pub_jid", "1");
            python::repr(
                &cx.call(function, vec![1.into(), "x".into()], kwargs)
                    .unwrap(),
            )
        };
        assert_eq!(
            call("test.arg_clean"),
            "{'args': [1, 'x'], 'kwargs': {'a': True}}"
        );
        assert_eq!(
            call("test.arg_repr"),
            r#"{'args': "(1, 'x')", 'kwargs': "{'a': True, '__pub_jid': '1'}"}"#
        );
        assert!(
            call("test.arg_type").starts_with("{'args': [\"<class 'int'>\", \"<class 'str'>\"]")
        );
    }

    #[test]
    fn sequences_are_pythons() {
        let first = |function: &str, n: i32| {
            let pair = exec().call(function, vec![n.into()], Map::new()).unwrap();
            python::repr(pair.as_list().unwrap().first().unwrap())
        };
        assert_eq!(first("test.fib", 10), "55");
        assert_eq!(first("test.fib", 100), "354224848179261915075");
        assert_eq!(
            first("test.collatz", 3),
            "[3, 10, 5.0, 16.0, 8.0, 4.0, 2.0]"
        );
    }

    #[test]
    fn a_failure_is_told_and_may_be_caught() {
        let cx = exec();
        let error = cx
            .call("test.exception", vec!["boo".into()], Map::new())
            .unwrap_err();
        assert_eq!(error.to_string(), "boo");
        assert_eq!(
            cx.call("test.try", vec!["test.exception".into()], Map::new())
                .unwrap(),
            Value::Null
        );
        cx.call("test.retcode", vec![], Map::new()).unwrap();
        assert_eq!(cx.retcode(), 42);
    }
}
