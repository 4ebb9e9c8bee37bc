"""Refresh generated parts of the documentation: ``python docs/generate.py [--check] [--apart]``.

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``, an example's
output between ``<!-- output: COMMAND -->`` and ``<!-- end -->``. The commands between
``<!-- session: FOLDER -->`` and ``<!-- end -->`` are run in that folder, those of a page in turn
against one store, and what they print is put under them. With ``--check`` nothing is
written, and the exit code is 1 when something is out of date. With ``--apart`` it does so for the
pages whose figures take long.
"""

# ruff: noqa: INP001 - a script beside the pages it refreshes
from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT)]

from builders import (  # noqa: E402 - found through sys.path
    accuracy,
    architectures,
    attention_rates,
    choosing,
    claims,
    commands,
    cuda_graphs,
    fused_pairs,
    fused_sums,
    fusion_gains,
    inductor,
    kernel_shapes,
    kernels,
    kv_capacity,
    megakernels,
    outputs,
    plan_json,
    questions,
    runs,
    scheduling,
    served,
    service,
    serving_accuracy,
    sessions,
    specs,
    static_accuracy,
    whole_models,
)

PAGES = (
    "README.md",
    "docs/accuracy.md",
    "docs/baselines.md",
    "docs/calibration.md",
    "docs/choosing.md",
    "docs/claims.md",
    "docs/cli.md",
    "docs/extending.md",
    "docs/fusion.md",
    "docs/import.md",
    "docs/inductor.md",
    "docs/json.md",
    "docs/memory.md",
    "docs/model.md",
    "docs/public-runs.md",
    "docs/questions.md",
    "docs/scheduling.md",
    "docs/service.md",
    "docs/serving-accuracy.md",
    "docs/serving.md",
    "docs/specs.md",
    "docs/static-accuracy.md",
    "docs/sweeps.md",
)
"""Pages with generated parts."""
APART = ("docs/attention.md", "docs/cuda-graphs.md", "docs/fusion-gains.md")
"""Those that no test refreshes."""

_PART = re.compile(
    r"<!-- (?P<kind>generated|output): (?P<what>.+?) -->\n.*?<!-- end -->", re.DOTALL
)
_SESSION = re.compile(r"<!-- session: (?P<what>.+?) -->\n(?P<body>.*?)<!-- end -->", re.DOTALL)
_PARTS: dict[str, Callable[[], str]] = {
    "architectures": architectures.table,
    "towers": architectures.towers,
    "operators": specs.operators,
    "attributes": specs.operator_attributes,
    "formulas": specs.formulas,
    "units": specs.units,
    "formats": specs.formats,
    "faults": specs.faults,
    "commands": commands.reference,
    "choosing": choosing.by_hand,
    "shapes": kernel_shapes.shapes,
    "widths": kernels.widths,
    "questions": questions.figures,
    "service-routes": service.routes,
    "service-limits": service.limits,
    "service-load": service.load,
    **{f"attention-{name}": part for name, part in attention_rates.PARTS.items()},
    **{f"gains-{name}": part for name, part in fusion_gains.PARTS.items()},
    **{f"gains-{name}": part for name, part in fused_pairs.PARTS.items()},
    **{f"graphs-{name}": part for name, part in cuda_graphs.PARTS.items()},
    **{f"runs-{name}": part for name, part in runs.PARTS.items()},
    **{f"kv-{name}": part for name, part in kv_capacity.PARTS.items()},
    **{f"sums-{name}": part for name, part in fused_sums.PARTS.items()},
    **{f"megakernels-{name}": part for name, part in megakernels.PARTS.items()},
    **{f"claims-{name}": part for name, part in claims.PARTS.items()},
    **{f"whole-{name}": part for name, part in whole_models.PARTS.items()},
    **{f"served-{name}": part for name, part in served.PARTS.items()},
    **{f"inductor-{name}": part for name, part in inductor.PARTS.items()},
    **{f"serving-{name}": part for name, part in serving_accuracy.PARTS.items()},
    **{f"static-{name}": part for name, part in static_accuracy.PARTS.items()},
    **{f"scheduling-{name}": part for name, part in scheduling.PARTS.items()},
    **{f"accuracy-{name}": part for name, part in accuracy.PARTS.items()},
}
_PARTS_OF: dict[str, Callable[[str], str]] = {
    "fields": specs.fields,
    "json": plan_json.fields,
    "constants": kernels.constants,
    "kernels": kernels.kernels,
    "cells": accuracy.by_gpu,
    "runs": runs.others,
    "serving": serving_accuracy.groups,
    "static": static_accuracy.groups,
}
"""Parts that need a word on what: a class, a kernel family, or a basis."""


def refreshed(text: str) -> str:
    """A page with every generated part as it should be. Raises KeyError for an unknown part."""
    return _PART.sub(_made, _SESSION.sub(_sessions(text), text))


def _sessions(text: str) -> Callable[[re.Match[str]], str]:
    """What puts the sessions of a page, in the order they stand there, in place of each other."""
    found = list(_SESSION.finditer(text))
    made: dict[int, str] = {}
    for folder in {part["what"] for part in found}:
        parts = [part for part in found if part["what"] == folder]
        bodies = tuple(part["body"] for part in parts)
        for part, body in zip(parts, sessions.replayed(bodies, ROOT / folder), strict=True):
            made[part.start()] = f"<!-- session: {folder} -->\n\n{body}\n\n<!-- end -->"
    return lambda part: made[part.start()]


def _made(found: re.Match[str]) -> str:
    kind, what = found["kind"], found["what"]
    body = outputs.fenced(what, ROOT) if kind == "output" else _part(what)
    return f"<!-- {kind}: {what} -->\n\n{body}\n\n<!-- end -->"


def _part(what: str) -> str:
    name, _, argument = what.partition(" ")
    return _PARTS_OF[name](argument) if argument else _PARTS[name]()


def stale(pages: tuple[str, ...] = PAGES) -> list[str]:
    """Pages that would change."""
    return [page for page in pages if refreshed(read := (ROOT / page).read_text()) != read]


def main(arguments: list[str]) -> int:
    """Write the pages that changed, or only name them."""
    changed = stale(APART if "--apart" in arguments else PAGES)
    for page in changed:
        if "--check" not in arguments:
            path = ROOT / page
            path.write_text(refreshed(path.read_text()))
        sys.stdout.write(f"{page}\n")
    return int(bool(changed) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
