//! The `ini` execution module.

pub(crate) mod document;
pub(crate) mod file;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use file::{File, Layout};

state::exec_module! {
    /// Read and edit INI files.
    mod ini;

    /// Set options of sections in a file, and return what changed.
    ///
    ///     salt-call ini.set_option /etc/app.ini '{server: {port: 8080}}'
    fn set_option(SetOption {
        /// The path of the file.
        file_name: String,
        /// The sections with their options, or options that come before all sections.
        sections: Option<Map> = None,
        /// The text between an option and its value.
        separator: String = "=".into(),
        /// The encoding of the file.
        encoding: Option<String> = None,
        /// Whether to write the separator without spaces around it.
        no_spaces: bool = false,
    });

    /// Return the value of an option, or None if it does not exist.
    ///
    ///     salt-call ini.get_option /etc/app.ini server port
    fn get_option(GetOption {
        /// The path of the file.
        file_name: String,
        /// The section, or None for the options before all sections.
        section: Option<String>,
        /// The option.
        option: String,
        /// The text between an option and its value.
        separator: String = "=".into(),
        /// The encoding of the file.
        encoding: Option<String> = None,
    });

    /// Remove an option and return the value that it had.
    ///
    ///     salt-call ini.remove_option /etc/app.ini server port
    fn remove_option(RemoveOption {
        /// The path of the file.
        file_name: String,
        /// The section, or None for the options before all sections.
        section: Option<String>,
        /// The option.
        option: String,
        /// The text between an option and its value.
        separator: String = "=".into(),
        /// The encoding of the file.
        encoding: Option<String> = None,
    });

    /// Return the options of a section.
    ///
    ///     salt-call ini.get_section /etc/app.ini server
    fn get_section(GetSection {
        /// The path of the file.
        file_name: String,
        /// The section.
        section: String,
        /// The text between an option and its value.
        separator: String = "=".into(),
        /// The encoding of the file.
        encoding: Option<String> = None,
    });

    /// Remove a section and return the options that it had.
    ///
    ///     salt-call ini.remove_section /etc/app.ini server
    fn remove_section(RemoveSection {
        /// The path of the file.
        file_name: String,
        /// The section.
        section: String,
        /// The text between an option and its value.
        separator: String = "=".into(),
        /// The encoding of the file.
        encoding: Option<String> = None,
    });

    /// Return all sections and options of a file.
    ///
    ///     salt-call ini.get_ini /etc/app.ini
    fn get_ini(GetIni {
        /// The path of the file.
        file_name: String,
        /// The text between an option and its value.
        separator: String = "=".into(),
        /// The encoding of the file.
        encoding: Option<String> = None,
    });
}

fn layout(separator: String, encoding: Option<String>) -> Layout {
    Layout {
        separator,
        encoding,
        no_spaces: false,
    }
}

fn set_option(cx: &Exec, args: SetOption) -> Result<Value, Error> {
    let layout = Layout {
        no_spaces: args.no_spaces,
        ..layout(args.separator, args.encoding)
    };
    let mut file = File::read(&args.file_name, &layout)?;
    let changes = file.contents.update(&args.sections.unwrap_or_default())?;
    file.write(cx)?;
    Ok(changes.into())
}

fn get_option(_cx: &Exec, args: GetOption) -> Result<Value, Error> {
    let layout = layout(args.separator, args.encoding);
    let file = File::read(&args.file_name, &layout)?;
    let section = args.section.unwrap_or_default();
    let value = if section.is_empty() {
        file.contents.get(&args.option)
    } else {
        let section = file.contents.section(&section);
        section.and_then(|section| section.get(&args.option))
    };
    Ok(value.into())
}

fn remove_option(cx: &Exec, args: RemoveOption) -> Result<Value, Error> {
    let layout = layout(args.separator, args.encoding);
    let mut file = File::read(&args.file_name, &layout)?;
    let section = args.section.unwrap_or_default();
    let value = file.contents.remove_option(&section, &args.option);
    if file.existed() {
        file.write(cx)?;
    }
    Ok(value.into())
}

fn get_section(_cx: &Exec, args: GetSection) -> Result<Value, Error> {
    let layout = layout(args.separator, args.encoding);
    let file = File::read(&args.file_name, &layout)?;
    let section = file.contents.section(&args.section);
    Ok(section
        .map(|section| section.plain())
        .unwrap_or_default()
        .into())
}

fn remove_section(cx: &Exec, args: RemoveSection) -> Result<Value, Error> {
    let layout = layout(args.separator, args.encoding);
    let mut file = File::read(&args.file_name, &layout)?;
    let Some(section) = file.contents.section(&args.section) else {
        return Ok(Value::Null);
    };
    let had = section.plain();
    file.contents.remove(&args.section);
    file.write(cx)?;
    Ok(had.into())
}

fn get_ini(_cx: &Exec, args: GetIni) -> Result<Value, Error> {
    let layout = layout(args.separator, args.encoding);
    let file = File::read(&args.file_name, &layout)?;
    Ok(file.contents.plain().into())
}
