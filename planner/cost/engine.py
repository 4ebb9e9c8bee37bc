"""The engine of a deployment: version, flags, and the facts that conditions of a catalogue see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property

from planner.errors import Fault, SpecError
from planner.ops.types import Formats
from planner.records import dataclass
from planner.registry import nearest
from planner.spec.conditions import first, refusals, version_key
from planner.spec.origin import Origin
from planner.spec.types import Backend, BackendSpec, DeploymentSpec, FlagSpec, GpuSpec, Scalar

_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
}


_TURNED_MOST = 64


@dataclass(frozen=True, eq=False)
class Engine:
    """A backend as one deployment runs it."""

    spec: BackendSpec
    version: str
    """The described version whose facts are used."""
    facts: Mapping[str, Scalar]
    """What conditions may ask, flags under ``flag.NAME``."""
    notes: tuple[str, ...] = ()
    asked: Mapping[str, Scalar] | None = None
    """The same facts at the version asked for, where it is not the very one described."""
    _turned: dict[tuple[tuple[str, type, Scalar], ...], Engine] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def as_asked(self) -> Engine:
        """The engine at the very version asked for, for facts described version by version."""
        return self if self.asked is None else replace(self, facts=self.asked, asked=None)

    def flag(self, name: str) -> Scalar:
        """The value of a flag; None of one that the engine does not have."""
        return self.facts.get(f"flag.{name}")

    @cached_property
    def flags(self) -> Mapping[str, Scalar]:
        """Flags in force, by bare name."""
        prefix = "flag."
        return {k.removeprefix(prefix): v for k, v in self.facts.items() if k.startswith(prefix)}

    @cached_property
    def whole_flags(self) -> Mapping[str, int]:
        """Whole-numbered flags and ``verified``: what expressions of the catalogue count with."""
        found = {
            name: value
            for name, value in self.flags.items()
            if isinstance(value, int) and not isinstance(value, bool) and value > 0
        }
        return {"verified": self.verified, **found}

    @property
    def verified(self) -> int:
        """Tokens that a sequence brings to a decode step: its last one and the drafts behind it."""
        return int(self.facts.get("verified") or 1)

    def with_flags(self, changes: Mapping[str, Scalar]) -> Engine:
        """The same engine with some flags turned: the same object for the same changes."""
        key = tuple((name, type(value), value) for name, value in changes.items())
        if key not in self._turned:
            if len(self._turned) >= _TURNED_MOST:
                self._turned.clear()
            self._turned[key] = self._with(changes)
        return self._turned[key]

    def _with(self, changes: Mapping[str, Scalar]) -> Engine:
        turned = {f"flag.{name}": value for name, value in changes.items()}
        asked = None if self.asked is None else {**self.asked, **turned}
        return replace(self, facts={**self.facts, **turned}, asked=asked)

    def drafting(self, tokens: int) -> Engine:
        """The same engine on a model that drafts so many tokens for another's step."""
        facts = {"drafts": True, "speculates": True, "verified": 1 + tokens}
        asked = None if self.asked is None else {**self.asked, **facts}
        return replace(self, facts={**self.facts, **facts}, asked=asked)


def resolve(
    deployment: DeploymentSpec,
    spec: BackendSpec,
    gpu: GpuSpec,
    formats: Formats,
    step: str,
    *,
    model: Mapping[str, Scalar] | None = None,
) -> Engine:
    """The engine of a deployment: the nearest described version, flags checked, defaults filled.

    ``step`` is decode, prefill, mixed or shapes; ``model`` are the facts of the model. Raises
    SpecError naming every flag that the backend, or this version of it, doesn't have or that has a
    value of another type.
    """
    asked = deployment.backend
    version, note = _version(asked, spec)
    facts = {**_facts(deployment, version, gpu, formats, step), **(model or {})}
    wanted = {**facts, "version": asked.version or version}
    _check_flags(deployment.origin.at("backend", "flags"), asked.flags, spec, wanted)
    named = None
    if version_key(str(wanted["version"])) != version_key(version):
        named = _with_flags(wanted, spec, asked.flags)
    notes = (note,) if note else ()
    return Engine(spec, version, _with_flags(facts, spec, asked.flags), notes, named)


