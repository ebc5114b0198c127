//! The `pam` execution module.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

state::exec_module! {
    /// Read the configuration files of PAM.
    mod pam;

    /// Return the rules of a PAM file, or False if it does not exist.
    ///
    ///     salt-call pam.read_file /etc/pam.d/login
    fn read_file(ReadFile {
        /// The path of the file.
        file_name: String,
    });
}

/// Parses a line of a PAM file into interface, control flag, module and arguments. Returns `None`
/// for comments and empty lines. A line `@include NAME` names another file.
fn rule(line: &str) -> Option<Map> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (interface, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim_start();
    let (control, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or((rest, "")),
        None if interface == "@include" => ("", rest),
        None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
    };
    let control: Vec<&str> = control.split_whitespace().collect();
    let mut words = rest.split_whitespace();
    let module = words.next().unwrap_or_default();
    Some(
        Map::new()
            .with("interface", interface)
            .with("control_flag", control.join(" "))
            .with("module", module)
            .with("arguments", words.collect::<Vec<_>>()),
    )
}

fn read_file(_cx: &Exec, args: ReadFile) -> Result<Value, Error> {
    let path = args.file_name;
    let Some(text) = machine::fs::text_or_none(&path)? else {
        log::error(format_args!("File \"{path}\" does not exist"));
        return Ok(false.into());
    };
    Ok(text.lines().filter_map(rule).collect::<Vec<_>>().into())
}
