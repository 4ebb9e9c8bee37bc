"""From a deployment to the lab's job, and from what the lab measured to calibration and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import SpecError, UsageError
from planner.spec.load import load_deployment
from planner.spec.types import Decode, DeploymentSpec, GpuSpec

if TYPE_CHECKING:
    from planner.calibrate.fit import Fit
    from planner.calibrate.types import Rows
    from planner.lab.job import Job, Projection
    from planner.lab.journal import Point
    from planner.spec.catalog import Catalog

ENGINE = "pytorch-eager"
DTYPES = ("bf16", "fp16")
CATALOG = "catalog"
"""The folder inside the lab's own that holds what it adds to the catalogue."""
_KERNEL = "fa2"
"""The attention kernel that torch runs, by the name of the kernel models."""


@dataclass(frozen=True)
class Measured:
    """A folder of the lab, read."""

    folder: Path
    machine: Mapping[str, Any]
    points: tuple[Point, ...]
    gpu: GpuSpec
    """The machine, as the catalogue has it or as the lab's own file describes it."""
    described: bool
    """Whether a datasheet in the catalogue describes it."""
    fits: tuple[Fit, ...]
    few: tuple[Rows, ...]
    calibration: Path
    host_s: Mapping[str, float]


def job_of(file: Path, sets: Sequence[str], catalog: Catalog, device: str, budget_s: float) -> Job:
    """The lab's job for the decode step of a deployment.

    Raises SpecError where the deployment asks for what the lab does not run: another engine than
    PyTorch op by op, several GPUs, narrow formats, anything but a decode step.
    """
    from planner.graph.build import model_graph
    from planner.graph.program import program
    from planner.lab.job import Job
    from planner.lab.step import check
    from planner.ops.types import Formats
    from planner.spec.question import blocks_of

    deployment = load_deployment(file, sets)
    model = catalog.find("model", deployment.model, deployment.origin.at("model"))
    dtype = deployment.precision.weights or model.weights
    decode = _decode(deployment, dtype)
    graph = model_graph(model, blocks_of(model, catalog), Formats(dtype, dtype, dtype, dtype))
    step = program(graph, decode.batch, decode.context)
    check(step)
    return Job(
        device, dtype, _projections(step), _heads(step), int(model.dims["hidden"]), step,
        _context(decode, model.name, dtype), budget_s=budget_s,
    )  # fmt: skip


def _decode(deployment: DeploymentSpec, dtype: str) -> Decode:
    """The decode step of a deployment that the lab can run."""
    origin = deployment.origin
    faults = []
    if deployment.backend.name != ENGINE:
        message = f"the lab runs {ENGINE}, not {deployment.backend.name}"
        faults.append(origin.at("backend", "name").fault(message, f"set backend.name={ENGINE}"))
    parallel = deployment.parallel
    if parallel.gpus > 1:
        faults.append(origin.at("parallel").fault("the lab runs a step on one device", "tensor: 1"))
    if dtype not in DTYPES:
        message = f"the lab runs {' and '.join(DTYPES)}, not {dtype}"
        faults.append(origin.at("precision", "weights").fault(message, "weights: bf16"))
    decode = deployment.step.decode if deployment.step else None
    if decode is None:
        hint = "as in step: {decode: {batch: 4, context: 256}}"
        faults.append(origin.at("step").fault("the lab runs a decode step", hint))
    if faults or decode is None:
        raise SpecError(faults)
    return decode


def _nodes(step: Mapping[str, Any], op: str) -> list[Mapping[str, Any]]:
    return [node for block in step["blocks"] for node in block["nodes"] if node["op"] == op]


def _projections(step: Mapping[str, Any]) -> tuple[Projection, ...]:
    """Each kind of GEMM in the step, the seed's q_proj first."""
    linears = _nodes(step, "linear")
    linears.sort(key=lambda node: node["id"] != "q_proj")
    kinds = ((node["depth"], node["features"], bool(node.get("bias"))) for node in linears)
    return tuple(dict.fromkeys(kinds))


