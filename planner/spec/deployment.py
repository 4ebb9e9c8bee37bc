"""What a deployment must be beyond its fields' types, and what isn't built yet."""

from __future__ import annotations

from planner.errors import Fault
from planner.spec.faults import said
from planner.spec.types import DeploymentSpec, Step

_UNBUILT = {
    "prefix_cache": "give workload.cached, the share of prompt tokens it holds",
    "pools": "plan prefill and decode as two deployments",
    "adapters": "plan the base model",
}


GAP = "?"
"""Stands in an imported deployment where the source could not say."""


def check(deployment: DeploymentSpec) -> list[Fault]:
    """Every fault of a deployment whose fields are each right by themselves."""
    faults = [*_gaps(deployment), *_question(deployment), *_groups(deployment)]
    faults += [*_unbuilt(deployment), *_experts(deployment), *_nodes(deployment)]
    faults += [*_context(deployment), *_speculation(deployment)]
    if deployment.step:
        faults += _members(deployment.step)
    return faults


def _speculation(deployment: DeploymentSpec) -> list[Fault]:
    asked = deployment.speculation
    if asked is None:
        return []
    faults, origin = [], asked.origin
    if (asked.acceptance is None) == (asked.length is None):
        hint = "as in speculation: {tokens: 3, acceptance: 0.7}"
        message = "needs either acceptance or length"
        faults.append(origin.fault(said(origin.path, message), hint, key=True))
    elif asked.length and asked.length > asked.tokens + 1:
        place = origin.at("length")
        message = f"a step yields at most tokens + 1 = {asked.tokens + 1}, got {asked.length:g}"
        faults.append(place.fault(said(place.path, message)))
    if deployment.step and not deployment.step.decode:
        message = "only a decode step or a workload has draft tokens to verify"
        faults.append(origin.fault(said(origin.path, message), "give step.decode", key=True))
    if deployment.parallel.pipeline > 1:
        message = "not supported yet in a pipeline"
        faults.append(origin.fault(said(origin.path, message), "use parallel.tensor", key=True))
    return faults


def members(step: Step) -> list[str]:
    """Which of decode, prefill, mixed and shapes a step has; a checked one has exactly one."""
    return [name for name in Step.model_fields if getattr(step, name) is not None]


def _question(deployment: DeploymentSpec) -> list[Fault]:
    if deployment.step is None and deployment.workload is None:
        hint = "as in step: {decode: {batch: 1, context: 4096}}"
        return [deployment.origin.fault("missing a step or a workload", hint)]
    if deployment.step and deployment.workload:
        place = deployment.origin.at("workload")
        message = "a deployment has a step or a workload, not both"
        return [place.fault(said(place.path, message), "remove one of them", key=True)]
    return []


def _gaps(deployment: DeploymentSpec) -> list[Fault]:
    hints = {
        "model": "a name of `planner catalog list models`, or ./config.json",
        "gpu": "a name of `planner catalog list gpus`, as in gpu: h100-sxm",
    }
    places = [
        (deployment.origin.at(name), hint)
        for name, hint in hints.items()
        if getattr(deployment, name) == GAP
    ]
    return [
        place.fault(said(place.path, "is still to be filled in"), hint) for place, hint in places
    ]


def _members(step: Step) -> list[Fault]:
    given, choices = members(step), ", ".join(Step.model_fields)
    if not given:
        return [step.origin.fault(said(step.origin.path, f"must hold one of {choices}"))]
    faults = []
    for name in given[1:]:
        place = step.origin.at(name)
        message = f"a step is one of {choices}; this one has {given[0]} already"
        faults.append(place.fault(said(place.path, message), "remove one of them", key=True))
    return faults


def _groups(deployment: DeploymentSpec) -> list[Fault]:
    faults = []
    for group in (deployment.step and deployment.step.mixed) or ():
        if group.kv_tokens < group.new_tokens:
            place = group.origin.at("kv_tokens")
            message = f"must be at least new_tokens = {group.new_tokens}, got {group.kv_tokens}"
            hint = "kv_tokens includes the new tokens"
            faults.append(place.fault(said(place.path, message), hint))
    return faults


def _experts(deployment: DeploymentSpec) -> list[Fault]:
    """Experts lie over the ranks of each replica, or over those of all replicas."""
    parallel = deployment.parallel
    tensor, replicas = parallel.tensor, parallel.data * parallel.prefill_context
    everywhere = tensor * replicas
    if tensor % parallel.expert == 0 or parallel.expert == everywhere:
        return []
    place = parallel.origin.at("expert")
    message = f"{parallel.expert} do not fit tensor {tensor} × data {replicas} ranks"
    hint = f"a divisor of {tensor}, or {everywhere}: expert parallelism reuses those ranks"
    return [place.fault(said(place.path, message), hint)]


def _context(deployment: DeploymentSpec) -> list[Fault]:
    """Ranks that share a context are tensor ranks side by side."""
    parallel = deployment.parallel
    if parallel.tensor % parallel.context == 0:
        return []
    place = parallel.origin.at("context")
    message = f"{parallel.context} do not divide tensor {parallel.tensor} ranks"
    return [place.fault(said(place.path, message), f"a divisor of {parallel.tensor}")]


def _nodes(deployment: DeploymentSpec) -> list[Fault]:
    """Several nodes share the GPUs evenly, and something joins them."""
    nodes, parallel = deployment.nodes or 1, deployment.parallel
    gpus = parallel.gpus
    if deployment.network and nodes == 1:
        place = deployment.origin.at("network")
        message = "one node needs no network: the gpu spec's `link` joins its GPUs"
        return [place.fault(said(place.path, message), "add nodes: 2", key=True)]
    if nodes > 1 and deployment.network is None:
        place = deployment.origin.at("nodes")
        hint = "as in network: {bandwidth: 50 GB/s, latency: 10 us}"
        return [place.fault(said(place.path, "several nodes need a network"), hint, key=True)]
    if gpus % nodes:
        place = deployment.origin.at("nodes")
        message = f"{gpus} GPUs do not lie evenly on {nodes} nodes"
        return [
            place.fault(
                said(place.path, message), "tensor × pipeline × data × prefill_context of them"
            )
        ]
    return []


def _unbuilt(deployment: DeploymentSpec) -> list[Fault]:
    found = [
        (name, hint) for name, hint in _UNBUILT.items() if getattr(deployment, name) is not None
    ]
    places = [(deployment.origin.at(*name.split(".")), hint) for name, hint in found]
    faults = [place.fault(said(place.path, "not supported yet"), hint) for place, hint in places]
    return faults + _load(deployment)


def _load(deployment: DeploymentSpec) -> list[Fault]:
    workload = deployment.workload
    if workload is None:
        return []
    given = [name for name in ("batch", "concurrency") if getattr(workload, name) is not None]
    if not given:
        message = said(workload.origin.path, "missing field 'batch' or 'concurrency'")
        return [workload.origin.fault(message, key=True)]
    if len(given) > 1:
        place = workload.origin.at("concurrency")
        message = said(place.path, "a batch is served once, users come again: give one of them")
        return [place.fault(message, "drop workload.batch", key=True)]
    alone = [
        name for name in ("spread", "cached", "requests") if getattr(workload, name) is not None
    ]
    if alone and workload.concurrency is None:
        place = workload.origin.at(alone[0])
        return [place.fault(said(place.path, "needs workload.concurrency"), key=True)]
    return []
