"""Blocks of routed experts: the engines' fused MoE layers, from ready router scores."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from planner.calibrate import aiconfigurator, lint
from planner.calibrate.aiconfigurator import Table
from planner.calibrate.devices import gpu_device
from planner.calibrate.registry import register
from planner.calibrate.types import Family, Mask, Pick, Rows
from planner.cost.kernels.moe import MODEL, MoeShape
from planner.ops.moe_load import balanced, power_law
from planner.spec.catalog import Catalog
from planner.spec.conditions import holds

if TYPE_CHECKING:
    import numpy.typing as npt

    from planner.spec.types import Scalar

    Columns = dict[str, npt.NDArray[Any]]

DTYPES = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "int4_wo": "int4",
    "nvfp4": "nvfp4",
    "w4a16_mxfp4": "mxfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4_fp8",
}
KEYS = (
    "num_tokens",
    "hidden_size",
    "inter_size",
    "topk",
    "num_experts",
    "moe_tp_size",
    "moe_ep_size",
    "distribution",
)
LEAST_SHARE = 0.1
"""A newer file with fewer of a variant's gated rows than this share of an older one supplements
it, and is not read."""
TUNED = "triton-tuned"
_SHAPE = "expert_shape"
LEAST_TUNED = 300
"""Fewer rows with tuned tiles are too few to fit and score a kernel of their own."""
GROUPED = (7168, 2048, 8, 256)
"""DeepSeek's hidden, intermediate, top-k and experts: its router picks groups first, so that its
balanced rows touch fewer experts than the columns say."""
RAW_TRITON = {(4096, 14336), (6144, 16384), (2816, 704)}
"""Hidden and intermediate of models whose SGLang rows with expert parallelism sent pairs of other
ranks to expert 0."""

_UNTUNED = (
    "measured outside the engine's autotuner, which serving runs at its start: the same generated "
    "kernels take 0.3 to 0.5 of it under vLLM and SGLang"
)
"""Of TensorRT-LLM's generated kernels with MXFP4 weights and 16-bit inputs.

`collect_moe.py` of collector/trtllm (github.com/ai-dynamo/aiconfigurator, commit 006afd7) tunes
every format but this one, ``moe_type != "w4a16_mxfp4"``. On Hopper its kernels are Triton's, which
need no tuner.
"""
_BLACKWELL = {"blackwell", "blackwell-ultra"}


@dataclass(frozen=True)
class Part:
    """Rows of one variant in one file."""

    table: Table
    variant: str
    columns: Columns

    @property
    def format(self) -> str:
        """The variant's second part."""
        return self.variant.partition("_")[2]


def tables(root: Path, pick: Pick) -> Iterator[Rows]:
    """Each format of each GPU and engine, with all its kernels, from the newest covering file."""
    cells: dict[tuple[str, str], list[Table]] = {}
    for table in aiconfigurator.tables(root, "moe", "moe_perf", pick):
        cells.setdefault((table.gpu, table.engine), []).append(table)
    for found in cells.values():
        yield from map(_rows, _newest(found))


def _newest(files: list[Table]) -> Iterator[Part]:
    by_format: dict[str, list[list[Part]]] = {}
    for table in files:
        parts = list(_parts(table))
        for name in {part.format for part in parts}:
            mine = [part for part in parts if part.format == name]
            by_format.setdefault(name, []).append(mine)
    for name in sorted(by_format):
        gated = [sum(int(_gated(each).sum()) for each in parts) for parts in by_format[name]]
        covers = [count >= LEAST_SHARE * max(gated) for count in gated]
        chosen = zip(by_format[name], covers, strict=True)
        yield from [parts for parts, covering in chosen if covering][-1]


def _parts(table: Table) -> Iterator[Part]:
    columns = aiconfigurator.read(table, ["kernel_source", "moe_dtype", *KEYS])
    names = [
        f"{s}|{d}" for s, d in zip(columns["kernel_source"], columns["moe_dtype"], strict=True)
    ]
    distinct, which = np.unique(names, return_inverse=True)
    variants = [_variant(table, *name.split("|")) for name in distinct]
    for variant in sorted(set(variants) - {""}):
        mine = np.isin(which, [i for i, name in enumerate(variants) if name == variant])
        part = Part(table, variant, {name: column[mine] for name, column in columns.items()})
        yield from _by_tiles(part)


def _by_tiles(part: Part) -> Iterator[Part]:
    """Triton's rows with tiles of their own, and the others; all together where those are few."""
    shapes = tuned_shapes(part.table.engine, part.table.gpu, part.format)
    columns = part.columns
    experts = columns["num_experts"] // columns["moe_ep_size"]
    widths = columns["inter_size"] // columns["moe_tp_size"]
    names = (f"E={e},N={n}" for e, n in zip(experts.tolist(), widths.tolist(), strict=True))
    mine = np.array([name in shapes for name in names])
    if not part.variant.startswith("triton_") or mine.sum() < LEAST_TUNED:
        yield part
        return
    for kernel, rows in ((TUNED, mine), ("triton", ~mine)):
        if rows.any():
            cut = {name: column[rows] for name, column in columns.items()}
            yield Part(part.table, f"{kernel}_{part.format}", cut)


