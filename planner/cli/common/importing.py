"""Imported specs: read, built once to see that they hold, and written where they were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner import units
from planner.cli.common.output import show, write
from planner.errors import SpecError, UsageError
from planner.graph.build import model_graph, told
from planner.graph.totals import kv_bytes_per_token, parameters
from planner.ops.types import Formats
from planner.report.document import to_json
from planner.report.imports import import_view
from planner.spec import hf
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of
from planner.spec.source import compose, read_bytes
from planner.spec.types import ModelSpec
from planner.spec.write import written


@dataclass(frozen=True)
class Imported:
    """A spec that was made of something else."""

    kind: str
    """As in ``import-hf``, the kind of the JSON object."""
    spec: Mapping[str, Any]
    comments: Mapping[str, Sequence[str]]
    facts: Mapping[str, Any]
    """What was found out on the way, for people and programs."""
    notes: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...] = field(default=())
    """Words of a command line, one by one; none for a config."""


def hf_import(file: Path, name: str | None, catalog: Catalog) -> Imported:
    """The model spec of a config.json. Raises SpecError, or UsageError for an unreadable file."""
    data, document = compose(read_bytes(file), str(file))
    if not hf.is_config(data):
        hint = "a config.json has architectures or model_type"
        raise UsageError(f"{file} is no Hugging Face config", hint)
    found = hf.converted(data, document, lambda block: catalog.find("block", block), name)
    model = hf.model_of(found)
    facts = {"architecture": found.architecture, **sizes(model, catalog)}
    head = [f"Made by `planner import hf` from {file.name} ({found.architecture})"]
    return Imported("import-hf", found.data, {"": [*head, *found.notes]}, facts, found.notes)


def sizes(model: ModelSpec, catalog: Catalog) -> dict[str, Any]:
    """Parameters of a model, those of its tower among them, and bytes of cache a token.

    Raises SpecError, at the model, for one whose sizes do not suit its blocks.
    """
    wide = Formats("bf16", "bf16", "bf16", "bf16")
    try:
        graph = model_graph(model, blocks_of(model, catalog), wide)
    except SpecError as error:
        raise told(error, model) from error
    whole, alone = parameters(graph), parameters(graph.alone)
    tower = {"tower_parameters": whole - alone} if graph.encoder else {}
    return {"parameters": whole, **tower, "kv_bytes_per_token": kv_bytes_per_token(graph)}


def deliver(found: Imported, output: Path | None, *, force: bool, as_json: bool) -> None:
    """Print the spec, or write it to a file and say what was read.

    Raises UsageError where the file exists and ``force`` is not set, or cannot be written.
    """
    text = written(found.spec, found.comments)
    if output is not None:
        _save(output, text, force=force)
    if as_json:
        body = {**found.facts, "notes": list(found.notes)}
        rows = {"words": list(found.rows)} if found.rows else {}
        write(to_json(found.kind, {"spec": found.spec, **body, **rows}))
    elif output is None:
        write(text)
    else:
        show(import_view(str(output), _said(found.facts), found.notes, found.rows))


def _said(facts: Mapping[str, Any]) -> dict[str, str]:
    words = dict(facts)
    for name in {"parameters", "tower_parameters"} & words.keys():
        words[name] = units.show_count(words[name])
    if "kv_bytes_per_token" in words:
        words["kv_bytes_per_token"] = f"{words['kv_bytes_per_token']:,.0f} in 16 bit"
    return {name.replace("_", " "): str(value) for name, value in words.items()}


def _save(path: Path, text: str, *, force: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder", f"as in -o {path / 'spec.yaml'}")
    if path.exists() and not force:
        raise UsageError(f"{path} exists", "--force writes over it")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
