"""What was measured, a line each as soon as it is known: a run that was stopped goes on there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from planner.lab.job import Job
from planner.lab.machine import Machine
from planner.lab.refusal import LabRefused

FORMAT = 2
NAME = "points.jsonl"
SAMPLES = "samples_s"
"""Among a point's values: each single time, where they were kept."""
_ANOTHER = "name another folder, or measure anew with --fresh"


@dataclass(frozen=True)
class Point:
    """One measurement: what, at which sizes, and what came out."""

    kind: str
    """gemm, vector, stream, attention, launch, collective, sentinel or step."""
    sizes: Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict)
    """In SI, with the unit in the name."""
    lap: int = 0
    """In which pass over the parts it was measured."""

    @property
    def key(self) -> str:
        """What tells it from others."""
        return json.dumps([self.kind, self.sizes, self.lap], sort_keys=True)


class Journal:
    """Points on disk, in the order they were measured."""

    def __init__(self, folder: Path, job: Job, machine: Machine, *, fresh: bool = False) -> None:
        """Open a folder's journal, or begin it.

        Raises LabRefused where it holds another job's points or another machine's, or is damaged.
        """
        self.path = folder / NAME
        self.lap = 0
        self.points: dict[str, Point] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            self.path.unlink(missing_ok=True)
        head = {"planner_lab": FORMAT, "job": job.digest, "machine": asdict(machine)}
        if self.path.exists():
            self._resume(head)
        else:
            self._append(head)

    def _resume(self, head: dict[str, Any]) -> None:
        known, points = read(self.path)
        if known.get("job") != head["job"]:
            raise LabRefused(f"{self.path} holds the measurements of another job", _ANOTHER)
        if known.get("machine", {}).get("name") != head["machine"]["name"]:
            raise LabRefused(f"{self.path} was measured on another machine", _ANOTHER)
        self.points = {point.key: point for point in points}
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:  # a line that was being written when the run was stopped
            self.path.write_bytes(whole)

    def known(self, kind: str, sizes: Mapping[str, Any]) -> Point | None:
        """A point of this lap that an earlier run measured."""
        return self.points.get(Point(kind, sizes, lap=self.lap).key)

    def add(self, kind: str, sizes: Mapping[str, Any], values: Mapping[str, Any]) -> Point:
        """Keep a point of this lap, on disk before this returns."""
        point = Point(kind, sizes, values, self.lap)
        self.points[point.key] = point
        self._append(asdict(point))
        return point

    def of(self, kind: str) -> tuple[Point, ...]:
        """Every point of a kind, of all laps."""
        return tuple(point for point in self.points.values() if point.kind == kind)

    def _append(self, line: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            os.fsync(stream.fileno())


def read(path: Path) -> tuple[dict[str, Any], tuple[Point, ...]]:
    """The head and the points of a journal. Raises LabRefused for a file that is none."""
    try:
        head, *lines = _lines(path)
        if head["planner_lab"] != FORMAT:
            raise LabRefused(f"{path} was written by another version", _ANOTHER)
        return head, tuple(Point(**line) for line in lines)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabRefused(f"{path} is no journal of the lab: {error}", _ANOTHER) from error


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines: the last one is left out where it was cut off."""
    text = path.read_text(encoding="utf-8")
    for line in text[: text.rfind("\n") + 1].splitlines():
        yield json.loads(line)
