"""Fusion: which groups of nodes may be one kernel, and the cheapest way to group them all."""
