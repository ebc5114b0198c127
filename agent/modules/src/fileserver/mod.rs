//! The files of SLS trees: where they come from, and how they are fetched and rendered.

pub(crate) mod fetch;
pub(crate) mod git_roots;
mod minion_roots;
pub(crate) mod patterns;
pub mod roots;
pub(crate) mod template;
