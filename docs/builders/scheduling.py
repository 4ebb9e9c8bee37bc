"""How the described engines form steps and what their hosts spend, version by version."""

from __future__ import annotations

from collections.abc import Iterator

from builders.markup import table
from planner.cost.engine import Engine, resolve
from planner.cost.scheduler import host_costs, scheduler
from planner.ops.types import Formats
from planner.resources import folder
from planner.spec.load import load_file, load_text
from planner.spec.types import BackendSpec, DeploymentSpec, GpuSpec
from planner.units import show_seconds

_GPU, _LONGEST, _POOL = "h100-sxm", 8192, 400_000
_FORMATS = Formats("bf16", "bf16", "bf16", "bf16")
_WORDS = {True: "yes", False: "no"}


def steps() -> str:
    """Who shares a step with whom, by the defaults of each version."""
    rows = []
    for engine in _engines():
        found = scheduler(engine, _LONGEST, _POOL)
        rows.append(
            (
                f"{engine.spec.title} {engine.version}",
                found.order.replace("_", " "),
                _WORDS[found.mixed],
                _WORDS[found.chunked],
                f"{found.tokens:,} of {found.counts}",
                f"{found.sequences:,}",
                _WORDS[found.prefix_cache],
                f"{found.admission}, {found.preemption}",
                _WORDS[found.asynchronous],
            )
        )
    return table(
        (
            "engine",
            "first",
            "mixed",
            "cuts prompts",
            "tokens",
            "sequences",
            "prefix cache",
            "KV to start, and when it runs out",
            "asynchronous",
        ),
        rows,
    )


def host() -> str:
    """What the host of each version spends."""
    rows = []
    for engine in _engines():
        found = host_costs(engine)
        loop_s = found.loop_s(64)
        shown_s = found.exposed_s + found.serial_share * loop_s
        times = (found.step_s, found.sequence_s, loop_s, shown_s, found.request_s)
        rows.append((f"{engine.spec.title} {engine.version}", *map(show_seconds, times)))
    return table(
        ("engine", "a step", "a sequence", "64 sequences", "not hidden of these", "a request"), rows
    )


def _engines() -> Iterator[Engine]:
    gpu = load_file(folder("catalog") / "gpus" / f"{_GPU}.yaml", "gpu")
    assert isinstance(gpu, GpuSpec)
    for path in sorted((folder("catalog") / "backends").glob("*.yaml"), reverse=True):
        spec = load_file(path, "backend")
        assert isinstance(spec, BackendSpec)
        for version in spec.versions if spec.serving else ():
            yield resolve(_deployment(spec.name, version), spec, gpu, _FORMATS, "decode")


def _deployment(name: str, version: str) -> DeploymentSpec:
    text = f"model: any\ngpu: {_GPU}\nbackend: {{name: {name}, version: '{version}'}}\n"
    found = load_text(f"{text}step: {{decode: {{batch: 1, context: 1}}}}", "docs", "deployment")
    assert isinstance(found, DeploymentSpec)
    return found


PARTS = {"steps": steps, "host": host}
"""Generated parts of docs/scheduling.md by name."""
