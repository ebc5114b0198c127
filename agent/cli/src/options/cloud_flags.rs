//! The option table of `salt-cloud`.

use super::Takes::{Nothing, Text};
use super::common::{COMMON, HARD_CRASH, LOGGING, OUTPUT, flag};
use super::{Flag, Group, Program};

/// The queries. A command line can have only one of them.
pub(super) const CLOUD_QUERIES: Group = Group {
    title: "Query Options",
    flags: &[
        switch("query", Some('Q'), &["query"], "list the machines"),
        switch(
            "full_query",
            Some('F'),
            &["full-query"],
            "list the machines with everything that is known of them",
        ),
        switch(
            "select_query",
            Some('S'),
            &["select-query"],
            "list what the option query.selection selects of each machine",
        ),
        switch(
            "list_providers",
            None,
            &["list-providers"],
            "list the providers",
        ),
        flag(
            "list_profiles",
            None,
            &["list-profiles"],
            Text("PROVIDER"),
            "list the profiles of a provider, or of all",
        ),
    ],
};

/// The lists of what providers offer. A command line can have only one of them.
pub(super) const CLOUD_OFFERS: Group = Group {
    title: "Cloud Providers Listings",
    flags: &[
        flag(
            "list_locations",
            None,
            &["list-locations"],
            Text("PROVIDER"),
            "list the locations that a provider offers, or all",
        ),
        flag(
            "list_images",
            None,
            &["list-images"],
            Text("PROVIDER"),
            "list the images that a provider offers, or all",
        ),
        flag(
            "list_sizes",
            None,
            &["list-sizes"],
            Text("PROVIDER"),
            "list the sizes that a provider offers, or all",
        ),
    ],
};

const fn switch(
    dest: &'static str,
    short: Option<char>,
    long: &'static [&'static str],
    help: &'static str,
) -> Flag {
    flag(dest, short, long, Nothing, help)
}

/// The options that make, change and remove machines.
pub(super) const CLOUD_EXECUTION: Group = Group {
    title: "Execution Options",
    flags: &[
        flag(
            "location",
            Some('L'),
            &["location"],
            Text("LOCATION"),
            "make the machines in this location",
        ),
        flag(
            "action",
            Some('a'),
            &["action"],
            Text("ACTION"),
            "call an action of machines, such as start, stop or reboot",
        ),
        flag(
            "function",
            Some('f'),
            &["function"],
            Text("FUNCTION PROVIDER"),
            "call a function of a provider",
        ),
        flag(
            "profile",
            Some('p'),
            &["profile"],
            Text("PROFILE"),
            "make machines by this profile",
        ),
        flag(
            "map",
            Some('m'),
            &["map"],
            Text("FILE"),
            "make the machines of a map, or query or destroy them",
        ),
        switch(
            "hard",
            Some('H'),
            &["hard"],
            "destroy all machines that are not in the map (needs enable_hard_maps)",
        ),
        switch("destroy", Some('d'), &["destroy"], "destroy machines"),
        switch("no_deploy", None, &["no-deploy"], "install no minion"),
        switch(
            "parallel",
            Some('P'),
            &["parallel"],
            "make the machines side by side",
        ),
        switch(
            "update_bootstrap",
            Some('u'),
            &["update-bootstrap"],
            "no effect: no script is downloaded",
        ),
        switch("assume_yes", Some('y'), &["assume-yes"], "ask no questions"),
        switch(
            "keep_tmp",
            Some('k'),
            &["keep-tmp"],
            "no effect: no files are left",
        ),
        switch(
            "show_deploy_args",
            None,
            &["show-deploy-args"],
            "no effect: the arguments have secrets",
        ),
        flag(
            "script_args",
            None,
            &["script-args"],
            Text("ARGUMENTS"),
            "the arguments of the option script",
        ),
        switch(
            "orphans",
            None,
            &["orphans"],
            "list the machines that a call has begun to make and not finished",
        ),
    ],
};

/// The option table of `salt-cloud`.
pub const SALT_CLOUD: Program = Program {
    name: "salt-cloud",
    usage: "[options] <-m MAP | -p PROFILE> <NAME> [NAME2 ...]",
    about: "Make, list and remove machines of clouds.",
    groups: &[
        COMMON,
        CLOUD_QUERIES,
        CLOUD_EXECUTION,
        CLOUD_OFFERS,
        Group {
            title: "Options",
            flags: &[HARD_CRASH],
        },
        OUTPUT,
        LOGGING,
    ],
};