def _facts(
    deployment: DeploymentSpec, version: str, gpu: GpuSpec, formats: Formats, step: str
) -> dict[str, Scalar]:
    """What conditions may ask, but for the flags."""
    memory = gpu.memory.visible or gpu.memory.capacity
    return {
        "version": version,
        "gpu": gpu.name,
        "vendor": gpu.vendor,
        "architecture": gpu.architecture,
        "capability": gpu.capability,
        "memory_gib": memory.value / 2**30,
        "tensor": deployment.parallel.tensor,
        "data": deployment.parallel.data,
        "pipeline": deployment.parallel.pipeline,
        "expert": deployment.parallel.expert,
        "context": deployment.parallel.context,
        "prefill_context": deployment.parallel.prefill_context,
        "speculates": deployment.speculation is not None,
        "verified": 1 + (deployment.speculation.tokens if deployment.speculation else 0),
        "drafts": False,
        "states": False,
        "peer_to_peer": bool(gpu.link and gpu.link.peer_to_peer),
        "weights": formats.weights,
        "matmul": formats.matmul,
        "activations": formats.activations,
        "scales": formats.scales,
        "kv_cache": formats.kv_cache,
        "step": step,
    }


def _with_flags(
    facts: Mapping[str, Scalar], spec: BackendSpec, asked: Mapping[str, Scalar]
) -> dict[str, Scalar]:
    """The facts and every flag, as asked or by its default."""
    found = dict(facts)
    for name, flag in spec.flags.items():
        choice = first(flag.default, found)
        found[f"flag.{name}"] = choice.value if choice else None
        if name in asked:
            found[f"flag.{name}"] = asked[name]
    return found


def _version(asked: Backend, spec: BackendSpec) -> tuple[str, str | None]:
    """The described version to use: the newest not above what was asked, else the oldest."""
    described = sorted(spec.versions, key=version_key)
    if asked.version is None:
        return described[-1], None
    wanted = version_key(asked.version)
    below = [v for v in described if version_key(v) <= wanted]
    chosen = below[-1] if below else described[0]
    parts = chosen.count(".") + 1
    if _padded(wanted, parts) == _padded(version_key(chosen), parts):
        return chosen, None
    listed = ", ".join(described)
    return chosen, (
        f"{spec.title} {asked.version} is not described: its nearest described version {chosen} "
        f"stands in (described: {listed})"
    )


def _padded(key: tuple[int, ...], parts: int) -> tuple[int, ...]:
    """The first ``parts`` numbers of a version, noughts where it has fewer."""
    return (*key, *(0,) * parts)[:parts]


def _check_flags(
    origin: Origin, asked: Mapping[str, Scalar], spec: BackendSpec, facts: Mapping[str, Scalar]
) -> None:
    faults: list[Fault] = []
    for name, value in asked.items():
        flag = spec.flags.get(name)
        if flag is None:
            guess = nearest(name, spec.flags)
            hint = f"did you mean '{guess}'?" if guess else f"known: {', '.join(spec.flags)}"
            message = f"{spec.title} has no described flag '{name}'"
            faults.append(origin.at(name).fault(message, hint, key=True))
        elif missing := refusals(flag.when, facts):
            message = f"{spec.title} {facts['version']} has no flag '{name}'"
            faults.append(origin.at(name).fault(message, "; ".join(missing), key=True))
        elif value is not None:
            faults += _check_value(origin.at(name), flag, value)
    if faults:
        raise SpecError(faults)


def _check_value(origin: Origin, flag: FlagSpec, value: Scalar) -> list[Fault]:
    boolean = flag.type == "bool"
    if not isinstance(value, _TYPES[flag.type]) or isinstance(value, bool) != boolean:
        return [origin.fault(f"expected a value of type {flag.type}, got {value!r}")]
    if flag.choices and value not in flag.choices and flag.type == "str":
        listed = ", ".join(map(str, flag.choices))
        guess = nearest(str(value), [str(choice) for choice in flag.choices])
        hint = f"did you mean '{guess}'?" if guess else None
        return [origin.fault(f"expected one of {listed}; got {value!r}", hint)]
    if flag.type == "int" and isinstance(value, int) and value < 0:
        return [origin.fault(f"must not be negative, got {value}")]
    return []


def flag_text(value: Scalar) -> str:
    """A flag's value as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
