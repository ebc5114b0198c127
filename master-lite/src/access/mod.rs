//! Decides what local users and minions may request, and logs refusals.

pub(crate) mod guests;
pub(crate) mod peer;
pub(crate) mod publisher_acl;
pub(crate) mod refusals;