@functools.cache
def tuned_shapes(engine: str, gpu: str, weights: str) -> frozenset[str]:
    """What experts of a rank an engine has tuned tiles for, by the catalogue's rules."""
    backend = Catalog.standard().find("backend", engine)
    facts = {"gpu": gpu, "weights": weights}
    found: set[str] = set()
    for rule in backend.kernels:
        own = {name: wanted for name, wanted in rule.when.items() if name != _SHAPE}
        if rule.kernel == TUNED and holds(own, facts):
            found |= set(map(str, cast("tuple[Scalar, ...]", rule.when[_SHAPE])))
    return frozenset(found)


def _variant(table: Table, source: str, dtype: str) -> str:
    """Kernel family and format; empty for what the model does not describe."""
    if dtype not in DTYPES or "situ_as_silu" in source:
        return ""
    for kernel in ("marlin", "xpu", "triton", "deepgemm", "cutlass"):
        if kernel in source:
            return f"{kernel}_{DTYPES[dtype]}"
    if table.engine == "tensorrt-llm":
        generated = "mxfp4" in dtype or "min_latency" in source
        return f"{'trtllm' if generated else 'cutlass'}_{DTYPES[dtype]}"
    return f"{'trtllm' if 'trtllm' in source else 'triton'}_{DTYPES[dtype]}"


def _rows(part: Part) -> Rows:
    table, columns = part.table, part.columns
    columns["gated"] = _gated(part)
    keys = [columns[name] for name in (*KEYS, "gated")]
    merged = lint.merge(keys, columns["time_s"])
    columns = {name: column[merged.first] for name, column in columns.items()}
    flags = _flags(part, columns, merged.time_s)
    return Rows(
        family="moe",
        gpu=table.gpu,
        engine=table.engine,
        version=table.version,
        variant=part.variant,
        source=table.source,
        shape=_shape(columns),
        time_s=merged.time_s,
        lint=flags,
        kept=lint.kept(flags, len(merged.time_s)),
        merged=merged.repeats,
        rejected=_UNTUNED if _untuned(part) else "",
    )


def _untuned(part: Part) -> bool:
    generated = (part.table.engine, part.variant) == ("tensorrt-llm", "trtllm_mxfp4")
    return generated and gpu_device(part.table.gpu).architecture in _BLACKWELL


def _gated(part: Part) -> Mask:
    """TensorRT-LLM names its non-gated rows; elsewhere Nemotron's shapes are, with exceptions.

    On the A100 they ran gated, and so did SGLang's Triton kernel on Nemotron's latent experts:
    its rate is 143 TFLOP/s on H200 if two matrices are counted, 215 like its other rows if three.
    """
    columns = part.columns
    if part.table.engine == "tensorrt-llm":
        return np.array(["nongated" not in source for source in columns["kernel_source"]])
    hidden = columns["hidden_size"]
    nemotron = (columns["topk"] == 22) | ((hidden == 2688) & (columns["inter_size"] == 1856))  # noqa: PLR2004
    gated: Mask = ~nemotron | (part.table.gpu == "a100-80gb-sxm")
    if part.table.engine == "sglang" and part.variant.startswith("triton"):
        gated |= hidden == 1024  # noqa: PLR2004
    return gated


def _shape(columns: Columns) -> MoeShape:
    n, hidden, inter, k, experts, tp, ep = (columns[name].astype(np.float64) for name in KEYS[:7])
    names = columns["distribution"].astype(str)
    skewed = np.char.startswith(names, "power_law_")
    even = balanced(n, k, experts, ep)
    pairs, touched = even.pairs.copy(), even.touched.copy()
    if skewed.any():
        alpha = np.array([float(name.removeprefix("power_law_")) for name in names[skewed]])
        load = power_law(n[skewed], k[skewed], experts[skewed], ep[skewed], alpha)
        pairs[skewed], touched[skewed] = load.pairs, load.touched
    return MoeShape(n, hidden, inter / tp, k, pairs, touched, columns["gated"].astype(np.float64))


def _flags(part: Part, columns: Columns, time_s: npt.NDArray[np.float64]) -> dict[str, Mask]:
    even = columns["distribution"] == "balanced"
    shape = np.stack([columns[name] for name in KEYS[1:5]], axis=-1)
    grouped = even & (shape == np.array(GROUPED)).all(axis=-1)
    if part.table.engine == "tensorrt-llm":
        grouped = np.zeros(len(even), bool)
    runs = lint.runs([columns[name] for name in (*KEYS[1:], "gated")], columns["num_tokens"])
    return {
        "non-positive": lint.non_positive(time_s),
        "foreign": columns["foreign"],
        "outside": grouped,
        "another-kernel": _clamped(part, columns),
        **lint.neighbours(time_s, runs),
    }


def _clamped(part: Part, columns: Columns) -> Mask:
    """SGLang rows whose pairs of other ranks ran on expert 0: all in 0.5.10, the A100's file."""
    spread: Mask = columns["moe_ep_size"] > 1
    if part.table.engine == "sglang" and part.table.version == "0.5.10":
        return spread
    if part.table.engine != "sglang" or not part.variant.startswith("triton"):
        return np.zeros(len(spread), bool)
    pairs = zip(columns["hidden_size"].tolist(), columns["inter_size"].tolist(), strict=True)
    raw: Mask = spread & np.array([pair in RAW_TRITON for pair in pairs])
    return raw


register(Family("moe", MODEL, tables))
