"""A Hugging Face config.json to a model spec, which keeps its places in the config."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from planner.dtypes import DType
from planner.errors import SpecError
from planner.spec.hf.draft import Draft
from planner.spec.hf.fields import Config
from planner.spec.hf.front import VISION, front
from planner.spec.hf.modules import Blocks
from planner.spec.hf.quantization import Stored, stored
from planner.spec.hf.refusal import unread, unsupported
from planner.spec.hf.registry import ARCHITECTURES, Architecture, by_model_type
from planner.spec.hf.scheme import quantization
from planner.spec.hf.tower import Tower
from planner.spec.origin import Document, Mark, Path

_DTYPES: dict[str, DType] = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16"}
_TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "thinker_config")
_CONTAINER = ("torch_dtype", "dtype", "quantization_config", "tie_word_embeddings")
"""Fields that a model of several parts keeps outside of its text model's config."""


@dataclass(frozen=True)
class Imported:
    """A config as a model spec's plain data."""

    architecture: str
    data: dict[str, Any]
    document: Document
    """The config's text, with the places that the spec's fields were read at."""
    stored: Stored
    notes: tuple[str, ...]


def is_config(data: Any) -> bool:
    """Whether data is a Hugging Face config and no spec of ours."""
    return (
        isinstance(data, dict)
        and "kind" not in data
        and bool({"architectures", "model_type"} & data.keys())
    )


def converted(
    data: dict[str, Any], document: Document, blocks: Blocks, name: str | None = None
) -> Imported:
    """The model spec of a config. Raises SpecError with every fault, each at its field."""
    outer = Config(data, document)
    config, inner = _text_model(outer)
    known = _architecture(config)
    draft = known.read(config) if known else Draft(config)
    tower, notes = front(outer, draft, inner) if known else (None, [])
    kept = _stored(config, inner)
    wide = _dtype(config, notes)
    if known:
        draft.notes += _leftover(config)
    if outer.faults:
        raise SpecError(dict.fromkeys(outer.faults))
    title = name or _title(outer, document)
    body = _body(draft, title, wide, PurePath(document.file).name, known.name if known else "")
    if said := quantization(kept, draft, blocks, wide, tower):
        body["quantization"] = said
    if tower:
        body["encoder"] = _encoder(tower)
    body["sequence"] = draft.sequence
    notes += [*draft.notes, *kept.notes]
    placed = _placed(document, draft, tower)
    return Imported(known.name if known else "", body, placed, kept, tuple(notes))


def _text_model(outer: Config) -> tuple[Config, str | None]:
    """The config of the text model, and the key it stands under; None where it is the whole."""
    key = next((key for key in _TEXT_CONFIGS if isinstance(outer.data.get(key), dict)), None)
    if key is None:
        return outer, None
    inner = outer.data[key]
    lifted = {
        part: outer.data[part]
        for part in _CONTAINER
        if outer.data.get(part) is not None and inner.get(part) is None
    }
    config = Config({**inner, **lifted}, outer.document, (key,), outer.faults, frozenset(lifted))
    return config, key


def _architecture(config: Config) -> Architecture | None:
    names, model_type = config.texts("architectures"), config.text("model_type")
    for name in names:
        if found := ARCHITECTURES.get(name):
            return found
    found = None if names else by_model_type(model_type)
    if found is None and not config.faults:
        at = "architectures" if names else "model_type"
        config.faults.append(unsupported(config, names[0] if names else model_type or "", at))
    return found


def _stored(config: Config, inner: str | None) -> Stored:
    """How it is quantised; what stands in the text model's config says nothing of a tower."""
    found = config.inside("quantization_config")
    kept = stored(found) if found else Stored()
    own = inner is not None and "quantization_config" not in config.lifted
    return replace(kept, text_only=kept.text_only or own)


def _dtype(config: Config, notes: list[str]) -> DType:
    key = config.first("torch_dtype", "dtype")
    given = config.text(key)
    if given in (None, "auto"):
        return "bf16"
    word = given.removeprefix("torch.") if given else ""
    if word == "float32":
        notes.append("stored in FP32; engines load it in 16 bit, which is counted here")
        return "bf16"
    if word not in _DTYPES:
        config.refuse(key, f"{word[:30]!r} is no format known here", ", ".join(_DTYPES))
    return _DTYPES.get(word, "bf16")


def _leftover(config: Config) -> list[str]:
    left = unread(config)
    return [f"not read: {', '.join(sorted(left)[:20])}"] if left else []


def slug(text: str) -> str:
    """A name as the catalogue writes names; ``imported`` where nothing of it is left."""
    found = re.sub(r"[^a-z0-9._+-]+", "-", text.lower()).strip("-._+")
    return found[:80] or "imported"


def _title(outer: Config, document: Document) -> str:
    """The repository's name where the config says it, else its folder's or its file's."""
    said = outer.data.get("_name_or_path")
    path = PurePath(document.file)
    folder = "" if path.parent.name in ("", "..") else path.parent.name
    stem = "" if path.stem == "config" else path.stem
    word = PurePath(said).name if isinstance(said, str) and said.strip("./") else ""
    printable = "".join(c for c in word or stem or folder if c.isprintable())
    return printable[:80] or "imported"


def _body(draft: Draft, title: str, weights: str, file: str, architecture: str) -> dict[str, Any]:
    source = f"{file} ({architecture})"
    body: dict[str, Any] = {"kind": "model", "name": slug(title), "title": title, "source": source}
    body["dims"] = draft.dims
    if draft.options:
        body["options"] = draft.options
    if draft.inputs:
        body["inputs"] = draft.inputs
    if draft.max_context:
        body["max_context"] = draft.max_context
    return {**body, "weights": weights}


def _encoder(tower: Tower) -> dict[str, Any]:
    said: dict[str, Any] = {"tokens": tower.tokens, "inputs": tower.inputs, "dims": tower.dims}
    if tower.options:
        said["options"] = tower.options
    return {**said, "sequence": tower.sequence}


def _placed(document: Document, draft: Draft, tower: Tower | None) -> Document:
    """The config's text with a mark for every field of the spec whose place is known."""
    marks: dict[Path, Mark] = {}
    if () in document.marks:
        marks[()] = document.marks[()]
    places = dict(draft.places)
    if tower:
        places["encoder",] = (VISION,)
        places |= {("encoder", *path): place for path, place in tower.places.items()}
    for path, place in places.items():
        found = _mark(document, place)
        if found is not None:
            marks[path] = document.marks[found]
    return Document(document.file, document.lines, marks, document.folder)


def _mark(document: Document, place: Path) -> Path | None:
    """The nearest place above that the text has."""
    while place and place not in document.marks:
        place = place[:-1]
    return place if place in document.marks else None
