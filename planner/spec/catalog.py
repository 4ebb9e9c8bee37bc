"""Folders of specs that others name: GPUs, models, blocks, backends, calibrations and others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias, cast, overload

from planner import resources
from planner.errors import Fault, PlannerError, SpecError, UsageError
from planner.spec.faults import did_you_mean, said
from planner.spec.load import load_text
from planner.spec.origin import Origin
from planner.spec.source import compose, read_bytes
from planner.spec.types import (
    BackendSpec,
    BlockSpec,
    CalibrationSpec,
    CatalogSpec,
    GpuSpec,
    ModelSpec,
    PricesSpec,
    SpreadSpec,
)

FOLDERS = {
    "gpu": "gpus",
    "model": "models",
    "block": "blocks",
    "backend": "backends",
    "calibration": "calibrations",
    "prices": "prices",
    "spread": "spreads",
}
"""The folder of each kind inside a catalogue folder; a file there is NAME.yaml."""

_Key: TypeAlias = tuple[str, str, int, int]
_loaded: dict[_Key, CatalogSpec] = {}


class Catalog:
    """Folders of specs by name; of two of one name the earlier folder's counts."""

    def __init__(self, folders: tuple[Path, ...], *, closed: bool = False) -> None:
        """A ``closed`` one has names alone: no path that a text holds is opened."""
        self.folders = folders
        self._closed = closed
        self._files: dict[str, dict[str, Path]] = {}
        self._specs: dict[tuple[str, Path], CatalogSpec] = {}

    @classmethod
    def standard(cls, extra: Iterable[Path] = (), *, closed: bool = False) -> Catalog:
        """The catalogue that ships with the program, after folders of the user's own.

        Raises UsageError where an extra folder does not exist.
        """
        folders = tuple(extra)
        for folder in folders:
            if not folder.is_dir():
                raise UsageError(f"there is no catalogue folder {folder}")
        return cls((*folders, resources.folder("catalog")), closed=closed)

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of all specs of a kind, sorted. Raises UsageError for an unknown kind."""
        return tuple(self._listed(kind))

    def entries(self, kind: str) -> tuple[CatalogSpec, ...]:
        """Every spec of a kind, sorted by name. Raises SpecError with the faults of all files."""
        found: list[CatalogSpec] = []
        faults: list[Fault] = []
        for name in self.names(kind):
            try:
                found.append(self._named(kind, name))
            except SpecError as error:
                faults += error.faults
        if faults:
            raise SpecError(faults)
        return tuple(found)

    @overload
    def find(self, kind: Literal["gpu"], name: str, origin: Origin | None = None) -> GpuSpec: ...
    @overload
    def find(
        self, kind: Literal["model"], name: str, origin: Origin | None = None
    ) -> ModelSpec: ...
    @overload
    def find(
        self, kind: Literal["block"], name: str, origin: Origin | None = None
    ) -> BlockSpec: ...
    @overload
    def find(
        self, kind: Literal["backend"], name: str, origin: Origin | None = None
    ) -> BackendSpec: ...
    @overload
    def find(
        self, kind: Literal["calibration"], name: str, origin: Origin | None = None
    ) -> CalibrationSpec: ...
    @overload
    def find(
        self, kind: Literal["prices"], name: str, origin: Origin | None = None
    ) -> PricesSpec: ...
    @overload
    def find(
        self, kind: Literal["spread"], name: str, origin: Origin | None = None
    ) -> SpreadSpec: ...
    @overload
    def find(self, kind: str, name: str, origin: Origin | None = None) -> CatalogSpec: ...
    def find(self, kind: str, name: str, origin: Origin | None = None) -> CatalogSpec:
        """The spec of a name, or of a path: ``./my-gpu.yaml``, which holds a '/' or its ending.

        A relative path begins at the folder of the text that names it (``origin``), without one at
        the working directory. Raises SpecError at ``origin`` for an unknown name or missing file,
        UsageError without ``origin``, and SpecError for the faults of the file itself.
        """
        try:
            if is_path(name):
                if self._closed:
                    raise UsageError(f"{kind} {name[:80]!r} is a path", _CLOSED_HINT)
                folder = origin.folder() if origin else Path()
                if kind == "model" and _HUB_ID.fullmatch(name) and not (folder / name).exists():
                    raise UsageError(f"unknown model {name!r}", _HUB_HINT)
                return self._read(kind, folder / name)
            return self._named(kind, name)
        except SpecError:
            raise
        except PlannerError as error:
            if origin is None:
                raise
            hint = error.hint if isinstance(error, UsageError) else None
            message = str(error).removesuffix(f" ({hint})")
            raise SpecError([origin.fault(said(origin.path, message), hint)]) from None

    def _listed(self, kind: str) -> dict[str, Path]:
        """Files by name, sorted."""
        if kind not in FOLDERS:
            hint = did_you_mean(kind, FOLDERS) or f"one of {', '.join(FOLDERS)}"
            raise UsageError(f"the catalogue has no kind {kind!r}", hint)
        if kind not in self._files:
            found = {
                path.stem: path
                for folder in reversed(self.folders)
                for path in (folder / FOLDERS[kind]).glob("*.yaml")
            }
            self._files[kind] = dict(sorted(found.items()))
        return self._files[kind]

    def _named(self, kind: str, name: str) -> CatalogSpec:
        path = self._listed(kind).get(name)
        if path is None:
            spelt = name[:80].lower().replace(" ", "-").replace("_", "-")
            known = self.names(kind)
            hint = did_you_mean(spelt, known) or f"`planner catalog list {FOLDERS[kind]}`"
            raise UsageError(f"unknown {kind} {name[:80]!r}", hint)
        spec = self._read(kind, path)
        if spec.name != path.stem:
            message = f"name: must be that of its file, {path.stem!r}, got {spec.name!r}"
            raise SpecError([spec.origin.at("name").fault(message)])
        return spec

    def _read(self, kind: str, path: Path) -> CatalogSpec:
        if (kind, path) not in self._specs:
            self._specs[kind, path] = _load(kind, path, self)
        return self._specs[kind, path]


_CLOSED_HINT = "here only names of the catalogue are taken"
_HUB_ID = re.compile(r"[\w-]+/[\w.-]+(?<!\.yaml)(?<!\.yml)(?<!\.json)")
_HUB_HINT = "a Hugging Face id is not fetched: write model: ./config.json, or a catalogue name"


def is_path(name: str) -> bool:
    """Whether a reference is a path, not a name of the catalogue."""
    return "/" in name or name.endswith((".yaml", ".yml", ".json"))


def _load(kind: str, path: Path, catalog: Catalog) -> CatalogSpec:
    """A file's spec, read once for each state of the file."""
    raw = read_bytes(path)
    state = path.stat()
    key = (kind, str(path.resolve()), state.st_mtime_ns, state.st_size)
    if key not in _loaded:
        config = _config(raw, path, catalog) if kind == "model" and path.suffix == ".json" else None
        _loaded[key] = config or cast("CatalogSpec", load_text(raw, str(path), kind))
    return _loaded[key]


def _config(raw: bytes, path: Path, catalog: Catalog) -> ModelSpec | None:
    """The model of a Hugging Face config; None for a spec of ours in JSON."""
    from planner.spec import hf

    data, document = compose(raw, str(path))
    if not hf.is_config(data):
        return None
    return hf.model_of(hf.converted(data, document, lambda name: catalog.find("block", name)))
