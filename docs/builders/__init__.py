"""Builders of the generated parts of the documentation; ``docs/generate.py`` puts them in place."""
