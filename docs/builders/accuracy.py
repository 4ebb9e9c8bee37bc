"""Tables of errors and lint, from the calibration files that ship.

What they hold of each fit is what `planner validate` finds again in the measured tables.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from builders.markup import code, table
from planner.calibrate.lint import EXCLUDING, REASONS
from planner.spec.catalog import Catalog
from planner.spec.types import CalibrationSpec, KernelCalibration, RejectedTable

GPUS = {
    "a100-80gb-sxm": "A100",
    "h100-sxm": "H100",
    "h200-sxm": "H200",
    "b200-sxm": "B200",
    "b300-sxm": "B300",
    "gb200": "GB200",
    "gb300": "GB300",
    "l40s": "L40S",
    "rtx-pro-6000-server": "RTX PRO",
    "arc-pro-b60": "B60",
}
FAMILIES = (
    "gemm",
    "attention_prefill",
    "attention_decode",
    "mla_prefill",
    "mla_decode",
    "moe",
    "collective",
    "elementwise",
    "recurrent",
)


@dataclass(frozen=True)
class Cell:
    """One variant of a family on one GPU under one engine."""

    gpu: str
    engine: str
    family: str
    variant: str
    fit: KernelCalibration


@functools.cache
def _specs() -> tuple[CalibrationSpec, ...]:
    catalog = Catalog.standard()
    return tuple(catalog.find("calibration", name) for name in catalog.names("calibration"))


@functools.cache
def cells() -> tuple[Cell, ...]:
    """Every fit of the catalogue."""
    return tuple(_cells())


def _cells() -> Iterator[Cell]:
    for spec in _specs():
        for name, fit in spec.kernels.items():
            family, _, variant = name.partition(".")
            yield Cell(spec.gpu, spec.backend, family, variant, fit)


def families() -> str:
    """How many rows were read, fitted and held back, and the errors' range over cells."""
    rows = []
    for family in FAMILIES:
        mine = [cell.fit for cell in cells() if cell.family == family]
        rows.append(
            (
                code(family),
                f"{len(mine)}",
                *(f"{sum(getattr(f.rows, part) for f in mine):,}" for part in _COUNTS),
                _spread([f.errors.median for f in mine]),
                _spread([f.errors.mean for f in mine]),
                _spread([f.errors.coverage for f in mine], digits=0),
            )
        )
    return table(("family", "cells", *_COUNTS, "median, %", "mean, %", "in 80 %, %"), rows)


_FIGURE = re.compile(r"take (\d+) us")
_COUNTS = ("read", "kept", "fitted", "held")


