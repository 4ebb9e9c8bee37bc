"""``planner validate --source inductor``: kernels of plans beside those of TorchInductor."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.calibrate.compiled import Recorded


def inductor(catalogs: Sequence[Path], *, limit: int | None, as_json: bool) -> None:
    """Compile small models, compare groupings, and print tables or one document."""
    from planner.calibrate.compiled_document import document
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of
    from planner.report.document import to_json
    from planner.report.inductor import inductor_view

    torch = _torch()
    body = document(list(_recorded(torch, limit)), catalog_of(tuple(catalogs)), torch.__version__)
    if as_json:
        write(to_json("inductor", body))
    else:
        show(inductor_view(body))


def _torch() -> Any:
    """The package. Raises UsageError without it, or with one whose scheduler reads differently."""
    from importlib import import_module
    from importlib.util import find_spec

    hint = "pip install 'inference-planner[lab]' 'torch==2.13.0', or make inductor"
    if find_spec("torch") is None:
        raise UsageError("comparing kernels with TorchInductor needs torch", hint)
    torch = import_module("torch")
    if not torch.__version__.startswith("2.13."):
        raise UsageError(f"torch {torch.__version__} is not the 2.13 whose kernels are read", hint)
    return torch


def _recorded(torch: Any, limit: int | None) -> Iterator[Recorded]:
    from planner.lab.inductor import RULES
    from planner.lab.nets import NETS

    names = list(NETS)[:limit]
    for rules in RULES:
        for count, name in enumerate(names, start=1):
            sys.stderr.write(f"{rules}: {name}, {count} of {len(names)}\n")
            sys.stderr.flush()
            yield record(torch, name, rules)


def record(torch: Any, name: str, rules: Any) -> Recorded:
    """Export and compile one model."""
    from planner.calibrate.compiled import Recorded, TheirKernel
    from planner.importers.exported.origins import traced
    from planner.importers.exported.torch_file import program_export
    from planner.lab.inductor import compiled
    from planner.lab.nets import BATCH, NETS, net

    module, inputs = net(name)
    program = torch.export.export(module, inputs)
    found, made = traced(program_export(program), name), compiled(program, inputs, rules)
    return Recorded(
        name,
        rules,
        found.data,
        found.steps,
        tuple(TheirKernel(each.kind, each.name, each.origins) for each in made.kernels),
        BATCH,
        NETS[name].tokens,
        NETS[name].apart,
        made.functions,
        made.error,
        made.seconds,
    )
