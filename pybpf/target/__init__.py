"""Targets: everything a compile depends on, from this machine or from a saved snapshot."""
