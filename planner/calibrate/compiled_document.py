"""The agreement of plans with a compiler as one document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from planner.calibrate.compiled import Compared, Recorded, compared
from planner.calibrate.compiled_reasons import disagreements
from planner.calibrate.compiled_worth import worth
from planner.fusion.agreement import Counts
from planner.spec.catalog import Catalog

SETS = ("settled", "apart", "all")
"""Models that rules were settled with, those written afterwards, and both."""


def document(recorded: Sequence[Recorded], catalog: Catalog, version: str) -> dict[str, Any]:
    """All models, and sums over the sets of them, by rules. ``version`` is that of torch."""
    found = [compared(each, catalog) for each in recorded]
    rules = dict.fromkeys(each.recorded.rules for each in found)
    return {
        "torch": version,
        "sets": [_set(name, rule, found) for rule in rules for name in SETS],
        "models": [_model(each) for each in found],
    }


def _set(name: str, rules: str, found: Iterable[Compared]) -> dict[str, Any]:
    wanted = {"settled": (False,), "apart": (True,), "all": (False, True)}[name]
    chosen = [c for c in found if c.recorded.rules == rules and c.recorded.apart in wanted]
    whole, groupings = Counts(), Counts()
    for each in chosen:
        whole, groupings = whole + each.counts, groupings + each.groupings
    return {
        "name": name,
        "rules": rules,
        "models": len(chosen),
        **agreement(whole),
        "groupings": agreement(groupings),
    }


def agreement(counts: Counts) -> dict[str, float]:
    """Counts with precision, recall and F1."""
    scores = {name: getattr(counts, name) for name in ("precision", "recall", "f1")}
    return {**asdict(counts), **scores}


def _model(found: Compared) -> dict[str, Any]:
    recorded, own = found.recorded, worth(found)
    extern = sum(kernel.kind == "extern" for kernel in recorded.kernels)
    return {
        "model": recorded.name,
        "rules": recorded.rules,
        "apart": recorded.apart,
        **agreement(found.counts),
        "groupings": agreement(found.groupings),
        "kernels": {
            "theirs": len(recorded.kernels),
            "calls": extern,
            "of_no_node": _of_no_node(found),
            "ours": own.ours_kernels,
        },
        "disagreements": [asdict(each) for each in disagreements(found)],
        "worth": {**asdict(own), "saved_s": own.saved_s},
        "compiled": {
            "functions": recorded.functions,
            "error": recorded.error,
            "seconds": recorded.seconds,
        },
    }


def _of_no_node(found: Compared) -> int:
    """Kernels that compute no node of the plan: tables of positions, copies for a layout."""
    wanted = {step for steps in found.recorded.steps.values() for step in steps}
    return sum(not wanted & set(kernel.origins) for kernel in found.recorded.kernels)
