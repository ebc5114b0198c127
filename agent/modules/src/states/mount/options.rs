//! The options of a mount that cause a remount.

use value::{Map, Value};

use super::Mounted;
use crate::exec::mount::{option_list, with_number};

/// The options that the kernel does not show.
const INVISIBLE: [&str; 23] = [
    "_netdev",
    "actimeo",
    "bg",
    "comment",
    "defaults",
    "delay_connect",
    "direct-io-mode",
    "intr",
    "loop",
    "nointr",
    "nobootwait",
    "nofail",
    "password",
    "reconnect",
    "retry",
    "soft",
    "auto",
    "users",
    "bind",
    "nonempty",
    "transform_symlinks",
    "port",
    "backup-volfile-servers",
];

/// The names of options with a value that the kernel does not show.
const INVISIBLE_KEYS: [&str; 8] = [
    "actimeo",
    "comment",
    "credentials",
    "direct-io-mode",
    "password",
    "port",
    "retry",
    "secretfile",
];

/// Returns the options under a key of an entry in the kernel's list.
fn kernel_options(entry: &Value, key: &str) -> Vec<String> {
    entry.get(key).map(option_list).unwrap_or_default()
}

/// Returns an option such as `size=1g` in kilobytes, as the kernel shows it.
fn size(option: &str) -> Option<String> {
    let value = option.strip_prefix("size=")?;
    let end = value.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = value.split_at_checked(end)?;
    let factor = match unit.chars().next()? {
        'k' => 1,
        'm' => 1024,
        'g' => 1024 * 1024,
        _ => return None,
    };
    Some(format!(
        "size={}k",
        number.parse::<u64>().ok()?.checked_mul(factor)?
    ))
}

/// Returns the wanted options that the current mount does not have.
pub(super) fn changed(args: &Mounted, opts: &[String], entry: &Value) -> Vec<String> {
    let (active, superopts) = (
        kernel_options(entry, "opts"),
        kernel_options(entry, "superopts"),
    );
    let hidden = option_list(&args.hidden_opts);
    let ignored = ignored_keys(args);
    let listed = |list: &Option<Vec<String>>, option: &str| {
        list.iter().flatten().any(|other| other == option)
    };
    let has_size = superopts.iter().any(|option| size(option).is_some());
    opts.iter()
        .map(|option| as_shown(args, option, &ignored))
        .filter(|option| {
            let sized = size(option);
            let option = sized.as_ref().unwrap_or(option);
            // A file system in memory does not show all options that it was mounted with.
            let seen = has_size && sized.is_none();
            !(seen
                || active.contains(option)
                || superopts.contains(option)
                || INVISIBLE.contains(&option.as_str())
                || INVISIBLE_KEYS.contains(&option.as_str())
                || hidden.contains(option)
                || ignored.contains(option)
                || listed(&args.extra_mount_invisible_options, option)
                || listed(&args.extra_mount_invisible_keys, option))
        })
        .map(|option| size(&option).unwrap_or(option))
        .collect()
}

/// Returns the options of this type of file system that cause no remount.
fn ignored_keys(args: &Mounted) -> Vec<String> {
    let ignored = args.extra_mount_ignore_fs_keys.as_ref();
    match ignored.and_then(|keys| keys.get(&args.fstype)) {
        Some(keys) => option_list(keys),
        None if args.fstype == "ramfs" => vec!["size".to_owned()],
        None => Vec::new(),
    }
}

/// Returns an option in the form in which the kernel shows it.
fn as_shown(args: &Mounted, option: &str, ignored: &[String]) -> String {
    let option = translated(args.extra_mount_translate_options.as_ref(), option);
    let key = option.split('=').next().unwrap_or_default();
    let invisible = INVISIBLE_KEYS.contains(&key)
        || args
            .extra_mount_invisible_keys
            .iter()
            .flatten()
            .any(|other| other == key);
    if invisible || ignored.iter().any(|other| other == key) {
        return key.to_owned();
    }
    match option.split_once('=') {
        Some(("user", name)) if args.fstype == "cifs" => format!("username={name}"),
        _ => with_number(&option),
    }
}

fn translated(extra: Option<&Map>, option: &str) -> String {
    match (extra.and_then(|extra| extra.get(option)), option) {
        (Some(other), _) => other.to_text(),
        (None, "tcp" | "udp") => format!("proto={option}"),
        _ => option.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_compared_in_kilobytes() {
        assert_eq!(size("size=2g").as_deref(), Some("size=2097152k"));
        assert_eq!(size("size=5m").as_deref(), Some("size=5120k"));
        assert_eq!(size("size=50%"), None);
        assert_eq!(translated(None, "tcp"), "proto=tcp");
    }
}
