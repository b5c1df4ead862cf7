"""Pinned source trees: the places to get one from, unpacked within bounds, verified."""
