//! The option table of `salt-ssh`.

use super::Takes::{Many, Nothing, Number, Text};
use super::common::{COMMON, HARD_CRASH, LIST, LOGGING, NO_PARSE, OUTPUT, PCRE, flag};
use super::{Flag, Group, Program};

/// The options for the type of the target. A command line can have only one of them.
pub(super) const SSH_TARGETS: Group = Group {
    title: "Target Options",
    flags: &[
        flag(
            "list_hosts",
            Some('H'),
            &["hosts"],
            Nothing,
            "list the hosts of the roster",
        ),
        PCRE,
        LIST,
        flag(
            "nodegroup",
            Some('N'),
            &["nodegroup"],
            Nothing,
            "the target is a nodegroup of the configuration",
        ),
    ],
};

/// The options of Salt that only matter for its copy of Python. They are accepted and do nothing.
const OF_PYTHON: Group = Group {
    title: "Options without effect",
    flags: &[
        ignored("min_extra_mods", &["min-extra-modules"], Text("NAMES")),
        ignored("thin_extra_mods", &["thin-extra-modules"], Text("NAMES")),
        ignored("thin_exclude_saltexts", &["thin-exclude-saltexts"], Nothing),
        ignored("python2_bin", &["python2-bin"], Text("FILE")),
        ignored("python3_bin", &["python3-bin"], Text("FILE")),
        ignored("relenv", &["relenv"], Nothing),
        ignored("refresh_cache", &["refresh", "refresh-cache"], Nothing),
        ignored("extra_filerefs", &["extra-filerefs"], Text("FILES")),
    ],
};

const fn ignored(dest: &'static str, long: &'static [&'static str], takes: super::Takes) -> Flag {
    flag(dest, None, long, takes, "no effect: hosts need no Python")
}

/// The option table of `salt-ssh`.
pub const SALT_SSH: Program = Program {
    name: "salt-ssh",
    usage: "[options] '<target>' <function> [arguments]",
    about: "Run a function on hosts of a roster that have no agent, over ssh.",
    groups: &[
        COMMON,
        Group {
            title: "Options",
            flags: &[
                flag("jid", None, &["jid"], Text("JID"), "the job id to use"),
                flag(
                    "raw_shell",
                    Some('r'),
                    &["raw", "raw-shell"],
                    Nothing,
                    "run a shell command instead of a function",
                ),
                flag(
                    "pinch_command",
                    None,
                    &["pinch"],
                    Nothing,
                    "run a command of pinch instead of a function: plan, undo, runs, explain, …",
                ),
                flag(
                    "roster",
                    None,
                    &["roster"],
                    Text("NAME"),
                    "the rosters, with commas: flat, sshconfig, ansible, cache, dir, scan, sshknownhosts, or a file of _roster (default flat)",
                ),
                flag(
                    "roster_file",
                    None,
                    &["roster-file"],
                    Text("FILE"),
                    "the file of flat and ansible (default: roster next to the configuration)",
                ),
                flag(
                    "ssh_update_roster",
                    None,
                    &["update-roster"],
                    Nothing,
                    "add a host that is given by hand to the file of the roster flat, with the password of --passwd",
                ),
                flag(
                    "ssh_max_procs",
                    None,
                    &["max-procs"],
                    Number("COUNT"),
                    "the maximum number of hosts at a time (default 25)",
                ),
                flag(
                    "verbose",
                    Some('v'),
                    &["verbose"],
                    Nothing,
                    "print the job id first",
                ),
                flag(
                    "static",
                    Some('s'),
                    &["static"],
                    Nothing,
                    "print all returns together after the last one",
                ),
                flag(
                    "ssh_wipe",
                    Some('w'),
                    &["wipe"],
                    Nothing,
                    "remove the program and its data from the hosts afterwards",
                ),
                flag(
                    "rand_thin_dir",
                    Some('W'),
                    &["rand-thin-dir"],
                    Nothing,
                    "use a folder with a random name, and remove it afterwards",
                ),
                flag(
                    "regen_thin",
                    Some('t'),
                    &["regen-thin", "thin"],
                    Nothing,
                    "send the program even if it is on the host",
                ),
                flag(
                    "ssh_run_pre_flight",
                    None,
                    &["pre-flight"],
                    Nothing,
                    "run the script ssh_pre_flight even if the program is on the host",
                ),
                NO_PARSE,
                HARD_CRASH,
            ],
        },
        SSH_TARGETS,
        OUTPUT,
        Group {
            title: "Scan Roster Options",
            flags: &[
                flag(
                    "ssh_scan_ports",
                    None,
                    &["scan-ports"],
                    Text("PORTS"),
                    "the ports that the roster scan tries, with commas (default 22)",
                ),
                flag(
                    "ssh_scan_timeout",
                    None,
                    &["scan-timeout"],
                    Text("SECONDS"),
                    "how long the roster scan waits for a port (default 0.01)",
                ),
            ],
        },
        Group {
            title: "SSH Options",
            flags: &[
                flag(
                    "ssh_options",
                    None,
                    &["ssh-option"],
                    Many("NAME=VALUE"),
                    "an option of the ssh program; may be repeated",
                ),
                flag("ssh_priv", None, &["priv"], Text("FILE"), "the private key"),
                flag(
                    "ssh_priv_passwd",
                    None,
                    &["priv-passwd"],
                    Text("TEXT"),
                    "the passphrase of the private key; others can see it in the list of processes",
                ),
                flag(
                    "ssh_passwd",
                    None,
                    &["passwd"],
                    Text("TEXT"),
                    "the password for login and sudo; others can see it in the list of processes",
                ),
                flag(
                    "ssh_askpass",
                    None,
                    &["askpass"],
                    Nothing,
                    "ask for the password on the terminal",
                ),
                flag(
                    "ssh_key_deploy",
                    None,
                    &["key-deploy"],
                    Nothing,
                    "add the key of salt-ssh to the hosts first; needs a password",
                ),
                flag(
                    "ssh_remote_port_forwards",
                    None,
                    &["remote-port-forwards"],
                    Text("FORWARDS"),
                    "ports of the hosts that lead to this machine, with commas: [BIND:]PORT:HOST:PORT",
                ),
                flag(
                    "ssh_user",
                    None,
                    &["user"],
                    Text("NAME"),
                    "the user for hosts whose entry has none",
                ),
                flag(
                    "ssh_identities_only",
                    None,
                    &["identities-only"],
                    Nothing,
                    "offer only the private key of the roster or of --priv",
                ),
                flag("ssh_sudo", None, &["sudo"], Nothing, "run as root by sudo"),
                flag(
                    "ignore_host_keys",
                    Some('i'),
                    &["ignore-host-keys"],
                    Nothing,
                    "accept the keys of unknown hosts",
                ),
                flag(
                    "no_host_keys",
                    None,
                    &["no-host-keys"],
                    Nothing,
                    "do not check host keys: the connection can be intercepted",
                ),
            ],
        },
        OF_PYTHON,
        LOGGING,
    ],
};
