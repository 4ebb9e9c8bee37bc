"""Hugging Face configs as model specs. Families register by being in `families`.

It stands in this layer because a deployment may name a config.json where it names a model.
"""

from __future__ import annotations

import importlib
import pkgutil

from planner.spec.hf import families, gptq, quark, schemes, torchao, towers
from planner.spec.hf.convert import Imported, converted, is_config
from planner.spec.hf.registry import ARCHITECTURES
from planner.spec.hf.tower import TOWERS
from planner.spec.load import build
from planner.spec.types import ModelSpec

for _folder in (families, towers):
    for _module in pkgutil.iter_modules(_folder.__path__):
        importlib.import_module(f"{_folder.__name__}.{_module.name}")

__all__ = [
    "ARCHITECTURES",
    "TOWERS",
    "Imported",
    "converted",
    "gptq",
    "is_config",
    "model_of",
    "quark",
    "schemes",
    "torchao",
]


def model_of(imported: Imported) -> ModelSpec:
    """The checked model, whose parts remember their places in the config. Raises SpecError."""
    return build(ModelSpec, imported.data, imported.document)
