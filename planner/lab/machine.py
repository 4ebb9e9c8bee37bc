"""What is being measured, and whether it is free: a busy machine's figures are someone else's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.lab.refusal import LabRefused

BUSY_SHARE = 0.1
"""Share of the machine that others may use before the lab refuses to report."""
_LOOK_S = 0.5
_PROC = Path("/proc")
_L3 = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True)
class Machine:
    """The device under the lab."""

    device: str
    """``cuda`` or ``cpu``."""
    name: str
    """As CUDA or the operating system calls it."""
    units: int
    """Multiprocessors, or cores that may be used."""
    memory_bytes: int
    cache_bytes: int
    """The last cache before memory: L2 of a GPU, L3 of a CPU. 0 = unknown."""
    torch: str
    count: int = 1
    """Devices of this kind."""
    capability: float | None = None


def require_torch() -> Any:
    """The torch package. Raises LabRefused where it is missing."""
    try:
        import torch
    except ImportError as error:
        hint = "pip install 'inference-planner[lab]'"
        raise LabRefused("the lab needs torch, which is not installed", hint) from error
    return torch


def machine(torch: Any, device: str) -> Machine:
    """What ``device`` is. Raises LabRefused where there is none."""
    if device == "cpu":
        return _cpu(torch)
    if not torch.cuda.is_available():
        raise LabRefused("torch sees no CUDA device", "--device cpu measures the CPU")
    found = torch.cuda.get_device_properties(0)
    return Machine(
        "cuda",
        found.name,
        found.multi_processor_count,
        found.total_memory,
        getattr(found, "L2_cache_size", 0),
        torch.__version__,
        torch.cuda.device_count(),
        found.major + found.minor / 10,
    )


def _cpu(torch: Any) -> Machine:
    cores = min(len(os.sched_getaffinity(0)), torch.get_num_threads())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine("cpu", _cpu_name(), cores, memory, _l3_bytes(), torch.__version__)


def _cpu_name() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _text(_PROC / "cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else "CPU"


def _l3_bytes() -> int:
    match = re.fullmatch(r"(\d+)([KMG])?", _text(_L3).strip())
    return int(match[1]) * _UNITS.get(match[2] or "", 1) if match else 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def slug(found: Machine) -> str:
    """A machine's name as a catalogue writes names; a CPU's with its cores: ``cpu-…-2-cores``."""
    if found.device == "cuda":
        return found.name
    name = re.sub(r"\((?:r|tm)\)|\bcpu\b|\bprocessor\b|@.*", " ", found.name.lower())
    words = re.findall(r"[a-z0-9]+", name)
    return "-".join(("cpu", *words, str(found.units), "core" if found.units == 1 else "cores"))


def disturbance(device: str) -> str | None:
    """What else uses the device, in words; None where it is free, or nobody can tell."""
    return _gpu_disturbance() if device == "cuda" else _cpu_disturbance()


def _cpu_disturbance() -> str | None:
    before = _busy_ticks()
    time.sleep(_LOOK_S)
    after = _busy_ticks()
    if before is None or after is None or after[1] == before[1]:
        return None
    share = (after[0] - before[0]) / (after[1] - before[1])
    return f"other processes use {share:.0%} of the CPU" if share > BUSY_SHARE else None


def _busy_ticks() -> tuple[int, int] | None:
    """Busy and all clock ticks of the machine since it started; stolen time is busy."""
    words = _text(_PROC / "stat").partition("\n")[0].split()
    if len(words) < 9:  # noqa: PLR2004 - user nice system idle iowait irq softirq steal
        return None
    ticks = [int(word) for word in words[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


_SLOWED = "clocks_throttle_reasons.hw_slowdown,clocks_throttle_reasons.sw_thermal_slowdown"
_QUERY = f"utilization.gpu,{_SLOWED}"


def _gpu_disturbance() -> str | None:
    said = _nvidia_smi(f"--query-gpu={_QUERY}")
    if not said:
        return None
    used, *slowed = (word.strip() for word in said.splitlines()[0].split(","))
    if used.split()[0].isdigit() and int(used.split()[0]) > 100 * BUSY_SHARE:
        return f"other work uses {used} of the GPU"
    return "the GPU slows its clocks" if "Active" in slowed else None


def _nvidia_smi(query: str) -> str:
    """What nvidia-smi says; nothing where it is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    command = [program, query, "--format=csv,noheader"]
    keywords: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 20}
    try:
        return str(subprocess.run(command, check=True, **keywords).stdout)  # noqa: S603 - a fixed command
    except (OSError, subprocess.SubprocessError):
        return ""


def unsteady(step: Mapping[str, Any], most: float = 0.15) -> str | None:
    """A note, where the middle eight tenths of a step's times spread by more than that share."""
    spread = step["high_s"] / step["low_s"] - 1
    if spread <= most:
        return None
    return f"times of one step spread by {spread:.0%}: something disturbed them"
