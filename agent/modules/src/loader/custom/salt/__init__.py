"""The part of Salt's Python names that custom modules use, answered by Pinch."""
