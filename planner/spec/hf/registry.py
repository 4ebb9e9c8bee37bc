"""Where families of models register, under the class names that a config's `architectures` has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.registry import Registry
from planner.spec.hf.draft import Draft
from planner.spec.hf.fields import Config

Reader = Callable[[Config], Draft]


@dataclass(frozen=True)
class Architecture:
    """One class of transformers, and how its config becomes a model."""

    name: str
    """As in ``architectures``: ``LlamaForCausalLM``."""
    model_types: tuple[str, ...]
    """As in ``model_type``, for configs and text configs that name no class."""
    read: Reader
    """The model of a config. Faults go to the config; nothing is raised."""


ARCHITECTURES: Registry[Architecture] = Registry("architecture")


def architecture(name: str, *model_types: str) -> Callable[[Reader], Reader]:
    """File a reader under a class name and model types. Raises ValueError for a taken name."""

    def decorate(read: Reader) -> Reader:
        taken = {known for _, each in ARCHITECTURES for known in each.model_types}
        if twice := taken & set(model_types):
            raise ValueError(f"two architectures read model_type {min(twice)!r}")
        ARCHITECTURES.register(name)(Architecture(name, model_types, read))
        return read

    return decorate


def by_model_type(model_type: str | None) -> Architecture | None:
    """The architecture of a ``model_type``, or None."""
    found = (each for _, each in ARCHITECTURES if model_type in each.model_types)
    return next(found, None)
