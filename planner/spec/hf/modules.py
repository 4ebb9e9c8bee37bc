"""Modules as a checkpoint names them, to nodes and layers as our blocks do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from planner.spec.types import BlockSpec

Blocks = Callable[[str], BlockSpec]
"""Finds a block of the catalogue. Raises SpecError or UsageError for an unknown one."""

_REGEX = "re:"
_PREFIXES = ("model.layers", "model.language_model.layers", "language_model.model.layers")
_ATTENTION = frozenset(
    "q_proj k_proj v_proj o_proj q_a_proj q_b_proj kv_a_proj_with_mqa kv_b_proj".split()  # noqa: SIM905
)
_MERGED = {
    "q_proj": "qkv_proj",
    "k_proj": "qkv_proj",
    "v_proj": "qkv_proj",
    "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
}
_EXPERTS = (
    "mlp.experts",
    "mlp.experts.0.gate_proj",
    "mlp.experts.0.down_proj",
    "block_sparse_moe.experts.0.w1",
    "feed_forward.experts.gate_up_proj",
)
_NEVER = re.compile(r"norm|embed|router|sampling|lm_head|shared_expert_gate")
"""Nodes that no engine quantises."""


@dataclass(frozen=True)
class Layer:
    """One layer of a model: its number, and the nodes that may be quantised."""

    number: int
    nodes: tuple[str, ...]


def layers_of(
    sequence: Sequence[Mapping[str, Any]], blocks: Blocks, *, wide: bool = False
) -> list[Layer]:
    """Every layer of a sequence, without what stands ahead of the first and behind the last.

    ``wide``: with nodes that the blocks keep in 16 bit themselves.
    """
    uses = list(_expanded(sequence))[1:-1]
    nodes = {use: tuple(quantised(blocks(use), wide=wide)) for use in dict.fromkeys(uses)}
    return [Layer(number, nodes[use]) for number, use in enumerate(uses)]


def _expanded(sequence: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for item in sequence:
        if "repeat" in item:
            for _ in range(item["repeat"]):
                yield from _expanded(item["blocks"])
        else:
            yield from [item["block"]] * item.get("times", 1)


def quantised(block: BlockSpec, *, wide: bool = False) -> Iterator[str]:
    """Nodes of a block that may be quantised; with ``wide`` those it keeps in 16 bit too."""
    for name, node in block.nodes.items():
        narrow = wide or (node.model_extra or {}).get("quantizable", True)
        if node.op in _MULTIPLIED and narrow and not _NEVER.search(name):
            yield name


_MULTIPLIED = ("linear", "moe", "mla_expand")


def names_of(node: str, layer: int) -> Iterator[str]:
    """What checkpoints may call a node of a layer."""
    for prefix in _PREFIXES:
        yield from (f"{prefix}.{layer}.{part}" for part in _parts(node))


def _parts(node: str) -> tuple[str, ...]:
    if node == "experts":
        return _EXPERTS
    if node.startswith("shared_"):
        rest = node.removeprefix("shared_")
        return (f"mlp.shared_experts.{rest}", f"mlp.shared_expert.{rest}")
    inside = "self_attn" if node in _ATTENTION else "mlp"
    merged = _MERGED.get(node)
    parts = (f"{inside}.{node}", f"linear_attn.{node}", f"mamba.{node}", f"mixer.{node}")
    return (*parts, f"{inside}.{merged}") if merged else parts


def means(pattern: str, name: str) -> bool:
    """Whether a checkpoint's pattern means a module: its name, a part of it, ``re:`` or ``*``."""
    if pattern.startswith(_REGEX):
        try:
            return re.match(pattern.removeprefix(_REGEX), name) is not None
        except re.error:
            return False
    if "*" in pattern:
        forms = (pattern, f"*.{pattern}", f"{pattern}.*", f"*.{pattern}.*")
        return any(fnmatchcase(name, form) for form in forms)
    return f".{pattern.strip('.')}." in f".{name}."


def meant(patterns: Sequence[str], layers: Sequence[Layer]) -> dict[str, frozenset[int]]:
    """Nodes that patterns mean, and in which layers."""
    others = [each for each in patterns if each.startswith(_REGEX) or "*" in each]
    plain = {each.strip(".") for each in patterns} - {each.strip(".") for each in others}
    found: dict[str, set[int]] = {}
    for layer in layers:
        for node in layer.nodes:
            names = list(names_of(node, layer.number))
            if any(not plain.isdisjoint(_within(name)) for name in names) or any(
                means(pattern, name) for pattern in others for name in names
            ):
                found.setdefault(node, set()).add(layer.number)
    return {node: frozenset(numbers) for node, numbers in found.items()}


def _within(name: str) -> Iterator[str]:
    """Every part of a module's name that a plain pattern may be: whole words in their order."""
    words = name.split(".")
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            yield ".".join(words[start:end])


def unaimed(
    aimed: Mapping[str, frozenset[int]],
    kept: Mapping[str, frozenset[int]],
    layers: Sequence[Layer],
) -> dict[str, frozenset[int]]:
    """Nodes that stay wide: those kept, and those that no target means."""
    found: dict[str, set[int]] = {node: set(numbers) for node, numbers in kept.items()}
    for layer in layers:
        for node in layer.nodes:
            if layer.number not in aimed.get(node, ()):
                found.setdefault(node, set()).add(layer.number)
    return {node: frozenset(numbers) for node, numbers in found.items()}


def rules(
    found: Mapping[str, frozenset[int]], layers: Sequence[Layer], formats: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Rules of a spec for nodes in some of their layers, those of the same layers together."""
    alike: dict[frozenset[int], list[str]] = {}
    for node, numbers in found.items():
        alike.setdefault(numbers, []).append(node)
    everywhere = {node for layer in layers for node in layer.nodes}
    for numbers, nodes in alike.items():
        present = {node for layer in layers if layer.number in numbers for node in layer.nodes}
        every = set(nodes) >= (present & everywhere)
        rule: dict[str, Any] = {} if every else {"match": nodes[0] if len(nodes) == 1 else nodes}
        if len(numbers) < len(_having(nodes, layers)):
            rule["layers"] = _ranges(sorted(numbers))
        yield {**rule, **formats}


def _having(nodes: Sequence[str], layers: Sequence[Layer]) -> set[int]:
    return {layer.number for layer in layers if set(nodes) & set(layer.nodes)}


def everywhere(found: Mapping[str, frozenset[int]], layers: Sequence[Layer]) -> list[str]:
    """Of the nodes found, those that are meant in every layer that has them."""
    return [node for node, numbers in found.items() if numbers == _having([node], layers)]


def _ranges(numbers: list[int]) -> str | list[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(first) if first == last else f"{first}..{last}" for first, last in runs]
    return texts[0] if len(texts) == 1 else texts
