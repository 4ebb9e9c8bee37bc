"""Fits the constants of kernel models to measurements, and says how well they do."""
