"""How often an engine runs which batch: written out, in a file, or read from its log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from planner.errors import Fault, SpecError, UsageError, Where
from planner.spec.source import absent

LARGEST_BATCH = 65_536
LARGEST_BYTES = 64 * 2**20
_WRITTEN = re.compile(r"\s*\d+\s*(:\s*[0-9.eE+-]+\s*)?(,\s*\d+\s*(:\s*[0-9.eE+-]+\s*)?)*")
_LOGGED = re.compile(r"(?:#running-req: |Running: )(\d+)")
"""SGLang's `Decode batch … #running-req: 17`, vLLM's `Running: 17 reqs`."""
_HINT = "as in 1:10,8:50, a YAML mapping of batches to weights, a CSV of batch,weight, or a log"


def read_batches(given: str) -> dict[int, float]:
    """Weights by batch, ascending: ``1:10,8:50``, or a file of YAML, CSV, or an engine's log.

    A batch without a weight counts once, each time that it stands there. Raises UsageError for what
    is neither, SpecError at the line of a file that is no batch.
    """
    if _WRITTEN.fullmatch(given):
        pairs = (part.partition(":") for part in given.split(","))
        return _summed(_pair(batch, weight or 1) for batch, _, weight in pairs)
    return _of_file(Path(given))


def _of_file(path: Path) -> dict[int, float]:
    text = _text(path)
    logged = _LOGGED.findall(text)
    if logged:
        return _summed(_pair(batch, 1) for batch in logged if int(batch))
    if path.suffix in {".yaml", ".yml"}:
        return _summed(_yaml(text, path))
    return _csv(text, path)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(f"{path} is larger than 64 MiB, too large for batches")
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise absent(path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read {str(path)[:200]!r}: {reason}", _HINT) from None


def _yaml(text: str, path: Path) -> Iterable[tuple[int, float]]:
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping) or not found:
        raise UsageError(f"{path} is no mapping of batches to weights", _HINT)
    return [_pair(batch, weight) for batch, weight in found.items()]


def _csv(text: str, path: Path) -> dict[int, float]:
    pairs, faults = [], []
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.split(",")]
        if not line.strip() or (number == 1 and cells[0] == "batch"):
            continue
        try:
            pairs.append(_pair(cells[0], cells[1] if len(cells) > 1 else 1))
        except UsageError as error:
            faults.append(Fault(Where(str(path), number, 1), str(error).partition(" (")[0]))
    if faults:
        raise SpecError(faults[:20])
    return _summed(pairs)


def _pair(batch: Any, weight: Any) -> tuple[int, float]:
    """Raises UsageError for what is no batch or no weight."""
    try:
        found = int(batch) if not isinstance(batch, bool | float) else 0
        often = float(weight)
    except (TypeError, ValueError):
        found, often = 0, 0.0
    if not 0 < found <= LARGEST_BATCH or not 0 <= often < float("inf"):
        given = f"{batch}: {weight}"[:60]
        raise UsageError(f"{given!r} is no batch of 1 to {LARGEST_BATCH:,} with its weight", _HINT)
    return found, often


def _summed(pairs: Iterable[tuple[int, float]]) -> dict[int, float]:
    found: dict[int, float] = {}
    for batch, weight in pairs:
        found[batch] = found.get(batch, 0.0) + weight
    found = {batch: weight for batch, weight in sorted(found.items()) if weight}
    if not found:
        raise UsageError("there is no batch with a weight", _HINT)
    return found
