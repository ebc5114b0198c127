//! The reactor: rules, effects, crashes.
