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
import re
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
_DIGITS = re.compile(r"\s*[+-]?\d{1,12}\s*")


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
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"{value!r} is no time")
    return found


def _date(value: Any) -> float:
    # the traces have seven digits of a second, Python reads six
    text, _, digits = str(value).strip().partition(".")
    number, zone = digits[:6], digits.lstrip("0123456789")
    try:
        found = datetime.fromisoformat(f"{text}.{number}{zone}" if digits else text)
    except ValueError:
        raise ValueError(f"{value!r} is no date, as in 2023-11-16 18:17:03.98") from None
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
        except (ValueError, OverflowError) as error:
            faults.append(Fault(Where(str(path), number, 1), f"not a request: {str(error)[:120]}"))
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


Lines = Iterator[tuple[int, Mapping[str, Any] | str]]


def _csv_lines(text: str, path: Path) -> tuple[Lines, _Shape]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        names = set(reader.fieldnames or ())
    except csv.Error:
        names = set()
    for shape in _CSV:
        if {shape.time, shape.input, shape.output} <= names:
            return ((reader.line_num, row) for row in reader), shape
    heads = [f"{shape.time},{shape.input},{shape.output}" for shape in _CSV]
    known = f"its first line is {' or '.join(heads)}, or each line an object of JSON"
    raise UsageError(f"{path} is no trace that is known", known)


def _json_lines(text: str) -> tuple[Lines, _Shape]:
    def parsed() -> Lines:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield number, line

    return parsed(), _JSON


def _object(line: str) -> Mapping[str, Any]:
    """An object. Raises ValueError for anything else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("a line is one object of JSON")  # noqa: TRY004 - a fault of the file
    return found


def _row(line: Mapping[str, Any] | str, shape: _Shape) -> TraceRow:
    cells = _object(line) if isinstance(line, str) else line
    time, prompt, output = (_cell(cells, n) for n in (shape.time, shape.input, shape.output))
    return TraceRow(shape.seconds(time), _tokens(prompt), _tokens(output))


def _cell(cells: Mapping[str, Any], name: str) -> Any:
    """Raises ValueError where there is none: a short line has None under its last headings."""
    if cells.get(name) is None:
        raise ValueError(f"{name} is missing")
    return cells[name]


def _tokens(value: Any) -> int:
    """As JSON has a number, or as CSV has its digits."""
    found = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found <= _MOST_TOKENS:
        raise ValueError(f"{value!r} is no number of tokens above zero")
    return found
