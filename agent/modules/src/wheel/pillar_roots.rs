//! The `pillar_roots` wheel module.

use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::roots;

/// The option that names this module's folders.
const OPTION: &str = "pillar_roots";

state::exec_module! {
    /// Manage the files below `pillar_roots`.
    mod pillar_roots;

    /// Return the places of a file in the roots, and whether it is text.
    ///
    ///     salt-run state.orchestrate_single salt.wheel pillar_roots.find path=shop.sls
    fn find(Find {
        /// The path below the roots.
        path: String,
        /// The environment.
        saltenv: String = "base".into(),
    });

    /// Return the folders and files of an environment.
    ///
    ///     salt-run state.orchestrate_single salt.wheel pillar_roots.list_env
    fn list_env(ListEnv {
        /// The environment.
        saltenv: String = "base".into(),
    });

    /// Return the folders and files of every environment.
    ///
    ///     salt-run state.orchestrate_single salt.wheel pillar_roots.list_roots
    fn list_roots(ListRoots {});

    /// Return the text of a file in each root that has it.
    ///
    ///     salt-run state.orchestrate_single salt.wheel pillar_roots.read path=shop.sls
    fn read(Read {
        /// The path below the roots.
        path: String,
        /// The environment.
        saltenv: String = "base".into(),
    });

    /// Write a file.
    ///
    ///     salt-run state.orchestrate_single salt.wheel pillar_roots.write data='port: 8080' path=shop.sls
    fn write(Write {
        /// The text of the file.
        data: String,
        /// The path below the root.
        path: String,
        /// The environment.
        saltenv: String = "base".into(),
        /// The index of the root among the environment's roots, starting at 0.
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
