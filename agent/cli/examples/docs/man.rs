//! Man pages.

use cli::options::{APPLETS, COMMANDS, Flag, Program, Takes};

const FILES: &str = "\
.SH FILES
.TP
.I /etc/salt/minion, /etc/salt/minion.d/*.conf
the configuration
.TP
.I /srv/salt, /srv/pillar
the state tree and the pillar, where the configuration names no others
";

const EXIT: &str = "\
.SH EXIT STATUS
.TP
.B 0
everything went well
.TP
.B 1
a state or a step failed, an SLS does not compile, a call failed, or the configuration cannot be read
.TP
.B 2
a state failed, with
.B \\-\\-retcode\\-passthrough
.TP
.B 5
the pillar does not render, with
.B \\-\\-retcode\\-passthrough
.TP
.B 64
the command line is wrong
.TP
.B 255
there is no such function
";

/// The page of an applet.
pub(super) fn applet(applet: &Program) -> String {
    let mut page = head(&format!("pinch-{}", applet.name), &applet.brief());
    page.push_str(&format!(
        ".SH SYNOPSIS\n.B {name}\n{usage}\n.br\n.B pinch {name}\n{usage}\n",
        name = escaped(applet.name),
        usage = escaped(applet.usage)
    ));
    page.push_str(&format!(
        ".SH DESCRIPTION\n.B {}\nis an applet of\n.BR pinch (1).\n{} \
         The function\n.B sys.list_functions\ntells which there are, and\n.B sys.doc\nexplains each.\n",
        escaped(applet.name),
        escaped(applet.about)
    ));
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
    page + FILES + EXIT + ".SH SEE ALSO\n.BR pinch (1)\n"
}

/// The page of `pinch` itself.
pub(super) fn pinch() -> String {
    let mut page = head("pinch", "Salt's states and commands for small machines");
    page.push_str(".SH SYNOPSIS\n.B pinch\n.I APPLET\n[arguments]\n");
    for command in COMMANDS.iter().filter(|command| !command.takes.is_empty()) {
        let (word, takes) = (escaped(command.word), command.takes);
        page.push_str(&format!(".br\n.B pinch {word}\n.I {takes}\n"));
    }
    page.push_str(
        ".SH DESCRIPTION\nOne program that runs Salt's SLS trees, pillars and orchestrations on a machine without a master. \
         It is called by an applet's name, through a link, or with that name as its first word.\n.SH APPLETS\n",
    );
    for applet in APPLETS {
        let (name, about) = (escaped(applet.name), escaped(applet.about));
        page.push_str(&format!(
            ".TP\n.B {name}\n{about} See\n.BR pinch\\-{name} (1).\n"
        ));
    }
    page.push_str(".SH COMMANDS\n");
    for command in COMMANDS {
        let words = format!("{} {}", command.word, command.takes);
        let (words, help) = (escaped(words.trim_end()), escaped(command.help));
        page.push_str(&format!(".TP\n.B {words}\n{help}\n"));
    }
    page + FILES
}

fn head(name: &str, about: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH {} 1 \"\" \"Pinch {version}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
        escaped(&name.to_uppercase()),
        escaped(name),
        escaped(about)
    )
}

/// `-c DIR, --config-dir=DIR`, options bold and what they take in italics.
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

/// Text that roff takes as it stands.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}
