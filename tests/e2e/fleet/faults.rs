//! Faults that a fleet survives: R5, R6, R10, R12, R18.
