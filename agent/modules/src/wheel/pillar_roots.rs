//! The `pillar_roots` wheel module.

use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::roots;

/// The option whose folders this module looks at.
const OPTION: &str = "pillar_roots";

state::exec_module! {
    /// The files below `pillar_roots`.
    mod pillar_roots;

    /// Where a path is found, and whether it is text.
    fn find(Find {
        /// A path below the roots.
        path: String,
        /// The environment.
        saltenv: String = "base".into(),
    });

    /// The folders and files of an environment.
    fn list_env(ListEnv {
        /// The environment.
        saltenv: String = "base".into(),
    });

    /// The folders and files of every environment.
    fn list_roots(ListRoots {});

    /// The text of the files that a path names.
    fn read(Read {
        /// A path below the roots.
        path: String,
        /// The environment.
        saltenv: String = "base".into(),
    });

    /// Write a file.
    fn write(Write {
        /// Its text.
        data: String,
        /// A path below the root.
        path: String,
        /// The environment.
        saltenv: String = "base".into(),
        /// Which of the environment's roots, from 0.
        index: i64 = 0,
    });
}

fn find(cx: &Exec, args: Find) -> Result<Value, Error> {
    roots::found(cx, OPTION, &args.path, &args.saltenv)
}

fn list_env(cx: &Exec, args: ListEnv) -> Result<Value, Error> {
    roots::list_env(cx, OPTION, &args.saltenv)
}

fn list_roots(cx: &Exec, _args: ListRoots) -> Result<Value, Error> {
    roots::list_roots(cx, OPTION)
}

fn read(cx: &Exec, args: Read) -> Result<Value, Error> {
    roots::read(cx, OPTION, &args.path, &args.saltenv)
}

fn write(cx: &Exec, args: Write) -> Result<Value, Error> {
    roots::write(
        cx,
        OPTION,
        &args.data,
        &args.path,
        &args.saltenv,
        args.index,
    )
}
