//! Results of channels that carry nothing but a wake-up, or whose other end may be gone.

/// Drops the result of a send. A receiver that is gone needs no value, and a full channel of
/// wake-ups holds one already.
pub fn if_open<E>(_sent: Result<(), E>) {}

/// Drops the result of a wait. A closed channel ends the wait as a value does.
pub fn or_closed<T, E>(_received: Result<T, E>) {}
