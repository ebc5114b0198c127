//! Beacons and what they tell.
