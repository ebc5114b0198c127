//! Writes man pages.

mod files;
mod markdown;

pub(super) use files::{configuration, language};

use cli::binary::Binary;
use cli::options::{Flag, Program, SALT_RUN, Takes};

const EXIT: &str = "\
.SH EXIT STATUS
.TP
.B 0
success
.TP
.B 1
a state or a step failed, an SLS does not compile, a call failed, or the configuration cannot be read
.TP
.B 64
wrong command line
";

const EXIT_OF_A_CALL: &str = "\
.TP
.B 2
a state failed, with
.B \\-\\-retcode\\-passthrough
.TP
.B 5
the pillar does not render, with
.B \\-\\-retcode\\-passthrough
.TP
.B 255
unknown function
";

const FUNCTIONS: &str = "\
The function
.B sys.list_functions
lists all functions, and
.B sys.doc
shows their documentation.
";

/// Returns the man page of an applet.
pub(super) fn applet(binary: &Binary, applet: &Program) -> String {
    let own = escaped(binary.name);
    let name = format!("{}-{}", binary.name, applet.name);
    let mut page = head((&name, 1), &applet.brief());
    page.push_str(&format!(
        ".SH SYNOPSIS\n.B {name}\n{usage}\n.br\n.B {own} {name}\n{usage}\n",
        name = escaped(applet.name),
        usage = escaped(applet.usage)
    ));
    page.push_str(&format!(
        ".SH DESCRIPTION\n.B {}\nis an applet of\n.BR {own} (1).\n{}\n",
        escaped(applet.name),
        escaped(applet.about)
    ));
    // `salt-run` has other functions than these: runners.
    if applet.usage.contains("<function>") && *applet != SALT_RUN {
        page.push_str(FUNCTIONS);
    }
    let mut title = "";
    for group in applet.groups {
        if group.title != title {
            title = group.title;
            page.push_str(&format!(".SH {}\n", title.to_uppercase()));
        }
        for flag in group.flags {
            page.push_str(&format!(".TP\n{}\n{}\n", names(flag), escaped(flag.help)));
        }
    }
    page.push_str(&files(binary));
    page.push_str(EXIT);
    if applet
        .flags()
        .any(|flag| flag.dest == "retcode_passthrough")
    {
        page.push_str(EXIT_OF_A_CALL);
    }
    page + &format!(".SH SEE ALSO\n.BR {own} (1)\n")
}

/// Returns the man page of a binary itself.
pub(super) fn binary(binary: &Binary) -> String {
    let own = escaped(binary.name);
    let mut page = head((binary.name, 1), binary.about);
    page.push_str(&format!(".SH SYNOPSIS\n.B {own}\n.I APPLET\n[arguments]\n"));
    for command in binary.commands {
        let (word, usage) = (escaped(command.word()), escaped(command.usage));
        page.push_str(&format!(".br\n.B {own} {word}\n{usage}\n"));
    }
    page.push_str(&format!(
        ".SH DESCRIPTION\n{} To run an applet, call the program through a link with the applet's name, or with that name as the first argument.\n.SH APPLETS\n",
        escaped(binary.description)
    ));
    for applet in binary.applets {
        let (name, about) = (escaped(applet.name), escaped(applet.about));
        page.push_str(&format!(
            ".TP\n.B {name}\n{about} See\n.BR {own}\\-{name} (1).\n"
        ));
    }
    page.push_str(".SH OPTIONS\n");
    for flag in binary.options() {
        page.push_str(&format!(".TP\n{}\n{}\n", names(flag), escaped(flag.help)));
    }
    page.push_str(".SH COMMANDS\n");
    for table in binary.commands {
        page.push_str(&command(table));
    }
    page + &files(binary)
}

/// Returns the part about a command.
fn command(table: &Program) -> String {
    let (name, usage) = (escaped(table.name), escaped(table.usage));
    let mut part = format!(".SS {name} {usage}\n{}\n", escaped(table.about));
    for flag in table.flags() {
        part.push_str(&format!(".TP\n{}\n{}\n", names(flag), escaped(flag.help)));
    }
    part
}

fn files(binary: &Binary) -> String {
    let entries = binary
        .files
        .iter()
        .map(|(path, about)| format!(".TP\n.I {}\n{about}\n", escaped(path)));
    format!(".SH FILES\n{}", entries.collect::<String>())
}

/// Returns the beginning of the page with this name in this section of the manual.
fn head((name, section): (&str, u8), about: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let manual = match section {
        1 => "User Commands",
        5 => "File Formats",
        _ => "Miscellaneous",
    };
    format!(
        ".TH {} {section} \"\" \"Pinch {version}\" \"{manual}\"\n.SH NAME\n{} \\- {}\n",
        escaped(&name.to_uppercase()),
        escaped(name),
        escaped(about)
    )
}

/// Returns an option's names, such as `-c DIR, --config-dir=DIR`, with the options in bold and
/// their values in italics.
fn names(flag: &Flag) -> String {
    let takes = match flag.takes {
        Takes::Nothing => None,
        Takes::Text(name)
        | Takes::Many(name)
        | Takes::Number(name)
        | Takes::Float(name)
        | Takes::Choice(name, _) => Some(escaped(name)),
    };
    let with = |name: String, between: &str| match &takes {
        Some(takes) => format!("\\fB{}\\fR{between}\\fI{takes}\\fR", escaped(&name)),
        None => format!("\\fB{}\\fR", escaped(&name)),
    };
    let short = flag.short.map(|short| with(format!("-{short}"), " "));
    let long = flag.long.iter().map(|long| with(format!("--{long}"), "="));
    short.into_iter().chain(long).collect::<Vec<_>>().join(", ")
}

/// Returns text escaped so that roff prints it unchanged.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}
