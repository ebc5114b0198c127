//! Events: tags and keys are Salt's.
