"""YAML in, frozen values out; every fault with file, line and column."""
