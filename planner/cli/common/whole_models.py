"""``planner validate --whole-models``: kernels of whole models beside their measured rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from planner.calibrate.types import Pick


def whole_models(
    root: Path, catalogs: Sequence[Path], names: Collection[str], pick: Pick, *, as_json: bool
) -> None:
    """Compare, and print tables or one document; ``names`` are the families to show."""
    from planner.cli.common.output import show, write
    from planner.report.document import to_json
    from planner.report.whole_models import whole_models_view

    body = _document(root, catalogs, names, pick)
    if as_json:
        write(to_json("whole_models", body))
    else:
        show(whole_models_view(body))


def _document(
    root: Path, catalogs: Sequence[Path], names: Collection[str], pick: Pick
) -> dict[str, Any]:
    from planner.calibrate.whole_errors import by_case, by_cell, by_family, other_kernels
    from planner.calibrate.whole_models import ComparedStep, Refused, compare
    from planner.cli.common.planning import catalog_of
    from planner.plan.values import plain

    found = list(compare(root, catalog_of(catalogs), pick))
    steps = [each for each in found if isinstance(each, ComparedStep)]
    kernels = [
        [{**plain(row), "beyond": row.beyond} for row in rows if row.family in names]
        for rows in (by_family(steps), by_cell(steps))
    ]
    return {
        "families": kernels[0],
        "cells": kernels[1],
        "cases": [plain(row) for row in by_case(steps)],
        "other_kernels": [plain(row) for row in other_kernels(steps) if row.family in names],
        "refused": [
            {
                "gpu": each.gpu,
                "engine": each.engine,
                "model": each.case.model,
                "case": each.case.words,
                "reason": each.reason,
            }
            for each in found
            if isinstance(each, Refused)
        ],
    }
