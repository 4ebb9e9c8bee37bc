"""What a plan answers, as eight parts, each a hash, so that a diff can say which one moved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from planner.cost.engine import Engine
from planner.graph.modules import Scheme
from planner.plan.precision import hashed
from planner.spec.question import Question
from planner.spec.types import DeploymentSpec, Experts

COST_MODELS = {"calibrated": "calibrated-1", "roofline": "roofline-1"}
"""By name. The version moves when the same question may get another answer."""

ID_DIGITS = 12

_NAMES = {"name", "title", "about", "source", "sources", "published", "notes", "note", "label"}


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of a value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


_digests: dict[int, tuple[Any, str]] = {}


def spec_digest(spec: Any) -> str:
    """Digest of a spec's content without names. Remembered per object: specs are frozen."""
    known = _digests.get(id(spec))
    if known is None or known[0] is not spec:
        if len(_digests) > _REMEMBERED:
            _digests.clear()
        dump = spec.model_dump(mode="json", by_alias=True)
        known = _digests[id(spec)] = (spec, digest(_content(dump)))
    return known[1]


_REMEMBERED = 4096


def _content(dump: dict[str, Any]) -> dict[str, Any]:
    """Names at the top of a spec do not count; further in they tell nodes and flags apart.

    Nor do later fields that say nothing: plans of before there were any stay the same.
    """
    return {
        key: value
        for key, value in dump.items()
        if key not in _NAMES and not (key in _SILENT and value == _SILENT[key])
    }


_SILENT: dict[str, Any] = {
    "evidence": "calibrated",
    "host": None,
    "efficiency": {},
    "runs": None,
    "encoder": None,
    "quantization": None,
    "formats": [],
}


def model_digest(question: Question) -> str:
    """Digest of a model with the blocks it uses."""
    blocks = {name: spec_digest(block) for name, block in sorted(question.blocks.items())}
    return digest([spec_digest(question.model), blocks])


def parts(question: Question, scheme: Scheme, engine: Engine) -> dict[str, str]:
    """The eight hashes of a question. Names and prices are no part of it."""
    deployment = question.deployment
    step = deployment.step.model_dump(exclude_none=True) if deployment.step else None
    workload = deployment.workload.model_dump(exclude_none=True) if deployment.workload else None
    load: list[Any] = [step, workload]
    if deployment.experts != Experts():
        load.append(deployment.experts.model_dump())
    if deployment.speculation:
        draft = model_digest(question.draft) if question.draft else None
        load.append([deployment.speculation.model_dump(exclude={"draft"}), draft])
    return {
        "model": model_digest(question),
        "precision": digest(hashed(scheme)),
        "parallel": digest(_layout(deployment)),
        "device": spec_digest(question.gpu),
        "backend": digest(
            [
                spec_digest(question.backend),
                engine.version,
                dict(sorted(engine.flags.items())),
                deployment.memory.utilization,
                deployment.host.launch,
                *([engine.asked["version"]] if engine.asked else []),
            ]
        ),
        "workload": digest(load),
        "calibration": digest(_evidence(question)),
        "cost_model": digest(COST_MODELS[question.cost_model]),
    }


def _evidence(question: Question) -> list[str]:
    """The calibrations, and the spread of whole runs where there is one."""
    found = [spec_digest(each.calibration) for each in question.calibrations]
    return [*found, spec_digest(question.spread)] if question.spread else found


def _layout(deployment: DeploymentSpec) -> Any:
    """Ranks, and the nodes they lie on where there are several."""
    ranks = deployment.parallel.model_dump()
    for name in ("context", "prefill_context"):
        if ranks[name] == 1:
            del ranks[name]  # plans from before it was known keep their names
    if deployment.network is None:
        return ranks
    return [ranks, deployment.nodes, deployment.network.model_dump()]


def plan_id(hashes: Mapping[str, str]) -> str:
    """The first 12 hex digits over the parts."""
    return digest(dict(hashes))[:ID_DIGITS]
