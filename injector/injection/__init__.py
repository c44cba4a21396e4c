"""Placeholder promise, replaced by the package owner."""
