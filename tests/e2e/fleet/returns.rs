//! Returns: of calls and jobs, at the master and at returners.
