"""Kernel models: time of a kernel from its shape and a handful of calibrated constants."""
