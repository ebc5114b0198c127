//! The option table of `salt-key`.

use super::Takes::{Choice, Nothing, Number, Text};
use super::common::{
    COMMON, HARD_CRASH, MAKE_TOKEN, OUTPUT, PASSWORD, USER, USERNAME, eauth, flag,
};
use super::{Group, Program};
use crate::log::LEVELS;

/// The option table of `salt-key`. Its `-a` is `--accept`, and its `-l` is `--list`.
pub const SALT_KEY: Program = Program {
    name: "salt-key",
    usage: "[options]",
    about: "Show, accept, reject and delete the keys of minions.",
    groups: &[
        COMMON,
        Group {
            title: "Options",
            flags: &[
                USER,
                flag("quiet", Some('q'), &["quiet"], Nothing, "print no errors"),
                flag(
                    "yes",
                    Some('y'),
                    &["yes"],
                    Nothing,
                    "answer yes to every question",
                ),
                flag(
                    "rotate_aes_key",
                    None,
                    &["rotate-aes-key"],
                    Text("BOOL"),
                    "has no effect: a session ends when its key is deleted",
                ),
                flag(
                    "preserve_minions",
                    None,
                    &["preserve-minions"],
                    Text("BOOL"),
                    "True: keep the cached data of minions with deleted keys",
                ),
                HARD_CRASH,
            ],
        },
        ACTIONS,
        GENERATION,
        EAUTH,
        OUTPUT,
        LOGGING,
    ],
};

/// The actions on keys, and the options that select the keys.
pub(super) const ACTIONS: Group = Group {
    title: "Actions",
    flags: &[
        flag(
            "list",
            Some('l'),
            &["list"],
            Text("WHICH"),
            "list keys: pre, un, acc, rej, den or all",
        ),
        flag(
            "list_all",
            Some('L'),
            &["list-all"],
            Nothing,
            "list all keys",
        ),
        flag(
            "accept",
            Some('a'),
            &["accept"],
            Text("GLOB"),
            "accept the pending keys that match",
        ),
        flag(
            "accept_all",
            Some('A'),
            &["accept-all"],
            Nothing,
            "accept all pending keys",
        ),
        flag(
            "reject",
            Some('r'),
            &["reject"],
            Text("GLOB"),
            "reject the pending keys that match",
        ),
        flag(
            "reject_all",
            Some('R'),
            &["reject-all"],
            Nothing,
            "reject all pending keys",
        ),
        flag(
            "include_all",
            None,
            &["include-all"],
            Nothing,
            "include rejected keys when accepting, accepted keys when rejecting",
        ),
        flag(
            "include_accepted",
            None,
            &["include-accepted"],
            Nothing,
            "include accepted keys when rejecting",
        ),
        flag(
            "include_rejected",
            None,
            &["include-rejected"],
            Nothing,
            "include rejected keys when accepting",
        ),
        flag(
            "include_denied",
            None,
            &["include-denied"],
            Nothing,
            "include denied keys when accepting or rejecting",
        ),
        flag(
            "print",
            Some('p'),
            &["print"],
            Text("GLOB"),
            "print the keys that match",
        ),
        flag(
            "print_all",
            Some('P'),
            &["print-all"],
            Nothing,
            "print all keys",
        ),
        flag(
            "delete",
            Some('d'),
            &["delete"],
            Text("GLOB"),
            "delete the keys that match",
        ),
        flag(
            "delete_all",
            Some('D'),
            &["delete-all"],
            Nothing,
            "delete all keys",
        ),
        flag(
            "finger",
            Some('f'),
            &["finger"],
            Text("GLOB"),
            "print the fingerprints of the keys that match",
        ),
        flag(
            "finger_all",
            Some('F'),
            &["finger-all"],
            Nothing,
            "print all fingerprints",
        ),
        flag(
            "rotate_master_key",
            None,
            &["rotate-master-key"],
            Nothing,
            "replace the master's key once all accepted minions accept the next one; repeat to see which ones do not yet",
        ),
        flag(
            "finish_rotation",
            None,
            &["finish-rotation"],
            Nothing,
            "replace the master's key now; minions that do not accept the next one are locked out",
        ),
        flag(
            "cancel_rotation",
            None,
            &["cancel-rotation"],
            Nothing,
            "keep the master's key, and delete the next one",
        ),
    ],
};

const GENERATION: Group = Group {
    title: "Key Generation Options",
    flags: &[
        flag(
            "gen_keys",
            None,
            &["gen-keys"],
            Text("NAME"),
            "generate a key pair with this name",
        ),
        flag(
            "gen_keys_dir",
            None,
            &["gen-keys-dir"],
            Text("DIR"),
            "directory for the key pair (default .)",
        ),
        flag(
            "keysize",
            None,
            &["keysize"],
            Number("BITS"),
            "has no effect: all keys have the same size",
        ),
        flag(
            "gen_signature",
            None,
            &["gen-signature"],
            Nothing,
            "not supported: each session proves the master's key",
        ),
        flag(
            "priv",
            None,
            &["priv"],
            Text("FILE"),
            "with --gen-signature",
        ),
        flag(
            "signature_path",
            None,
            &["signature-path"],
            Text("DIR"),
            "with --gen-signature",
        ),
        flag("pub", None, &["pub"], Text("FILE"), "with --gen-signature"),
        flag(
            "auto_create",
            None,
            &["auto-create"],
            Nothing,
            "with --gen-signature",
        ),
    ],
};

const EAUTH: Group = Group {
    title: "External Authentication",
    flags: &[
        eauth(None, &["auth", "eauth", "external-auth"]),
        MAKE_TOKEN,
        USERNAME,
        PASSWORD,
    ],
};

/// The log options of every program, but without the letter `-l`, which means `--list` here, and
/// with a separate log file.
const LOGGING: Group = Group {
    title: "Logging Options",
    flags: &[
        flag(
            "log_level",
            None,
            &["log-level"],
            Choice("LEVEL", LEVELS),
            "log level on stderr (default warning)",
        ),
        flag(
            "key_logfile",
            None,
            &["log-file"],
            Text("FILE"),
            "log file (default: key_logfile of the configuration)",
        ),
        flag(
            "log_level_logfile",
            None,
            &["log-file-level"],
            Choice("LEVEL", LEVELS),
            "log level of the log file (default warning)",
        ),
    ],
};
