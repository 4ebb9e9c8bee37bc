"""Trace files: requests with the time each was sent at, in the shapes that are published.

- CSV of the Azure LLM inference traces: TIMESTAMP, ContextTokens, GeneratedTokens
  (https://github.com/Azure/AzurePublicDataset), with dates; or our own arrival_s, input, output.
- Lines of JSON of Mooncake: timestamp in milliseconds, input_length, output_length
  (https://github.com/kvcache-ai/Mooncake, FAST25-release/traces). Its block hashes are not used.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from planner.errors import Fault, SpecError, UsageError, Where
from planner.spec.source import absent
from planner.spec.types import DeploymentSpec

LARGEST_BYTES = 256 * 2**20
MOST_FAULTS = 20
_MOST_TOKENS = 100_000_000


@dataclass(frozen=True)
class TraceRow:
    """One request of a trace; the first one is sent at 0 s."""

    at_s: float
    input: int
    output: int


@dataclass(frozen=True)
class _Shape:
    time: str
    input: str
    output: str
    seconds: Callable[[Any], float]


def _number(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{value!r} is no time")
    return found


def _date(value: Any) -> float:
    # the traces have seven digits of a second, Python reads six
    text, _, digits = str(value).strip().partition(".")
    number, zone = digits[:6], digits.lstrip("0123456789")
    found = datetime.fromisoformat(f"{text}.{number}{zone}" if digits else text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


_CSV = (
    _Shape("TIMESTAMP", "ContextTokens", "GeneratedTokens", _date),
    _Shape("arrival_s", "input", "output", _number),
)
_JSON = _Shape("timestamp", "input_length", "output_length", lambda value: _number(value) / 1e3)


def read_trace(path: Path) -> tuple[TraceRow, ...]:
    """The requests of a trace file in the order they were sent.

    Raises UsageError for a file that cannot be read or has no such columns, SpecError with its
    first faults for rows that are no requests.
    """
    text = _text(path)
    lines, shape = _json_lines(text) if text.lstrip()[:1] == "{" else _csv_lines(text, path)
    rows, faults = [], []
    for number, line in lines:
        try:
            rows.append(_row(line, shape))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            faults.append(Fault(Where(str(path), number, 1), f"not a request: {what[:120]}"))
    if faults:
        raise SpecError(faults[:MOST_FAULTS])
    if not rows:
        raise UsageError(f"{path} holds no request")
    rows.sort(key=lambda row: row.at_s)
    first = rows[0].at_s
    return tuple(TraceRow(row.at_s - first, row.input, row.output) for row in rows)


def trace_of(deployment: DeploymentSpec) -> tuple[TraceRow, ...]:
    """The requests of a deployment's trace; none where it has none.

    Raises SpecError, at the trace's place for a file that cannot be read.
    """
    workload = deployment.workload
    if workload is None or workload.trace is None:
        return ()
    place = workload.origin.at("trace")
    try:
        return read_trace(place.folder() / workload.trace)
    except UsageError as error:
        message = str(error).removesuffix(f" ({error.hint})")
        raise SpecError([place.fault(message, error.hint)]) from None


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(f"{path} is larger than 256 MiB, too large for a trace")
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise absent(path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read {str(path)!r}: {reason}") from None


Lines = Iterator[tuple[int, Mapping[str, Any]]]


def _csv_lines(text: str, path: Path) -> tuple[Lines, _Shape]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        names = set(reader.fieldnames or ())
    except csv.Error:
        names = set()
    for shape in _CSV:
        if {shape.time, shape.input, shape.output} <= names:
            return ((reader.line_num, row) for row in reader), shape
    known = " or ".join(f"{s.time},{s.input},{s.output}" for s in _CSV)
    raise UsageError(f"{path} is no trace that is known", f"its first line is {known}")


def _json_lines(text: str) -> tuple[Lines, _Shape]:
    def parsed() -> Lines:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield number, _object(line)

    return parsed(), _JSON


def _object(line: str) -> Mapping[str, Any]:
    """An object; of anything else an empty one, which then lacks its fields."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _row(line: Mapping[str, Any], shape: _Shape) -> TraceRow:
    at_s = shape.seconds(line[shape.time])
    return TraceRow(at_s, _tokens(line[shape.input]), _tokens(line[shape.output]))


def _tokens(value: Any) -> int:
    found = int(value) if isinstance(value, str) else value
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found <= _MOST_TOKENS:
        raise ValueError(f"{value!r} is no number of tokens above zero")
    return found
