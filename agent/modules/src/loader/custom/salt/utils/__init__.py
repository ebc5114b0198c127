"""Helpers that Salt's modules share."""
