//! Kill -9, and disks that are full.
