//! Attacks A1 to A26: what is sent, what is refused, and that nothing changed.
