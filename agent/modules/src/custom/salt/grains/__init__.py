"""Grains."""
