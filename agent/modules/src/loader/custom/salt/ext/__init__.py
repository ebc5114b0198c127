"""Packages that older versions of Salt contained."""
