"""What a deployment must be beyond its fields' types, and what isn't built yet."""

from __future__ import annotations

from planner.errors import Fault
from planner.spec.faults import said
from planner.spec.types import DeploymentSpec, Parallel, Step, Workload

_UNBUILT = {
    "prefix_cache": "give workload.cached, the share of prompt tokens it holds",
    "adapters": "plan the base model",
}


GAP = "?"
"""Stands in an imported deployment where the source could not say."""


def check(deployment: DeploymentSpec) -> list[Fault]:
    """Every fault of a deployment whose fields are each right by themselves."""
    faults = [*_gaps(deployment), *_question(deployment), *_groups(deployment)]
    faults += [*_unbuilt(deployment), *_experts(deployment), *_nodes(deployment)]
    faults += [*_context(deployment), *_speculation(deployment), *_pools(deployment)]
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
    return faults


def _pools(deployment: DeploymentSpec) -> list[Fault]:
    """Pools serve requests that come and go, each with ranks that experts lie over."""
    pools, workload = deployment.pools, deployment.workload
    if pools is None:
        return []
    if workload is None or workload.batch is not None:
        place, hint = pools.origin, "give workload.concurrency, workload.rate or workload.trace"
        return [place.fault(said(place.path, "pools serve requests"), hint, key=True)]
    given = (pools.prefill.parallel, pools.decode.parallel)
    return [fault for each in given if each for fault in (*_laid(each), *_shared(each))]


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
    return _laid(deployment.parallel)


def _laid(parallel: Parallel) -> list[Fault]:
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
    return _shared(deployment.parallel)


def _shared(parallel: Parallel) -> list[Fault]:
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


_LOADS = ("batch", "concurrency", "rate", "trace")
_ONLY_WITH = {
    "cached": ("concurrency", "rate", "trace"),
    "requests": ("concurrency", "rate"),
    "spread": ("concurrency", "rate"),
    "burstiness": ("rate",),
}


def _load(deployment: DeploymentSpec) -> list[Fault]:
    workload = deployment.workload
    if workload is None:
        return []
    given = [name for name in _LOADS if getattr(workload, name) is not None]
    if not given:
        message = said(workload.origin.path, "missing field 'batch' or 'concurrency'")
        hint = "or a rate of requests, or a trace of them"
        return [workload.origin.fault(message, hint, key=True)]
    if len(given) > 1:
        place = workload.origin.at(given[1])
        message = said(place.path, f"a workload is one of {', '.join(_LOADS)}")
        return [place.fault(message, f"drop workload.{given[0]}", key=True)]
    return [*_lengths(workload, given[0]), *_more(workload, given[0])]


def _lengths(workload: Workload, load: str) -> list[Fault]:
    """A trace brings its lengths; anything else states them."""
    names = [name for name in ("input", "output") if name in workload.model_fields_set]
    if load == "trace":
        places = [workload.origin.at(name) for name in names]
        return [
            place.fault(said(place.path, "a trace brings lengths of its own"), "drop it", key=True)
            for place in places
        ]
    missing = [name for name in ("input", "output") if name not in names]
    return [
        workload.origin.fault(said(workload.origin.path, f"missing field '{name}'"), key=True)
        for name in missing
    ]


def _more(workload: Workload, load: str) -> list[Fault]:
    faults = []
    for name, loads in _ONLY_WITH.items():
        if getattr(workload, name) is not None and load not in loads:
            place = workload.origin.at(name)
            which = " or ".join(f"workload.{each}" for each in loads)
            faults.append(place.fault(said(place.path, f"needs {which}"), key=True))
    return faults
