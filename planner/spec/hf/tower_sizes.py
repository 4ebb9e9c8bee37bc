"""Sizes of towers: dims, patches and rows of an image, read with what can contradict itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.spec.faults import shown
from planner.spec.hf.fields import MOST_LAYERS, Config
from planner.spec.hf.tower import Parts, Tower

SIDE = 1024
"""Pixels at a side of the image that is taken where a config names none: the next multiple of a
token's side, as 1036 of Qwen2.5-VL's 28."""
LARGEST_IMAGE = 2**15


@dataclass(frozen=True)
class Words:
    """What a family calls the sizes of its towers."""

    hidden: str = "hidden_size"
    intermediate: str = "intermediate_size"
    layers: str = "num_hidden_layers"
    heads: str = "num_attention_heads"


STANDARD = Words()


@dataclass(frozen=True)
class Sizes:
    """What a class of transformers has where its config says nothing."""

    hidden: int
    intermediate: int
    layers: int
    heads: int


def started(parts: Parts, has: Sizes, words: Words = STANDARD, frames: int = 1) -> Tower:
    """The dims that all towers have. ``frames`` of a video are one patch."""
    made = Tower(parts.vision)
    hidden = made.dim("hidden", words.hidden, has.hidden)
    heads = made.dim("heads", words.heads, has.heads)
    made.put("kv_heads", heads, words.heads)
    if hidden % heads:
        made.config.refuse(words.hidden, f"{hidden} is not divisible by {heads} heads")
    made.put("head_dim", max(1, hidden // heads), words.heads)
    if words.intermediate:
        made.dim("intermediate", words.intermediate, has.intermediate)
    colours = made.config.count(made.config.first("num_channels", "in_channels", "in_chans"), 3)
    _patch(made)
    made.put("patch_elements", colours * frames * made.patch**2, "patch_size")
    made.put("text_hidden", parts.text.dims["hidden"], "hidden_size")
    return made


def _patch(made: Tower) -> None:
    """Read the side of a patch, without which no image can be counted."""
    config = made.config
    if config.get("patch_size") is None:
        config.refuse("patch_size", "is missing, and without it no image can be counted")
    else:
        made.patch = square(config, "patch_size", 1, most=SIDE)


def square(config: Config, key: str, default: int, most: int = LARGEST_IMAGE) -> int:
    """A side in pixels or patches, given as a number or as a list of equal ones."""
    value = config.get(key)
    if isinstance(value, list):
        side = value[0] if value and all(each == value[0] for each in value) else None
        if type(side) is not int or not 1 <= side <= most:
            config.refuse(key, f"expected equal sides of at most {most:,}, got {shown(value)}")
            return default
        return side
    return config.count(key, default, most=most)


def layers_of(made: Tower, words: Words, default: int) -> int:
    """How many layers the tower has."""
    made.places["sequence",] = made.config.place(words.layers)
    return made.config.count(words.layers, default, most=MOST_LAYERS)


def grid(made: Tower, default: int) -> int:
    """Patches at a side of the image that `image_size` gives; sets the tower's rows."""
    side, patch = square(made.config, "image_size", default), made.patch
    if side < patch:
        made.config.refuse("image_size", f"{side} pixels are less than a patch of {patch}")
    count = max(1, side // patch)
    made.tokens, made.side = count**2, side
    return count


def with_class(made: Tower, side: int) -> None:
    """Inputs of a tower that has a row for the whole image beside its patches."""
    made.put("patches", side**2, "image_size")
    made.put("positions", side**2 + 1, "image_size")
    made.tokens = side**2 + 1
    rows = ["patches * sequences", "patch_elements"]
    made.inputs = {"patches": rows, "class_ids": ["sequences"], "position_ids": ["tokens"]}


def with_positions(made: Tower) -> None:
    """Inputs of a tower with learned positions."""
    made.inputs = {"patches": ["tokens", "patch_elements"], "position_ids": ["tokens"]}


def free(made: Tower, merge: int) -> None:
    """The rows of an image for a tower that takes any, ``merge`` patches to a token's side."""
    unit, made.merged = merge * made.patch, merge**2
    made.side = unit * math.ceil(SIDE / unit)
    made.tokens = (made.side // made.patch) ** 2


def same_width(parts: Parts, config: Config, key: str) -> None:
    """Refuse a tower that ends in another width than the text model's."""
    width = config.maybe(key)
    hidden = parts.text.dims["hidden"]
    if width is not None and width != hidden and not config.faults:
        config.refuse(key, f"the tower ends {width} wide, the text model is {hidden} wide")


def unlike(config: Config, **wanted: tuple[object, ...]) -> str | None:
    """The first field that is neither absent nor as the blocks have it, in words."""
    found = None
    for key, allowed in wanted.items():
        value = config.get(key)
        same = any(type(value) is type(each) and value == each for each in allowed)
        if value is not None and not same:
            found = found or f"{key} {shown(value)}"
    return found


def told(config: Config, *keys: str) -> None:
    """Fields that change neither a tower's graph nor its sizes."""
    for key in keys:
        config.get(key)
