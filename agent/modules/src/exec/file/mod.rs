//! The `file` execution module. Each submodule contains some of its functions.

pub(crate) mod backup;
pub(crate) mod body;
pub(crate) mod compare;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod edit;
pub(crate) mod edit_block;
pub(crate) mod edit_comment;
pub(crate) mod edit_line;
pub(crate) mod edit_replace;
pub(crate) mod edit_sed;
pub(crate) mod find;
pub(crate) mod links;
pub(crate) mod makedirs;
pub(crate) mod managed;
pub(crate) mod paths;
pub(crate) mod perms;
pub(crate) mod source;
pub(crate) mod stat;
pub(crate) mod touch;
