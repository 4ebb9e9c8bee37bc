"""What the columns of a table of cases mean: dotted paths of a deployment, and measured figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from planner.errors import Fault
from planner.registry import nearest
from planner.spec.csv_cells import Cell
from planner.spec.faults import did_you_mean, flat_members, members_at, shown
from planner.spec.origin import Document, Path
from planner.spec.short import FIELDS, paths
from planner.spec.types import DeploymentSpec

FIGURES = ("step_ms", "ttft_ms", "tpot_ms", "latency_s", "throughput_tok_s")
"""Figures of a run and of its prediction, by the unit in their names: ``measured.step_ms``."""
MEASURED, PREDICTED = "measured", "predicted"
RESULTS = (
    *(f"{PREDICTED}.{name}{end}" for name in FIGURES for end in ("", "_low", "_high")),
    "fits", "bound", "verdict", "ratio", "error",
)  # fmt: skip
"""Columns that results are written to. Read back, they are left aside and written anew."""
ID = "id"

Meaning = Literal["id", "deployment", "measured", "result", "free"]


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    line: int
    column: int
    """Where its heading stands."""
    meaning: Meaning
    path: Path = ()
    """Of a deployment's field; of a measured figure its name alone."""
    types: tuple[Any, ...] = ()
    """What the deployment's field takes."""

    @property
    def is_text(self) -> bool:
        """Whether cells are taken as they stand: version 0.10 is no number."""
        return bool(self.types) and set(self.types) <= {str, NoneType}

    @property
    def is_count(self) -> bool:
        """Whether the field takes whole numbers alone."""
        return int in self.types and float not in self.types


def columns(cells: Sequence[Cell], document: Document) -> tuple[list[Column], list[Fault]]:
    """The meaning of each heading, and every fault of the headings.

    A name with a dot is a path and must be known, a short name stands for one. Another one that is
    no field is the user's own and passes through, unless it is nearly a field: left aside, it would
    change the answer.
    """
    found: list[Column] = []
    faults: list[Fault] = []
    seen: dict[str, Cell] = {}
    short = paths([cell.text for cell in cells])
    for cell in cells:
        path = short.get(cell.text, cell.text)
        reason = _refusal(cell, path, seen)
        seen.setdefault(path, cell)
        if reason:
            faults.append(document.fault(cell.line, cell.column, *reason))
        found.append(_column(cell, path))
    return found, faults or _lacking(seen, document)


def field_fault(name: str) -> tuple[str, str | None] | None:
    """Why a dotted path names no field of a deployment, and a hint; None where it does."""
    if _field(name)[1]:
        return None
    guess = _meant(name)
    hint = f"did you mean {guess!r}?" if guess else "as in step.decode.batch"
    return f"a deployment has no field {shown(name)}", hint


def is_text(name: str) -> bool:
    """Whether the field of a dotted path takes a text as it stands."""
    return _column(Cell(name, 1, 1), name).is_text


def known_columns() -> tuple[str, ...]:
    """Every name that has a meaning; ``backend.flags.NAME`` stands for all flags."""
    measured = (f"{MEASURED}.{name}" for name in FIGURES)
    return (ID, *deployment_paths(), *measured, *RESULTS)


def deployment_paths() -> tuple[str, ...]:
    """Dotted paths of all fields of a deployment; ``backend.flags.NAME`` stands for all flags."""
    return tuple(dict.fromkeys(_leaves(DeploymentSpec, "")))


def _column(cell: Cell, name: str) -> Column:
    """The meaning of a heading; ``name`` is what it stands for, if it is a short one."""
    place = (cell.text, cell.line, cell.column)
    if name == ID:
        return Column(*place, "id")
    if name in RESULTS:
        return Column(*place, "result")
    head, _, rest = name.partition(".")
    if head == MEASURED and rest in FIGURES:
        return Column(*place, "measured", (rest,))
    path, types = _field(name)
    return Column(*place, "deployment", path, types) if types else Column(*place, "free")


