//! Users and groups in arguments: by name or by number.

use value::Value;

use crate::accounts;

/// Returns the user that this program runs as.
pub fn current() -> Value {
    of_uid(rustix::process::geteuid().as_raw())
}

/// Returns the name for a user's number; the number itself if it has no name.
#[must_use]
pub fn of_uid(uid: u32) -> Value {
    accounts::user_of(uid).map_or_else(|| uid.into(), |user| user.name.into())
}

/// Returns the name for a group's number; the number itself if it has no name.
pub fn of_gid(gid: u32) -> Value {
    accounts::group_of(gid).map_or_else(|| gid.into(), |group| group.name.into())
}

/// Returns the number of a user given by name or number.
pub fn uid(user: &Value) -> Option<u32> {
    match user {
        Value::Int(number) => u32::try_from(*number).ok(),
        other => Some(accounts::user(other.as_str()?)?.uid),
    }
}

/// Returns the number of a group given by name or number.
pub fn gid(group: &Value) -> Option<u32> {
    match group {
        Value::Int(number) => u32::try_from(*number).ok(),
        other => Some(accounts::group(other.as_str()?)?.gid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_translate_both_ways() {
        assert_eq!(uid(&"root".into()), Some(0));
        assert_eq!(of_uid(0), "root".into());
        assert_eq!(gid(&Value::Int(77)), Some(77));
        assert_eq!(of_gid(4_000_000_000), Value::Int(4_000_000_000));
        assert_eq!(uid(&"no such user".into()), None);
    }
}
