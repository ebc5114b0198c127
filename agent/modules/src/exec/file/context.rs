//! SELinux contexts of files.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::disk::run;

state::exec_module! {
    /// Manage the SELinux contexts of files.
    mod file;

    /// Return the SELinux context of a file.
    ///
    ///     salt-call file.get_selinux_context /srv/www
    fn get_selinux_context(GetSelinuxContext {
        /// The path of the file.
        path: String,
    });

    /// Change the SELinux context of a file, and return the new context. Return False if no part of
    /// the context is given or the change fails.
    ///
    ///     salt-call file.set_selinux_context /srv/www type=httpd_sys_content_t
    fn set_selinux_context(SetSelinuxContext {
        /// The path of the file.
        path: String,
        /// The SELinux user.
        user: Option<String> = None,
        /// The SELinux role.
        role: Option<String> = None,
        /// The SELinux type.
        r#type: Option<String> = None,
        /// The SELinux range.
        range: Option<String> = None,
        /// True to add the context to the policy, so that it persists.
        persist: bool = false,
    });

    /// Reset the SELinux context of a file to the one in the policy.
    ///
    ///     salt-call file.restorecon /srv/www recursive=True
    fn restorecon(Restorecon {
        /// The path of the file.
        path: String,
        /// True to reset everything in a folder, too.
        recursive: bool = false,
    });
}

fn context(cx: &Exec, path: &str) -> Result<Value, Error> {
    let done = run(cx, &["stat", "-c", "%C", "--", path])?;
    Ok(if done.success() {
        done.into_stdout_regardless().into()
    } else {
        format!("No selinux context information is available for {path}").into()
    })
}

fn get_selinux_context(cx: &Exec, args: GetSelinuxContext) -> Result<Value, Error> {
    context(cx, &args.path)
}

/// Adds the context of a file to the policy.
fn keep(cx: &Exec, args: &SetSelinuxContext) -> Result<(), Error> {
    let labels = Map::new()
        .with("sel_type", args.r#type.clone())
        .with("sel_user", args.user.clone())
        .with("sel_level", args.range.clone());
    let path = vec![args.path.as_str().into()];
    let done = cx.call_internal("selinux.fcontext_add_policy", path, labels)?;
    match done.get("retcode").and_then(Value::as_int) {
        Some(0) => Ok(()),
        _ => Err(format!("Problem setting fcontext: {}", value::python::repr(&done)).into()),
    }
}

fn set_selinux_context(cx: &Exec, args: SetSelinuxContext) -> Result<Value, Error> {
    let mut words = vec!["chcon"];
    for (letter, value) in [
        ("-u", &args.user),
        ("-r", &args.role),
        ("-t", &args.r#type),
        ("-l", &args.range),
    ] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            words.extend([letter, value]);
        }
    }
    if words.len() == 1 {
        return Ok(false.into());
    }
    if args.persist {
        keep(cx, &args)?;
    }
    words.extend(["--", &args.path]);
    let done = run(cx, &words)?;
    if done.success() {
        return context(cx, &args.path);
    }
    value::log::error(&done.stderr);
    Ok(false.into())
}

fn restorecon(cx: &Exec, args: Restorecon) -> Result<Value, Error> {
    let letters = if args.recursive { "-FR" } else { "-F" };
    let done = run(cx, &["restorecon", letters, "--", &args.path])?;
    Ok(done.success().into())
}
