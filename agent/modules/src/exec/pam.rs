//! The `pam` execution module.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

state::exec_module! {
    /// The files of PAM.
    mod pam;

    /// Return the rules of a file of PAM; False where it is not there.
    fn read_file(ReadFile {
        /// The file.
        file_name: String,
    });
}

/// A line of a file: interface, control, module, arguments. What another file has is taken in by `@include` and its name.
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
    let Some(text) = crate::fs::text_or_none(&path)? else {
        log::error(format_args!("File \"{path}\" does not exist"));
        return Ok(false.into());
    };
    Ok(text.lines().filter_map(rule).collect::<Vec<_>>().into())
}
