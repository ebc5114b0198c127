//! The program held against what Salt itself answered, as recorded in `tests/corpus`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on stops, and says what differs"
)]

mod command;
mod states;
