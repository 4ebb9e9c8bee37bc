"""What stands in front of a text model: its tower, or in words which one is left out, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.spec.faults import shown
from planner.spec.hf.draft import Draft
from planner.spec.hf.fields import Config
from planner.spec.hf.refusal import SILENT, leftover, structural
from planner.spec.hf.tower import TOWERS, Parts, Tower, TowerKind, tower_of
from planner.spec.origin import Document

VISION = "vision_config"
_BESIDE = (VISION, "audio_config")
"""Parts of models whose text model's fields stand at the root."""
_MOST = 8


def front(outer: Config, text: Draft, inner: str | None) -> tuple[Tower | None, list[str]]:
    """The tower of a config, if blocks are for it, and notes on every other part.

    ``inner`` is the key of the text model's config, None where its fields stand at the root.
    """
    wanted = [key for key in outer.data if key.endswith("_config")] if inner else _BESIDE
    keys = [key for key in wanted if outer.data.get(key) and key not in (inner, *_NO_PARTS)]
    found, notes = None, []
    for key in keys:
        read = _read(outer, text, key) if key == VISION else "no blocks are for such a part"
        if isinstance(read, Tower):
            found = read
            notes += [_said(read), *read.notes]
        else:
            notes.append(f"without {key}: {read}")
    whole = f"the text model of {inner}" if inner else "the text model"
    alone = [f"{whole} alone"] if found is None and (inner or keys) else []
    return found, [*alone, *notes]


_NO_PARTS = ("quantization_config", "generation_config")


def _read(outer: Config, text: Draft, key: str) -> Tower | str:
    vision, kind = outer.inside(key), tower_of(outer)
    if vision is None or "hidden" not in text.dims:
        return "it is no object"
    if kind is None:
        return f"no blocks are for {_named(outer, vision)}{_differing(vision)}"
    made = kind.read(Parts(outer, vision, text))
    if isinstance(made, str):
        return f"no block is for its {made}"
    left = leftover(vision)
    if odd := next(filter(structural, left), None):
        return f"no block is for its {odd} {shown(vision.data[odd])}"
    if left:
        made.notes.append(f"not read: {', '.join(f'{key}.{each}' for each in sorted(left))}")
    return made


def _named(outer: Config, vision: Config) -> str:
    """A tower by its own model type, else by its model's."""
    for config, words in ((vision, "a tower"), (outer, "the tower of a model")):
        said = config.data.get("model_type")
        if isinstance(said, str) and said:
            return f"{words} of type {said[:40]!r}"
    return "such a tower"


def _differing(vision: Config) -> str:
    """The nearest tower that blocks are for, and the fields that it does not know."""
    given = frozenset(vision.data) - SILENT
    near = max((kind for _, kind in TOWERS), key=lambda kind: _likeness(given, kind), default=None)
    extra = sorted(given - _fields(near)) if near else []
    if near is None or not extra:
        return ""
    shown = ", ".join(name[:40] for name in extra[:_MOST])
    more = f" and {len(extra) - _MOST} more" if len(extra) > _MOST else ""
    return f" (the nearest is that of {near.name}, which knows no {shown}{more})"


def _likeness(given: frozenset[str], kind: TowerKind) -> float:
    reads = _fields(kind)
    return len(given & reads) / (len(given | reads) or 1)


def _fields(kind: TowerKind) -> frozenset[str]:
    """Fields that a tower's reader asks for, learnt by letting it read nothing."""
    nothing: Mapping[str, Any] = {}
    outer, vision, text = (Config(nothing, Document("<none>")) for _ in range(3))
    draft = Draft(text)
    draft.dims["hidden"] = 1
    kind.read(Parts(outer, vision, draft))
    return frozenset(vision.read) - SILENT


def _said(tower: Tower) -> str:
    becomes = (tower.tokens - ("class_ids" in tower.inputs)) // tower.merged
    size = f" or tile of {tower.side} × {tower.side} pixels" if tower.side else ""
    return (
        f"its tower runs where step.prefill gives items: an item is an image{size},"
        f" {tower.tokens:,} rows unless item_tokens says else;"
        f" it becomes {becomes:,} tokens, which are part of the prompt's"
    )
