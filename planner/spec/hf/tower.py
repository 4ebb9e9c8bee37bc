"""Towers in front of text models: what their readers fill, and where they register."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from planner.registry import Registry
from planner.spec.hf.draft import Draft
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use, folded


@dataclass(frozen=True)
class Modules:
    """What checkpoints call the nodes of a tower."""

    layers: str = ""
    """A layer, as in ``visual.blocks.{}``."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Nodes within a layer."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """Nodes of the blocks ahead of the layers, between and behind them."""


@dataclass
class Tower(Draft):
    """A tower as it is read from its config: the `encoder` of a model spec."""

    tokens: int = 0
    """Patches of one item, a class token included."""
    patch: int = 1
    """Pixels at a side of a patch."""
    side: int = 0
    """Pixels at a side of the image that was counted."""
    merged: int = 1
    """Patches that become one token of the prompt."""
    modules: Modules = field(default_factory=Modules)

    def stack(self, first: str, layers: list[Use], *ends: str) -> None:
        """The sequence: patches, layers, and the blocks that lead to the text model."""
        last = [{"block": name} for name in ends]
        self.sequence = [{"block": first}, *folded(layers), *last]


@dataclass(frozen=True)
class Parts:
    """The parts of a config that a tower's reader may look at."""

    outer: Config
    """The whole config, with what stands beside the parts' own."""
    vision: Config
    text: Draft
    """The text model, read already."""


TowerReader = Callable[[Parts], Tower | str]
"""The tower, or in words what no block is for. Faults go to the config; nothing is raised."""


@dataclass(frozen=True)
class TowerKind:
    """One class of models with a tower, and how its config becomes an encoder."""

    name: str
    model_types: tuple[str, ...]
    read: TowerReader


TOWERS: Registry[TowerKind] = Registry("tower")


def tower(name: str, *model_types: str) -> Callable[[TowerReader], TowerReader]:
    """File a reader under the class and the model types of whole configs."""

    def decorate(read: TowerReader) -> TowerReader:
        TOWERS.register(name)(TowerKind(name, model_types, read))
        return read

    return decorate


def tower_of(outer: Config) -> TowerKind | None:
    """The kind of tower of a whole config, by its class, else by its model type."""
    named = (TOWERS.get(name) for name in outer.texts("architectures"))
    typed = (each for _, each in TOWERS if outer.data.get("model_type") in each.model_types)
    return next((each for each in (*named, *typed) if each), None)