def _field(name: str) -> tuple[Path, tuple[Any, ...]]:
    """The path of a deployment's field and the types it takes; none where there is no such field
    or it has fields itself.
    """
    places: list[Any] = [DeploymentSpec]
    path: list[str | int] = []
    for word in name.split("."):
        part = int(word) if re.fullmatch("[0-9]{1,3}", word) and _holds_lists(places) else word
        places = [inner for place in places for inner in members_at(place, part)]
        path.append(part)
    types = tuple(flat for place in places for flat in flat_members(place))
    whole = not all(name.split(".")) or any(
        get_origin(kind) in (tuple, dict) or _is_model(kind) for kind in types
    )
    return tuple(path), () if whole else types


def _holds_lists(places: Sequence[Any]) -> bool:
    return any(get_origin(flat) is tuple for place in places for flat in flat_members(place))


def _refusal(cell: Cell, path: str, seen: dict[str, Cell]) -> tuple[str, str | None] | None:
    """Why a heading cannot stand for ``path``, and a hint."""
    name = cell.text
    if not name:
        return "a column without a name", None
    if not name.isprintable():
        return f"unreadable column name {shown(name)}", "save the file as UTF-8"
    if path in seen:
        first = seen[path]
        called = "" if first.text == name else f", called {first.text!r}"
        return f"a second column {shown(path)}", f"the first is in column {first.column}{called}"
    if _column(cell, path).meaning != "free":
        return None
    guess = _meant(name)
    if guess is None and "." not in name:
        return None
    hint = f"did you mean {guess!r}?" if guess else "paths are those of a deployment and measured.*"
    return f"unknown column {shown(name)}", hint


def _meant(name: str) -> str | None:
    """The field that a name is a slip of: misspelt, in capitals, or without its path."""
    known, spelt = known_columns(), name.lower().replace(" ", "_")
    if spelt in FIELDS:
        return FIELDS[spelt]
    if spelt in known or spelt in _OTHER_WORDS:
        return _OTHER_WORDS.get(spelt, spelt)
    inside = [each for each in known if each.startswith(f"{spelt}.")]
    if inside:
        return inside[0]
    if "." in name:
        return nearest(spelt, known)
    ends = [each for each in known if each.rpartition(".")[2] == spelt]
    return ends[0] if ends else _misspelt(spelt, [each for each in known if "." not in each])


_OTHER_WORDS = {
    "engine_version": "backend.version",
    "dtype": "precision.weights",
}
"""Words of other tools for fields: left aside, such a column would change the answer."""


def _misspelt(name: str, known: Sequence[str]) -> str | None:
    """A field of few letters apart: ``modle``, ``gpus``; not ``note``, which is none of them."""
    guess = nearest(name, known)
    return guess if guess and (sorted(guess) == sorted(name) or f"{guess}s" == name) else None


def _lacking(seen: dict[str, Cell], document: Document) -> list[Fault]:
    """What no row could do without."""
    messages = [
        (f"column {name!r} is missing", did_you_mean(name, seen))
        for name in ("model", "gpu")
        if name not in seen
    ]
    if not any(name.startswith(("step.", "workload.")) for name in seen):
        messages.append(("there is no column of a step or workload", "as in step.decode.batch"))
    return [document.fault(1, 1, message, hint) for message, hint in messages]


def _leaves(kind: Any, path: str) -> Iterator[str]:
    """The paths of fields without fields of their own."""
    if _is_model(kind):
        for name, info in kind.model_fields.items():
            for member in flat_members(info.annotation):
                yield from _leaves(member, f"{path}.{name}" if path else name)
    elif get_origin(kind) is tuple:
        yield from _leaves(get_args(kind)[0], f"{path}.0")
    elif kind is not NoneType:
        yield f"{path}.NAME" if get_origin(kind) is dict else path


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
