//! Kills at random while jobs and events flow.
