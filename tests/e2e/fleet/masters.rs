//! Several masters: failover, and the way back.
