"""Sweeps: begun, watched, cancelled, and their best rows to look at and to take along."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from planner.errors import PlannerError
from planner.plan.swept import RANKINGS
from planner.service.bodies import Id
from planner.service.desk import Served
from planner.service.forms import Form
from planner.service.models import EXAMPLE_DEPLOYMENT
from planner.service.pages.answers import PageRoute, onward, page
from planner.service.pages.fields import deployment_in, text_in
from planner.service.pages.write import stored, text_of
from planner.service.problems import Refused, told
from planner.service.routes.sweeps import SweepId, begun
from planner.service.sweep import Asked

router = APIRouter(route_class=PageRoute, include_in_schema=False)
SORTS: Mapping[str, str] = {
    "tok_s_per_gpu": "output tokens/s per GPU",
    "tok_s": "output tokens/s",
    "step_ms": "time of a step",
    "tpot_ms": "time per output token",
    "ttft_ms": "time to first token",
    "latency_s": "latency",
    "usd_per_mtok": "price per million tokens",
}
_HEADS: Mapping[str, str] = {
    "tok_s_per_gpu": "tokens/s per GPU",
    "tok_s": "tokens/s",
    "step_ms": "step, ms",
    "tpot_ms": "TPOT, ms",
    "ttft_ms": "TTFT, ms",
    "latency_s": "latency, s",
    "usd_per_mtok": "USD per M tokens",
}
_TOP = 100
_MOST_AXES = 32
_EXAMPLE = "gpu=rtx-4090,l40s,h100-sxm\nbatch=1:64"


@router.get("/sweeps")
async def list_(request: Request, desk: Served, of: Id | None = None) -> Response:
    """Sweeps of the store, the newest first, and a form that begins one."""
    text = EXAMPLE_DEPLOYMENT if of is None else text_of(await stored(desk, of))
    form = {"text": text, "over": _EXAMPLE, "sort": "tok_s_per_gpu"}
    rows = await desk.sweeps.newest()
    return page(request, "sweeps.html", rows=rows, form=form, sorts=SORTS, found=None)


@router.post("/sweeps")
async def begin(request: Request, desk: Served, form: Form) -> Response:
    """Begin a sweep and show it; back to the form where something is wrong with it."""
    text, over = deployment_in(form), text_in(form, "over", 20_000)
    sort = text_in(form, "sort")
    if sort not in RANKINGS:
        raise Refused(422, "sort: there is no such figure")
    axes = tuple(over.split())
    if len(axes) > _MOST_AXES:
        raise Refused(422, f"{len(axes)} axes are over {_MOST_AXES}")
    try:
        sweep = await begun(desk, Asked(text.encode(), axes, (), sort, _TOP, "calibrated"))
    except (PlannerError, Refused) as error:
        rows, shown = await desk.sweeps.newest(), told(error)
        kept = {"text": text, "over": over, "sort": sort}
        return page(
            request, "sweeps.html", shown.status, rows=rows, form=kept, sorts=SORTS, found=shown
        )
    return onward(f"/sweeps/{sweep.sweep_id}")


@router.get("/sweeps/{sweep_id}")
async def one(request: Request, desk: Served, sweep_id: SweepId) -> Response:
    """A sweep: how far it is, or its best rows."""
    sweep = await desk.sweeps.find(sweep_id)
    summary = sweep.summary if sweep.status == "done" else None
    columns, rows = table(summary["rows"] if summary else ())
    return page(
        request,
        "sweep.html",
        sorts=SORTS,
        sweep=sweep,
        summary=summary,
        heads=[_HEADS.get(name, name) for name in columns],
        rows=rows,
        numbers=[all(map(_is_number, column)) for column in zip(*rows, strict=True)],
    )


@router.post("/sweeps/{sweep_id}/cancel")
async def cancel(desk: Served, sweep_id: SweepId, form: Form) -> Response:
    """Stop a sweep."""
    del form  # its token was looked at
    await desk.sweeps.cancel(await desk.sweeps.find(sweep_id))
    return onward(f"/sweeps/{sweep_id}")


@router.get("/sweeps/{sweep_id}/rows.csv")
async def taken(desk: Served, sweep_id: SweepId) -> Response:
    """The best rows as a table for other programs."""
    sweep = await desk.sweeps.find(sweep_id)
    if sweep.status != "done" or sweep.summary is None:
        raise Refused(404, "this sweep has no rows yet", "wait until it is done")
    columns, rows = table(sweep.summary["rows"])
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows([["" if cell is None else _plain(cell) for cell in row] for row in rows])
    named = f'attachment; filename="sweep-{sweep_id}.csv"'
    return Response(out.getvalue(), media_type="text/csv", headers={"content-disposition": named})


def table(found: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Columns and cells: what varies, then what is predicted of it."""
    if not found:
        return [], []
    axes = list(found[0]["cells"])
    figures = list(dict.fromkeys(name for row in found for name in row["predicted"]))
    rest = [name for name in ("tok_s_per_gpu", "usd_per_mtok") if any(row[name] for row in found)]
    rows = [
        [
            *(row["cells"].get(name) for name in axes),
            "yes" if row["fits"] else "no",
            *((row["predicted"].get(name) or {}).get("value") for name in figures),
            *(row[name] for name in rest),
            row["bound"],
        ]
        for row in found
    ]
    return [*axes, "fits", *figures, *rest, "bound"], rows


def _is_number(cell: Any) -> bool:
    return not isinstance(cell, str) or cell.isdecimal()


def _plain(cell: Any) -> Any:
    """No cell is a formula for a spreadsheet."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@\t\r" else cell
