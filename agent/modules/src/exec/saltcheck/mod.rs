//! The `saltcheck` execution module: tests of states, in the files `saltcheck-tests/*.tst` of the
//! tree.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

mod assertion;
mod report;
mod suite;
mod test_case;

use suite::Suite;

state::exec_module! {
    /// Test the results of states with assertions about the returns of execution functions. The
    /// tests are dictionaries in the files `*.tst` of a folder `saltcheck-tests` next to the SLS
    /// files; the option `saltcheck_test_location` sets another name of this folder.
    mod saltcheck;

    /// Run one test and return its result.
    ///
    ///     salt-call saltcheck.run_test test='{module_and_function: test.echo, args: [hello], assertion: assertEqual, expected_return: hello}'
    fn run_test(RunTest { ..kwargs });

    /// Apply states like `state.apply`, to prepare tests or to clean up after them.
    ///
    ///     salt-call saltcheck.state_apply nginx
    fn state_apply(StateApply {
        /// The names of the SLS files: a list, or a text with commas.
        state_name: Value,
        ..kwargs
    });

    /// Return which SLS files of the highstate have no tests. The exit code is the number of these
    /// SLS files.
    ///
    ///     salt-call saltcheck.report_highstate_tests
    fn report_highstate_tests(ReportHighstateTests {
        /// The environment of the SLS files.
        saltenv: Option<String> = None,
    });

    /// Run the tests of SLS files and of the SLS files that they include. The exit code is 1 if a
    /// test fails.
    ///
    ///     salt-call saltcheck.run_state_tests nginx,app
    fn run_state_tests(RunStateTests {
        /// The names of the SLS files or of files with tests: a list, or a text with commas.
        state: Value,
        /// The environment of the SLS files.
        saltenv: Option<String> = None,
        /// True to run all tests of the folders with tests of these SLS files.
        check_all: bool = false,
        /// True to return only tests that failed.
        only_fails: bool = false,
        /// True to return the results as a JUnit document in XML.
        junit: bool = false,
    });

    /// Run the tests of SLS files, like `run_state_tests`.
    ///
    ///     salt-call saltcheck.run_state_tests_ssh nginx
    fn run_state_tests_ssh(RunStateTestsSsh {
        /// The names of the SLS files or of files with tests: a list, or a text with commas.
        state: Value,
        /// The environment of the SLS files.
        saltenv: Option<String> = None,
        /// True to run all tests of the folders with tests of these SLS files.
        check_all: bool = false,
        /// True to return only tests that failed.
        only_fails: bool = false,
        /// True to return the results as a JUnit document in XML.
        junit: bool = false,
    });

    /// Run the tests of all SLS files that the top files assign to this minion. The exit code is 1
    /// if a test fails.
    ///
    ///     salt-call saltcheck.run_highstate_tests
    fn run_highstate_tests(RunHighstateTests {
        /// The environment of the SLS files.
        saltenv: Option<String> = None,
        /// True to return only tests that failed.
        only_fails: bool = false,
        /// True to return the results as a JUnit document in XML.
        junit: bool = false,
    });
}

fn run_test(cx: &Exec, args: RunTest) -> Result<Value, Error> {
    match args.kwargs.get("test") {
        Some(Value::Map(test)) if !test.is_empty() => test_case::run(cx, test),
        _ => Ok("Test argument must be a dictionary".into()),
    }
}

fn state_apply(cx: &Exec, args: StateApply) -> Result<Value, Error> {
    cx.call_internal("state.apply", vec![args.state_name], args.kwargs)
}

/// Returns the environment of the SLS files: the given one, or that of the configuration.
fn environment(cx: &Exec, given: Option<String>) -> String {
    let given = given.filter(|saltenv| !saltenv.is_empty());
    given.unwrap_or_else(|| match cx.opts().saltenv() {
        "" => "base".to_owned(),
        own => own.to_owned(),
    })
}

/// Returns the SLS files that the top files assign to this minion.
fn of_highstate(cx: &Exec, saltenv: &str) -> Result<Vec<String>, Error> {
    let kwargs = Map::new().with("saltenv", saltenv);
    let top = cx.call_internal("state.show_top", Vec::new(), kwargs)?;
    match &top {
        Value::Map(assigned) => Ok(assigned.get(saltenv).map(Value::texts).unwrap_or_default()),
        faults => Err(Error::refused(faults.texts().join("\n"))),
    }
}

fn report_highstate_tests(cx: &Exec, args: ReportHighstateTests) -> Result<Value, Error> {
    let saltenv = environment(cx, args.saltenv);
    let mut suite = Suite::new(cx, &saltenv)?;
    let mut missing = Vec::new();
    for sls in of_highstate(cx, &saltenv)? {
        suite.add(cx, &sls, false)?;
        if !suite.found.contains(&sls) {
            missing.push(sls);
        }
    }
    cx.set_retcode(i64::try_from(missing.len()).unwrap_or(i64::MAX));
    let results = Map::new()
        .with("Missing Tests", missing.len())
        .with("States missing tests", missing)
        .with("States with tests", suite.found);
    Ok(Map::new().with("TEST REPORT RESULTS", results).into())
}

fn run_state_tests(cx: &Exec, args: RunStateTests) -> Result<Value, Error> {
    let saltenv = environment(cx, args.saltenv);
    let mut suite = Suite::new(cx, &saltenv)?;
    let mut results = Map::new();
    for sls in args.state.split_input() {
        suite.add(cx, &sls, args.check_all)?;
        let mut own = Map::new();
        for (id, test) in suite.load(cx)?.iter() {
            own.insert(id.clone(), test_case::run_or_fail(cx, test)?);
        }
        // The tests of an SLS that is named twice are run once.
        if !results.get(&sls).is_some_and(Value::is_true) {
            results.insert(sls, own);
        }
    }
    let has_failed = report::counts(&results).failed > 0;
    cx.set_retcode(i64::from(has_failed));
    Ok(match args.junit {
        true => report::junit(&results).into(),
        false => report::list(results, args.only_fails),
    })
}

fn run_state_tests_ssh(cx: &Exec, args: RunStateTestsSsh) -> Result<Value, Error> {
    let args = RunStateTests {
        state: args.state,
        saltenv: args.saltenv,
        check_all: args.check_all,
        only_fails: args.only_fails,
        junit: args.junit,
    };
    run_state_tests(cx, args)
}

fn run_highstate_tests(cx: &Exec, args: RunHighstateTests) -> Result<Value, Error> {
    let saltenv = environment(cx, args.saltenv);
    let args = RunStateTests {
        state: of_highstate(cx, &saltenv)?.into(),
        saltenv: Some(saltenv),
        check_all: false,
        only_fails: args.only_fails,
        junit: args.junit,
    };
    run_state_tests(cx, args)
}