def _spread(values: Sequence[float], digits: int = 1) -> str:
    """Lowest, middle and highest."""
    ordered = sorted(values)
    places = (0, len(ordered) // 2, -1)
    low, middle, high = (f"{100 * ordered[place]:.{digits}f}" for place in places)
    return f"{low} · {middle} · {high}"


def by_gpu(family: str) -> str:
    """Median / mean error of each cell, in per cent, a column per GPU."""
    mine = [cell for cell in cells() if cell.family == family]
    gpus = [gpu for gpu in GPUS if any(cell.gpu == gpu for cell in mine)]
    found = {(cell.variant, cell.engine, cell.gpu): cell.fit for cell in mine}
    keys = sorted({(cell.variant, cell.engine) for cell in mine})
    rows = [
        (code(variant), engine, *(_errors(found.get((variant, engine, gpu))) for gpu in gpus))
        for variant, engine in keys
    ]
    return table(("variant", "engine", *(GPUS[gpu] for gpu in gpus)), rows)


def _errors(fit: KernelCalibration | None) -> str:
    return f"{100 * fit.errors.median:.1f}/{100 * fit.errors.mean:.1f}" if fit else ""


@dataclass(frozen=True)
class Target:
    """What was set out to be reached in each cell: median and mean, in per cent."""

    title: str
    median: float
    mean: float
    holds: Callable[[Cell], bool]


def _of(family: str, *ways: Callable[[Cell], bool]) -> Callable[[Cell], bool]:
    return lambda cell: cell.family == family and all(way(cell) for way in ways)


def _on(*gpus: str) -> Callable[[Cell], bool]:
    return lambda cell: cell.gpu in gpus


def _not_on(*gpus: str) -> Callable[[Cell], bool]:
    return lambda cell: cell.gpu not in gpus


def _bf16(cell: Cell) -> bool:
    return cell.variant == "bf16"


def _narrow(cell: Cell) -> bool:
    return cell.variant != "bf16"


def _newest_of_engines(cell: Cell) -> bool:
    return cell.variant in {"all_reduce_engine", "all_reduce_symmetric"}


TARGETS = (
    Target("GEMM BF16", 5.5, 8, _of("gemm", _bf16, _not_on("l40s", "arc-pro-b60"))),
    Target("GEMM BF16, L40S", 7, 10, _of("gemm", _bf16, _on("l40s"))),
    Target("GEMM BF16, B60", 10, 15, _of("gemm", _bf16, _on("arc-pro-b60"))),
    Target("GEMM FP8, INT8, NVFP4, weight-only", 10, 14, _of("gemm", _narrow)),
    Target("attention prefill", 9, 13, _of("attention_prefill")),
    Target("attention decode, of any length", 8, 13, _of("attention_decode")),
    Target("MLA prefill", 8, 12, _of("mla_prefill")),
    Target("MLA decode", 8, 12, _of("mla_decode")),
    Target("mixture of experts", 12, 17, _of("moe")),
    Target("NCCL", 6, 10, _of("collective", lambda cell: cell.engine in {"nccl", "oneccl"})),
    Target(
        "custom all-reduce",
        6,
        10,
        _of("collective", lambda c: "engine" in c.variant or "symmetric" in c.variant),
    ),
)


def targets() -> str:
    """How many cells miss their target, and which."""
    rows = []
    for target in TARGETS:
        mine = [cell for cell in cells() if target.holds(cell)]
        late = [cell for cell in mine if _misses(cell, target)]
        rows.append(
            (
                target.title,
                f"{target.median:g} / {target.mean:g}",
                f"{len(mine) - len(late)} of {len(mine)}",
                "; ".join(_named(late)),
            )
        )
    return table(("cells of", "target", "within", "beyond: lowest to highest"), rows)


def _misses(cell: Cell, target: Target) -> bool:
    errors = cell.fit.errors
    return round(100 * errors.median, 1) > target.median or round(100 * errors.mean, 1) > (
        target.mean
    )


def _named(late: Sequence[Cell]) -> Iterator[str]:
    """Cells by variant and engine, each with its GPUs and the range of their errors."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in late:
        groups.setdefault((cell.variant, cell.engine), []).append(cell)
    for (variant, engine), members in sorted(groups.items()):
        ordered = sorted(members, key=lambda cell: cell.fit.errors.median)
        ends = dict.fromkeys(_errors(cell.fit) for cell in (ordered[0], ordered[-1]))
        gpus = [GPUS[gpu] for gpu in GPUS if any(cell.gpu == gpu for cell in members)]
        yield f"{code(variant)} {engine} {', '.join(gpus)} {' to '.join(ends)}"


def coverage() -> str:
    """Cells by the share of their held-back rows that the 80 % interval holds."""
    edges = (0.0, 0.6, 0.7, 0.75, 0.85, 1.01)
    rows = []
    for family in FAMILIES:
        shares = [cell.fit.errors.coverage for cell in cells() if cell.family == family]
        counts = [
            sum(low <= share < high for share in shares) for low, high in itertools.pairwise(edges)
        ]
        rows.append((code(family), *(f"{count}" if count else "" for count in counts)))
    header = ("family", "below 60 %", "60 to 70", "70 to 75", "75 to 85", "above 85")
    return table(header, rows)


def lint() -> str:
    """How many rows bear each flag, and what it means."""
    counts: dict[str, Counter[str]] = {family: Counter() for family in FAMILIES}
    for cell in cells():
        counts[cell.family].update(cell.fit.rows.flags)
    used = [flag for flag in REASONS if any(counts[family][flag] for family in FAMILIES)]
    rows = [
        (
            code(flag),
            REASONS[flag],
            "left out" if flag in EXCLUDING else "kept",
            f"{sum(counts[family][flag] for family in FAMILIES):,}",
            ", ".join(f"{code(f)} {counts[f][flag]:,}" for f in FAMILIES if counts[f][flag]),
        )
        for flag in used
    ]
    return table(("flag", "meaning", "rows are", "rows", "where"), rows)


def rejected() -> str:
    """Tables that were read and not used. Reasons that differ in a figure alone stand together."""
    found: dict[tuple[str, str], list[tuple[str, RejectedTable]]] = {}
    for spec in _specs():
        for each in spec.rejected:
            place = f"{GPUS.get(spec.gpu, spec.gpu)} {spec.backend}"
            alike = _FIGURE.sub("{}", each.reason)
            found.setdefault((each.kernel, alike), []).append((place, each))
    rows = [
        (
            code(kernel),
            ", ".join(place for place, _ in members),
            f"{sum(each.rows for _, each in members):,}",
            _reason([each.reason for _, each in members]),
        )
        for (kernel, _), members in sorted(found.items(), key=lambda item: item[0])
    ]
    return table(("kernel", "GPU and engine", "rows", "why"), rows)


def _reason(reasons: Sequence[str]) -> str:
    """One reason for all, with the range of the figure that differs."""
    figures = sorted({int(found[1]) for reason in reasons if (found := _FIGURE.search(reason))})
    if len(figures) > 1:
        return _FIGURE.sub(f"take {figures[0]} to {figures[-1]} us", reasons[0])
    return reasons[0] or "too few rows"


def effective() -> str:
    """Constants that stand for something their model lacks, and how often."""
    rows = []
    for family in FAMILIES:
        mine = [cell for cell in cells() if cell.family == family]
        beyond = Counter(name for cell in mine for name in cell.fit.effective)
        bound = Counter(name for cell in mine for name in cell.fit.at_bound)
        rows.append((code(family), f"{len(mine)}", _counted(beyond), _counted(bound)))
    return table(("family", "cells", "beyond what is physical", "left at a bound"), rows)


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{code(name)} {count}" for name, count in names.most_common())


PARTS: Mapping[str, Callable[[], str]] = {
    "families": families,
    "targets": targets,
    "coverage": coverage,
    "lint": lint,
    "rejected": rejected,
    "effective": effective,
}
