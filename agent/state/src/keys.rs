//! The map keys that every chunk and every return contains.

use value::Key;

pub(crate) static CHANGES: Key = Key::new("changes");
pub(crate) static COMMENT: Key = Key::new("comment");
pub(crate) static DURATION: Key = Key::new("duration");
pub(crate) static ENV: Key = Key::new("__env__");
pub(crate) static FUN: Key = Key::new("fun");
pub(crate) static ID: Key = Key::new("__id__");
pub(crate) static INCLUDED_FROM: Key = Key::new("__sls_included_from__");
pub(crate) static NAME: Key = Key::new("name");
pub(crate) static ORDER: Key = Key::new("order");
pub(crate) static RESULT: Key = Key::new("result");
pub(crate) static RET: Key = Key::new("ret");
pub(crate) static RETURN: Key = Key::new("return");
pub(crate) static RUN_NUM: Key = Key::new("__run_num__");
pub(crate) static SLS: Key = Key::new("__sls__");
pub(crate) static START_TIME: Key = Key::new("start_time");
pub(crate) static STATE: Key = Key::new("state");
