"""Plans, runs and baselines as JSON lines, to move them from one database to another.

One object a line; the first says the format. What a store has already stays as it is.
"""

from __future__ import annotations

import errno
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from planner.errors import Fault, SpecError, UsageError, Where
from planner.plan.runs import KernelTime, Metric, Run, Source
from planner.plan.values import plain
from planner.store.repository import Store
from planner.store.runs import traced
from planner.store.session import durable
from planner.store.types import BaselineRow, StoredPlan, StoredRun

FORMAT = 1
"""Version of the lines. Fields may be added within a version, not renamed."""
KINDS = ("plan", "run", "baseline")


def export_lines(store: Store) -> Iterator[str]:
    """Everything in the store, each line with its newline; what is referred to comes first."""
    yield from lines_of(store.every_plan(), store.every_run())
    for row in store.every_baseline():
        yield _line({"kind": "baseline", **vars(row)})


def lines_of(plans: Iterable[StoredPlan], runs: Iterable[StoredRun]) -> Iterator[str]:
    """An export of some plans and runs alone."""
    yield _line({"kind": "planner-export", "format": FORMAT})
    for plan in plans:
        yield _line({"kind": "plan", **vars(plan)})
    for stored in runs:
        raw = b64encode(stored.raw).decode("ascii")
        yield _line({"kind": "run", **vars(stored), "run": plain(stored.run), "raw": raw})


def write_lines(file: Path, lines: Iterable[str]) -> int:
    """Write a new file, on the disk when this returns; how many lines. None is left on failure.

    Raises UsageError when it is there already or cannot be written.
    """
    try:
        with file.open("x", encoding="utf-8") as out:
            try:
                count = sum(1 for line in lines if out.write(line))
                out.flush()
                durable(file)
                durable(file.parent)
            except BaseException:
                file.unlink(missing_ok=True)
                raise
    except OSError as error:
        # Closing writes once more, so what failed above fails again here, as OSError too.
        reason = error.strerror
        raise UsageError(f"{file} cannot be written: {reason}", _hint(error)) from error
    return count


def _hint(error: OSError) -> str:
    full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    return "name a file where there is more space" if full else "name a new file"


def import_lines(store: Store, lines: Iterable[str], file: str) -> dict[str, tuple[int, int]]:
    """Keep what the lines hold; by kind, how many were new and how many were there already.

    Lines before a wrong one are kept, and importing twice is the same as once. Raises SpecError at
    the line that is none of ours, damaged, or of another format.
    """
    found: Counter[tuple[str, bool]] = Counter()
    for number, line in enumerate(lines, 1):
        where = Where(file, number, 1)
        document = _document(line, where)
        if number == 1:
            _check_head(document, where)
            continue
        kind = document.pop("kind", None)
        if kind not in KINDS:
            raise SpecError([Fault(where, f"unknown kind {kind!r}", "known: " + ", ".join(KINDS))])
        try:
            new = _KEEP[kind](store, document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"the {kind} is damaged: {type(error).__name__}: {error}"
            raise SpecError([Fault(where, message, "export it again")]) from error
        found[kind, new] += 1
    return {kind: (found[kind, True], found[kind, False]) for kind in KINDS}


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, default=datetime.isoformat, separators=(",", ":")) + "\n"


def _document(line: str, where: Where) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SpecError([Fault(where, "no JSON object", "the file may be cut short")]) from error
    if not isinstance(document, dict):
        raise SpecError([Fault(where, "no JSON object", "one object a line is meant")])
    return document


def _check_head(document: Mapping[str, Any], where: Where) -> None:
    if document.get("kind") != "planner-export":
        hint = "`planner db export FILE` writes one"
        raise SpecError([Fault(where, "this is no export of planner", hint)])
    if document.get("format") != FORMAT:
        message = f"the export is of format {document.get('format')}, not {FORMAT}"
        raise SpecError([Fault(where, message, "use the planner that wrote it")])


def _keep_plan(store: Store, document: dict[str, Any]) -> bool:
    created_at = datetime.fromisoformat(document.pop("created_at"))
    return store.save_plan(StoredPlan(**document, created_at=created_at))


def _keep_run(store: Store, document: dict[str, Any]) -> bool:
    at = datetime.fromisoformat(document.pop("recorded_at"))
    raw = b64decode(document.pop("raw"), validate=True)
    run = _run(document.pop("run"))
    return store.save_run(StoredRun(**document, recorded_at=at, raw=raw, run=run))


def _run(data: Mapping[str, Any]) -> Run:
    return Run(
        Source(**data["source"]),
        tuple(Metric(**metric) for metric in data["metrics"]),
        {name: tuple(values) for name, values in data["samples"].items()},
        data["context"],
        tuple(KernelTime(**kernel) for kernel in data["kernels"]),
        tuple(data["notes"]),
        traced(data),
    )


def _keep_baseline(store: Store, document: dict[str, Any]) -> bool:
    set_at = datetime.fromisoformat(document.pop("set_at"))
    return store.keep_baseline(BaselineRow(**document, set_at=set_at))


_KEEP: Mapping[str, Callable[[Store, dict[str, Any]], bool]] = {
    "plan": _keep_plan,
    "run": _keep_run,
    "baseline": _keep_baseline,
}
