"""Finds and reads the measured tables of the aiconfigurator-core wheel, where it is installed."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.calibrate.types import Pick
from planner.errors import UsageError

PACKAGE = "aiconfigurator-core"
INSTALL = "pip install 'inference-planner[calibrate]'"


@dataclass(frozen=True)
class Machine:
    """One of the wheel's folders: our name of the GPU, and what its rows say they ran on."""

    gpu: str
    device: str
    """Must occur in a row's device column; a row of another GPU is foreign."""


MACHINES: Mapping[str, Machine] = {
    "a100_sxm": Machine("a100-80gb-sxm", "A100-SXM4-80GB"),
    "h100_sxm": Machine("h100-sxm", "H100 80GB HBM3"),
    "h200_sxm": Machine("h200-sxm", "H200"),
    "b200_sxm": Machine("b200-sxm", " B200"),
    "b300_sxm": Machine("b300-sxm", " B300"),
    "gb200": Machine("gb200", "GB200"),
    "gb300": Machine("gb300", "GB300"),
    "l40s": Machine("l40s", "L40S"),
    "rtx_pro_6000_server": Machine("rtx-pro-6000-server", "RTX PRO 6000"),
    "b60": Machine("arc-pro-b60", "B60"),
}
ENGINES: Mapping[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "trtllm": "tensorrt-llm",
    "nccl": "nccl",
    "oneccl": "oneccl",
}


@dataclass(frozen=True)
class Table:
    """One file of the wheel. `gpu` and `engine` are catalogue names."""

    gpu: str
    engine: str
    version: str
    path: Path
    source: str
    """Its path below the data folder."""
    device: str


def root() -> Path:
    """The wheel's data folder. Raises UsageError when it is not installed."""
    found = importlib.util.find_spec("aiconfigurator_core")
    if found is None or not found.submodule_search_locations:
        raise UsageError(f"the measured tables of {PACKAGE} are not installed", INSTALL)
    return Path(next(iter(found.submodule_search_locations))) / "systems" / "data"


def installed_version() -> str:
    """The wheel's version. Raises UsageError when it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        raise UsageError(f"{PACKAGE} is not installed", INSTALL) from None


def tables(data: Path, family: str, name: str, pick: Pick) -> Iterator[Table]:
    """Every file ``<gpu>/<family>/<engine>/<version>/<name>.parquet``, oldest version first."""
    for folder, machine in MACHINES.items():
        for engine_folder, engine in ENGINES.items():
            base = data / folder / family / engine_folder
            if not pick.wants(machine.gpu, engine) or not base.is_dir():
                continue
            for path in sorted(base.glob(f"*/{name}.parquet"), key=_age):
                source = path.relative_to(data).as_posix()
                yield Table(machine.gpu, engine, path.parent.name, path, source, machine.device)


def newest(data: Path, family: str, name: str, pick: Pick) -> Iterator[Table]:
    """Of each GPU and engine the file of the newest version."""
    found = {(table.gpu, table.engine): table for table in tables(data, family, name, pick)}
    yield from found.values()


def _age(path: Path) -> tuple[tuple[int, int], ...]:
    return version_key(path.parent.name)


def version_key(version: str) -> tuple[tuple[int, int], ...]:
    """Orders ``1.3.0rc9`` before ``1.3.0rc20`` before ``1.3.0`` before ``1.3.0.post1``.

    A release stands between its candidates and what was posted after it.
    """
    stages = {"rc": -1, "post": 1}
    parts = re.findall(r"(rc|post)?\.?(\d+)", version)
    return (*((stages.get(stage, 0), int(number)) for stage, number in parts), (0, -1))


def read(table: Table, columns: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Columns of a table as arrays; `latency` turned from ms to `time_s`, and `device` checked.

    Texts come as object arrays. Adds ``foreign``: whether a row's device is another GPU.
    Raises UsageError when pyarrow is missing or a column is not there.
    """
    wanted = [*columns, "latency"]
    file = _open(table.path)
    names = set(file.schema_arrow.names)
    if missing := [name for name in wanted if name not in names]:
        raise UsageError(f"{table.source} has no column {', '.join(missing)}")
    data = file.read(columns=[*wanted, *(["device"] if "device" in names else [])])
    found = {name: data[name].to_numpy() for name in wanted[:-1]}
    found["time_s"] = data["latency"].to_numpy().astype(np.float64) * 1e-3
    found["foreign"] = np.zeros(data.num_rows, bool)
    if "device" in names:
        found["foreign"] = _foreign(data["device"].to_numpy(), table.device)
    return found


def _foreign(devices: npt.NDArray[Any], expected: str) -> npt.NDArray[np.bool_]:
    strange = [name for name in set(devices.tolist()) if expected not in str(name)]
    return np.isin(devices, strange)


def _open(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise UsageError("pyarrow is not installed", INSTALL) from None
    return parquet.ParquetFile(path)
