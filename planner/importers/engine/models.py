"""Models by their Hugging Face ids: the catalogue's name for one, where it has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from planner.dtypes import operand
from planner.importers.engine.precision import Formats, of_name
from planner.spec.catalog import Catalog
from planner.spec.types import ModelSpec

_ID = re.compile(r"https://huggingface\.co/([\w.-]+/[\w.-]+)")
_ROLE = re.compile(r"-(?:instruct|it|chat|hf|base|\d{4})(?=$|-v\d)")


@dataclass(frozen=True)
class Found:
    """What a command line's model is here."""

    name: str
    """A name of the catalogue, or the model as it was written."""
    known: bool
    formats: Formats | None = None
    """What its name says it is quantised to, where the catalogue does not have the same."""
    note: str | None = None
    quantized: bool = False
    """Whether the catalogue says how its checkpoint is quantised."""
    experts: bool = False
    """Whether the catalogue's model has routed experts."""
    scaled: bool = False
    """Whether FP8 activations would have one scale in the checkpoint: in NVIDIA's repositories."""


def find(text: str, catalog: Catalog) -> Found:
    """The catalogue's model for an id or a path; its name's last part counts."""
    models = [model for model in catalog.entries("model") if isinstance(model, ModelSpec)]
    found = _find(text, models)
    model = next((model for model in models if model.name == found.name), None)
    stored = model.quantization if model else None
    weights = stored.weights if stored else None
    experts = model is not None and "experts" in model.dims
    found = replace(found, experts=experts, scaled=text.lower().startswith("nvidia/"))
    if weights and found.formats and operand(weights) == operand(found.formats[0]):
        return replace(found, quantized=True, formats=None, note=None)
    return replace(found, quantized=stored is not None)


def _find(text: str, models: list[ModelSpec]) -> Found:
    # a repository may hold a draft head beside its model, whose name is the longer
    longest_first = sorted(models, key=lambda model: -len(model.name))
    ids = {id_of(model).lower(): model.name for model in longest_first}
    if text.lower() in ids:
        return Found(ids[text.lower()], known=True)
    base = text.rstrip("/").rsplit("/", 1)[-1]
    stripped, formats = of_name(base)
    bases = {key.rsplit("/", 1)[-1]: name for key, name in ids.items()}
    names = {model.name: model.name for model in models}
    for known, word in ((bases, stripped), (names, stripped)):
        if word.lower() in known:
            return Found(
                known[word.lower()], known=True, formats=formats, note=_told(formats, text)
            )
    sibling = _only({**bases, **names}, stripped)
    if sibling:
        note = f"{text[:80]} is taken to have the sizes of {sibling}"
        return Found(sibling, known=True, formats=formats, note=note)
    config = _config(text)
    return Found(config or text, known=config is not None, formats=None if config else formats)


def _config(text: str) -> str | None:
    """The config.json of a folder on this machine."""
    try:
        path = Path(text) / "config.json"
        return str(path.resolve()) if path.is_file() else None
    except (OSError, ValueError):
        return None


def _told(formats: Formats | None, text: str) -> str | None:
    return f"precision.weights: {formats[0]} is read from the name {text[:80]}" if formats else None


def id_of(model: ModelSpec) -> str:
    """Its Hugging Face id where its source is one, else its name here."""
    found = _ID.match(model.source)
    return found[1] if found else model.name


def _only(known: dict[str, str], word: str) -> str | None:
    """The one model that differs in its role alone: base, chat, instruct."""
    plain: Callable[[str], str] = _without_role
    found = {name for key, name in known.items() if plain(key) == plain(word)}
    return found.pop() if len(found) == 1 else None


def _without_role(word: str) -> str:
    word = word.lower().removeprefix("meta-")
    while (shorter := _ROLE.sub("", word)) != word:
        word = shorter
    return word
