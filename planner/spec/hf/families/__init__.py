"""Families of models: one file each, registered by being in this folder."""
