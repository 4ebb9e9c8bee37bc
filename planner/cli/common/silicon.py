"""``planner validate --source aiconfigurator``: public serving measurements beside plans."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.calibrate.silicon_lint import Flagged
    from planner.calibrate.silicon_run import Predicted

_QUIET_S = 1.0


def silicon(
    catalogs: Sequence[Path],
    *,
    rows: str | None,
    by: str | None,
    limit: int | None,
    out: Path | None,
    as_json: bool,
    summary: bool,
) -> None:
    """Predict the rows of a half, the even one unasked, and print tables or one document."""
    from planner.calibrate.silicon_run import predict
    from planner.cli.common.output import show, write
    from planner.report.document import to_json
    from planner.report.silicon import silicon_view

    names, half = keys(by), rows or "even"
    picked = _picked(half, limit)
    processes = min(os.cpu_count() or 1, 8)
    found = list(_told(predict(picked, tuple(catalogs), processes), len(picked)))
    if out:
        _write_rows(out, found)
    body = _document(found, names, half)
    if as_json:
        listed = {} if summary else {"measurements": [_cells(each) for each in found]}
        write(to_json("silicon", {**body, **listed}))
    else:
        show(silicon_view(body))


def keys(by: str | None) -> tuple[tuple[str, ...], ...]:
    """What to group by: each of the usual ones by itself, or those asked for together.

    Raises UsageError for an unknown one.
    """
    from planner.calibrate.silicon_errors import BY, KEYS
    from planner.registry import nearest

    if by is None:
        return tuple((name,) for name in BY)
    names = tuple(dict.fromkeys(word.strip() for word in by.split(",")))
    for name in names:
        if name not in KEYS:
            guess = nearest(name, KEYS)
            hint = f"did you mean '{guess}'?" if guess else f"some of {', '.join(KEYS)}"
            raise UsageError(f"cannot group by '{name}'", hint)
    return (names,)


def _picked(rows: str, limit: int | None) -> list[Flagged]:
    """Rows of a half. A limit takes them by the hash of their ids, so that they are of all kinds.

    Rules see the whole file, whichever half is asked for.
    """
    import hashlib

    from planner.calibrate.silicon import path, read
    from planner.calibrate.silicon_lint import lint
    from planner.calibrate.silicon_run import alike

    asked = [each for each in lint(read(path())) if rows in ("all", each.row.half)]
    if limit is not None:
        asked.sort(key=lambda each: hashlib.sha1(each.row.id.encode()).digest())  # noqa: S324
        asked = asked[:limit]
    return alike(asked)


def _document(found: Sequence[Predicted], names: Sequence[Sequence[str]], half: str) -> Any:
    """The errors. Of all rows the even half alone is broken down: nobody is to study the other."""
    from planner.calibrate.aiconfigurator import PACKAGE, installed_version
    from planner.calibrate.silicon_errors import by, clean, refusals, rules, sets
    from planner.calibrate.silicon_ranking import ranking

    studied = [each for each in found if half != "all" or each.flagged.row.half == "even"]
    return {
        "source": f"{PACKAGE} {installed_version()}",
        "half": half,
        "rows": len(found),
        "sets": [asdict(each) for each in sets(found)],
        "rules": [asdict(each) for each in rules(found)],
        "ranking": {
            "all": asdict(ranking(found)),
            "clean": asdict(ranking([each for each in found if clean(each)])),
        },
        "groups": [
            {
                "by": list(columns),
                "rows": [{"group": group, **asdict(row)} for group, row in by(studied, columns)],
                "clean": [
                    {"group": group, **asdict(row)}
                    for group, row in by([each for each in studied if clean(each)], columns)
                ],
            }
            for columns in names
        ],
        "refused": [asdict(each) for each in refusals(found)],
    }


def _cells(each: Predicted) -> dict[str, Any]:
    """One row with its labels, its marks and its figures."""
    from planner.calibrate.silicon_errors import KEYS, clean

    row, split = each.flagged.row, each.flagged.split
    found: dict[str, Any] = {"id": row.id, **{name: of(each) for name, of in KEYS.items()}}
    found |= {"users": row.concurrency, "tensor": split.tensor, "data": split.data}
    found |= {"expert": split.expert, "flags": " ".join(each.flagged.flags), "clean": clean(each)}
    for name, figure in (("tpot", each.tpot), ("ttft", each.ttft)):
        found[f"{name}_measured_s"] = figure.measured_s if figure else None
        found[f"{name}_predicted_s"] = figure.predicted_s if figure else None
        found[f"{name}_inside"] = figure.inside if figure else None
    return {**found, "refused": each.refused}


def _write_rows(path: Path, found: Sequence[Predicted]) -> None:
    rows = [_cells(each) for each in found]
    try:
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "name a file with -o") from error


def _told(found: Iterable[Predicted], total: int) -> Iterator[Predicted]:
    """The rows, and on stderr how many of them there are so far."""
    begun = last = monotonic()
    for count, each in enumerate(found, start=1):
        yield each
        if (now := monotonic()) - last > _QUIET_S:
            last = now
            rate = count / (now - begun)
            sys.stderr.write(f"{count:,} of {total:,} rows, {rate:,.1f} a second\n")
            sys.stderr.flush()
