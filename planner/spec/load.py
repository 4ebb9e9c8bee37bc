"""From text to a checked, frozen spec. Every fault at once, each at its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from planner.errors import Fault, SpecError
from planner.spec import deployment, overrides
from planner.spec.faults import did_you_mean, said, shown, translate
from planner.spec.origin import Document, Origin
from planner.spec.origin import Path as Place
from planner.spec.source import Reading, read, read_bytes
from planner.spec.types import KINDS, DeploymentSpec, Spec

SpecT = TypeVar("SpecT", bound=Spec)


def build(kind: type[SpecT], data: Any, document: Document, path: Place = ()) -> SpecT:
    """A validated spec of ``data``, which stands at ``path`` of ``document``.

    Values keep the types they are written with: ``"4"`` is no number and ``4`` no text. Each spec
    inside knows its origin. Raises SpecError with every fault pydantic finds, and field by field.
    """
    try:
        spec = kind.model_validate(_frozen(data), strict=True)
    except ValidationError as error:
        raise SpecError(translate(error, kind, document, path)) from None
    if faults := list(_misnamed(spec, Origin(document, path))):
        raise SpecError(faults)
    _remember(spec, Origin(document, path))
    return spec


def load_text(text: str | bytes, file: str, kind: str | None = None) -> Spec:
    """The spec in a text; ``file`` is its name in messages.

    ``kind`` is a key of `KINDS`; without it the text's own `kind` decides. Raises SpecError.
    """
    return _load(read(text, file), kind)


def load_file(path: Path, kind: str | None = None) -> Spec:
    """The spec in a file. Raises SpecError, or UsageError where the file cannot be read."""
    return load_text(read_bytes(path), str(path), kind)


def load_deployment(path: Path, sets: Sequence[str] = ()) -> DeploymentSpec:
    """The deployment in a file, with ``--set`` texts applied. Raises as `load_file`."""
    return deployments_in(path)(sets)


def deployments_in(path: Path) -> Callable[[Sequence[str]], DeploymentSpec]:
    """The deployment in a file as a function of ``--set`` texts; the file is read once.

    Both raise as `load_file`.
    """
    return deployments_of(read_bytes(path), str(path))


def deployments_of(raw: bytes | str, file: str) -> Callable[[Sequence[str]], DeploymentSpec]:
    """As `deployments_in`, of a text; ``file`` is its name in messages."""
    reading = read(raw, file)

    def with_sets(sets: Sequence[str]) -> DeploymentSpec:
        data, document = overrides.apply(reading.data, reading.document, sets)
        changed = Reading(data, document, reading.faults, reading.whole)
        return cast("DeploymentSpec", _load(changed, "deployment"))

    return with_sets


def deployment_of(data: dict[str, Any], document: Document) -> DeploymentSpec:
    """The checked deployment of plain data that stands in ``document``. Raises SpecError."""
    return cast("DeploymentSpec", _load(Reading(data, document, (), whole=True), "deployment"))


def _load(reading: Reading, kind: str | None) -> Spec:
    faults = list(reading.faults)
    # a value that YAML rules refuse gets no second fault from its type
    told = {fault.where for fault in faults}
    try:
        name = _kind(reading.data, reading.document, kind)
        if reading.whole:
            spec = build(KINDS[name], reading.data, reading.document)
            faults += deployment.check(spec) if isinstance(spec, DeploymentSpec) else []
    except SpecError as error:
        faults += [fault for fault in error.faults if fault.where not in told]
    if faults:
        raise SpecError(faults)
    return spec


def _kind(data: dict[str, Any], document: Document, wanted: str | None) -> str:
    place = Origin(document, ("kind",))
    kinds = ", ".join(KINDS)
    if "kind" not in data:
        guess = "deployment" if "model" in data and "gpu" in data else None
        if not wanted and not guess:
            raise SpecError([Origin(document).fault("missing field 'kind'", f"one of {kinds}")])
        return wanted or "deployment"
    found = data["kind"]
    if not isinstance(found, str) or found not in KINDS:
        message = f"kind: must be one of {kinds}, got {shown(found)}"
        guess = did_you_mean(found[:80], KINDS) if isinstance(found, str) else None
        raise SpecError([place.fault(message, guess)])
    if wanted and found != wanted:
        message = f"kind: this is a spec of kind {found}, expected {wanted}"
        raise SpecError([place.fault(message)])
    return found


def _frozen(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(_frozen(item) for item in data)
    if isinstance(data, dict):
        return {key: _frozen(value) for key, value in data.items()}
    return data


def _inner(value: object) -> list[tuple[str | int, object]]:
    """What a value holds, under the names that the text has for it."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields.items()
        return [(info.alias or name, getattr(value, name)) for name, info in fields]
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, tuple) else []


def _remember(value: object, origin: Origin) -> None:
    if isinstance(value, Spec):
        value.remember(origin)
    for name, inner in _inner(value):
        if isinstance(inner, BaseModel | dict | tuple):
            _remember(inner, origin.at(name))


def _misnamed(value: object, origin: Origin) -> Iterable[Fault]:
    """Python names of fields (`inputs` for `in`), which a spec with free fields would swallow."""
    if isinstance(value, BaseModel) and value.model_extra:
        fields = type(value).model_fields
        for name in value.model_extra.keys() & fields.keys():
            place = origin.at(name)
            hint = f"did you mean {fields[name].alias!r}?"
            yield place.fault(said(place.path, "unknown field"), hint, key=True)
    for part, inner in _inner(value):
        if isinstance(inner, BaseModel | dict | tuple):
            yield from _misnamed(inner, origin.at(part))
