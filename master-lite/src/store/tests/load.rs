//! How much it does.