def _heads(step: Mapping[str, Any]) -> tuple[tuple[int, int, int], ...]:
    layouts = (
        (node["heads"], node["kv_heads"], node["head_dim"]) for node in _nodes(step, "attention")
    )
    return tuple(dict.fromkeys(layouts))


def _context(decode: Decode, model: str, dtype: str) -> dict[str, Any]:
    return {
        "model": model,
        "precision.weights": dtype,
        "precision.activations": dtype,
        "precision.kv_cache": dtype,
        "parallel.tensor": 1,
        "backend.name": ENGINE,
        "step.decode.batch": decode.batch,
        "step.decode.context": decode.context,
    }


def taken(folder: Path, catalog: Catalog, day: str, progress: Callable[[str], None]) -> Measured:
    """What a folder of the lab holds, fitted, and written as files of a catalogue.

    The machine's own gpu file is written where the catalogue has none. Raises LabRefused for a
    folder that is none of the lab's, UsageError where SciPy is missing or too little was measured.
    """
    from planner.calibrate import files, from_lab
    from planner.calibrate.run import constant_units
    from planner.cost.types import device
    from planner.lab.journal import NAME, read
    from planner.lab.laps import pooled

    head, laps = read(folder / NAME)
    points = pooled(laps)
    machine = head["machine"]
    own = folder / CATALOG
    gpu, described = _gpu(own, machine, from_lab.ceilings(points), catalog, day)
    version = machine["torch"].partition("+")[0]
    progress("fitting kernel models to the points")
    subject = from_lab.Subject(device(gpu), ENGINE, version, _KERNEL)
    found, few = from_lab.fits(points, subject)
    host_s = from_lab.host_s(points, from_lab.streaming_floor_s(found))
    provenance = files.Provenance(f"torch=={machine['torch']}", day, "planner lab run", 0)
    spec = from_lab.calibration(found, few, host_s, subject, provenance)
    path = own / "calibrations" / f"{spec.name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(files.text(spec, constant_units), encoding="utf-8")
    return Measured(folder, machine, points, gpu, described, tuple(found), tuple(few), path, host_s)


def _gpu(
    own: Path, machine: Mapping[str, Any], ceilings: Mapping[str, float], catalog: Catalog, day: str
) -> tuple[GpuSpec, bool]:
    """The machine's gpu spec, and whether the catalogue had it."""
    from planner.calibrate.lab_gpu import gpu_text
    from planner.lab.machine import Machine, slug
    from planner.spec.load import load_file

    if machine["device"] == "cuda":
        return _datasheet(machine, catalog), True
    if not {"bandwidth_bytes_per_s", "flops_per_s"} <= ceilings.keys():
        raise UsageError("the lab measured no bandwidth or no GEMM", "run it again without --quick")
    name = slug(Machine(**machine))
    path = own / "gpus" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(gpu_text(name, machine, ceilings, day), encoding="utf-8")
    spec = load_file(path, "gpu")
    assert isinstance(spec, GpuSpec)
    return spec, False


def _datasheet(machine: Mapping[str, Any], catalog: Catalog) -> GpuSpec:
    """The catalogue's entry of a CUDA device: of one chip in several forms the one it names.

    CUDA calls the SXM form by the chip alone, and the others by their form. Raises UsageError
    where the catalogue has none.
    """
    from planner.plan.circumstances import same_gpu

    name, memory = machine["name"], machine["memory_bytes"]
    alike = [
        gpu
        for gpu in (catalog.find("gpu", each) for each in catalog.names("gpu"))
        if gpu.capability == machine["capability"] and same_gpu(gpu.title, name)
    ]
    if not alike:
        hint = "describe it in a gpus/ folder and name that with --catalog"
        raise UsageError(f"the catalogue has no {name}", hint)

    def distance(gpu: GpuSpec) -> tuple[bool, float]:
        unsaid = any(form in gpu.title and form not in name for form in ("NVL", "PCIe"))
        size = (gpu.memory.visible or gpu.memory.capacity).value
        return unsaid, abs(size - memory)

    return min(alike, key=distance)
