"""Which fitted constants price a kernel: the GPU's own, its class's, or the nearest known.

Evidence says which: ``measured-here`` for the user's own machine, ``calibrated`` for this GPU and
engine, ``class`` for the same GPU under another engine or another GPU of the same architecture,
``datasheet`` for anything further. Only rates are borrowed as shares of the datasheet, so a
borrowed constant scales with the GPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from planner.cost.fitted import Fitted
from planner.cost.kernels import (
    attention_decode,
    attention_prefill,
    collective,
    elementwise,
    gemm,
    moe,
    recurrent,
)
from planner.cost.kernels.all_reduce import SYMMETRIC
from planner.cost.kernels.mla import MlaShape
from planner.cost.kernels.types import KernelModel, Variant
from planner.cost.types import Evidence
from planner.dtypes import bytes_per_element, is_quantized, operand
from planner.records import dataclass
from planner.spec.question import COLLECTIVES, Measured
from planner.spec.types import CalibrationSpec, GpuSpec, KernelCalibration


@dataclass(frozen=True)
class Candidate:
    """A calibration that may lend constants, and what that would be evidence of."""

    calibration: CalibrationSpec
    evidence: Evidence


@dataclass(frozen=True, eq=False)
class Constants:
    """All calibrations a deployment may draw on, the nearest first."""

    candidates: Sequence[Candidate]
    gpu: str = ""
    """The GPU that is priced."""
    used: dict[str, Fitted] = field(default_factory=dict)
    """What was asked for and found, by what it was asked for."""

    def gemm(self, dtype: str, weights: str | None = None, most_share: float = 1.0) -> Fitted:
        """Constants of a GEMM whose matrix units multiply ``dtype`` and whose weights are kept in
        ``weights``, by default in the same. Its instructions reach ``most_share`` of the peak.

        Where nobody measured that pair, the kernel that multiplies the same with wider weights
        lends its constants, and the bytes are the narrower ones'. That is a guess, and counts as a
        datasheet's: W4A16 and W8A16 by the BF16 constants of the same GPU and engine are 14 % off
        in the median and -0.31 to +0.33 in log(measured / predicted) in 80 % of rows (A100,
        TensorRT-LLM).
        """
        pair = gemm_pair(dtype, weights or dtype)
        found = self._find(gemm.MODEL, *gemm_variants(*pair), key=f"gemm.{'/'.join(pair)}")
        kind = gemm.KINDS[found.variant]
        if (kind.operand, kind.weights) != pair:
            found = dataclasses.replace(found, evidence="datasheet")
        share = found.values["matrix_share"]
        if most_share < min(share, 1.0):
            found = dataclasses.replace(found, values={**found.values, "matrix_share": most_share})
        return found

    def attention(self, phase: str, kernel: str | None, kv_cache: str) -> Fitted:
        """Constants of attention in a phase, by the engine's kernel or else any of that phase."""
        model: KernelModel[Any]
        model = attention_decode.MODEL if phase == "attention_decode" else attention_prefill.MODEL
        return self._of_format(model, kernel, kv_cache)

    def latent_attention(
        self, model: KernelModel[MlaShape], kernel: str | None, kv_cache: str
    ) -> Fitted:
        """Constants of latent attention in the form that a model is of: expanded or absorbed."""
        return self._of_format(model, kernel, kv_cache)

    def _of_format(self, model: KernelModel[Any], kernel: str | None, kv_cache: str) -> Fitted:
        dtype = "fp8" if kv_cache in {"fp8", "int8", "nvfp4"} else "bf16"
        fitting = [name for name in model.variants if name.endswith(f".{dtype}")]
        own = [name for name in fitting if kernel and name.split(".")[0] == kernel]
        found = self._find(model, [*own, *(name for name in fitting if name not in own)])
        if kv_cache == "nvfp4":  # its kernels read FP8 queries; nobody timed them
            found = dataclasses.replace(found, evidence="datasheet")
        return found

    def collective(self, name: str, kernel: str | None = None) -> Fitted:
        """Constants of a collective; an engine's own all-reduce before the library's.

        ``kernel`` is which all-reduce it is: an older one of the engine's, which counts first where
        it was measured; or the engine whose it is, where another's than that of the deployment:
        then what was measured of that one on this GPU counts first.

        Links and topologies differ within an architecture, so those of another GPU are no more
        than a datasheet's: pricing an L40S by an RTX PRO 6000 is 98 % off in the median.
        """
        own = [collective.ENGINE_ALL_REDUCE, SYMMETRIC] if name == "all_reduce" else []
        older = f"{name}_{kernel}"
        if older in collective.MODEL.variants:
            own, kernel = [older, *own], None
        found = self._find(collective.MODEL, [*own, name], lender=kernel)
        if found.evidence == "class" and found.gpu != self.gpu:
            found = dataclasses.replace(found, evidence="datasheet")
        return found

    def moe(self, kernel: str | None, weights: str, matmul: str) -> Fitted:
        """Constants of routed experts kept in one format and multiplied in another, by the
        engine's kernel or else any; of BF16 experts where nobody measured the format.

        The engine's kernel with other weights of as many bits comes before another kernel: by its
        constants for INT4, Marlin with MXFP4 is 21 % off in the median on H200 (vLLM, 972 rows),
        11 % too quick at 8,192 tokens; by those of Triton with MXFP4, 33 % and 56 %.
        """
        weights = "int4" if operand(weights) == "int4" else weights
        size, kinds = bytes_per_element(weights), moe.KINDS
        named = sorted(
            (name for name in kinds if name.split("_")[0] == weights.split("_", maxsplit=1)[0]),
            key=lambda name: name != weights,
        )
        alike = named or [name for name in kinds if kinds[name].bytes_per_weight == size]
        multiplied, _ = gemm_pair(matmul, matmul)
        fits = [name for name in alike if kinds[name].operand == multiplied]
        fits = fits or alike or ["bf16"]
        names = [f"{each}_{kind}" for kind in fits for each in moe.KERNELS]
        own = [name for name in names if kernel and name.startswith(f"{kernel}_")]
        if kernel in moe.KERNELS:
            own += [f"{kernel}_{kind}" for kind in moe.as_wide(fits[0]) if kind not in fits]
        return self._find(moe.MODEL, [*own, *(name for name in names if name not in own)])

    def recurrent(self, variants: Sequence[str]) -> Fitted:
        """Constants of kernels that carry a state, those named first wherever they were measured:
        another kernel's are further off than another GPU's.
        """
        return self._find(recurrent.MODEL, *((each,) for each in variants))

    def elementwise(self) -> Fitted:
        """Constants of kernels that stream tensors through."""
        return self._find(elementwise.MODEL, [elementwise.STREAM.name])

    def _find(
        self,
        model: KernelModel[Any],
        *groups: Sequence[str],
        key: str = "",
        lender: str | None = None,
    ) -> Fitted:
        """Of the first group that any calibration has: the lender's, then the nearest one's."""
        key = key or f"{model.family}.{groups[0][0]}" + (f" of {lender}" if lender else "")
        if key not in self.used:
            self.used[key] = self._search(model, groups, lender)
        return self.used[key]

    def _search(
        self, model: KernelModel[Any], groups: Sequence[Sequence[str]], lender: str | None
    ) -> Fitted:
        lent = (self.gpu, lender)
        near = sorted(
            self.candidates, key=lambda c: (c.calibration.gpu, c.calibration.backend) != lent
        )
        for variants in groups:
            for candidate in near:
                for name in variants:
                    entry = candidate.calibration.kernels.get(f"{model.family}.{name}")
                    if entry is not None:
                        return _fitted(model.variants[name], model.family, candidate, entry)
        variant = model.variants[groups[0][0]]
        values = _with_starts(variant, {})
        source = f"{model.family}.{variant.name}: typical values, nobody measured it"
        return Fitted(variant.name, values, "datasheet", source)


@lru_cache(maxsize=256)
def gemm_pair(dtype: str, weights: str) -> tuple[str, str]:
    """What tells GEMM kernels apart: what is multiplied, and how weights are kept."""
    known = {kind.operand for kind in gemm.KINDS.values()}
    multiplied = "nvfp4" if dtype == "mxfp4" else dtype if dtype in known else "bf16"
    if not is_quantized(weights) or weights == multiplied:
        return multiplied, multiplied
    if multiplied == "bf16":
        return multiplied, "int4" if bytes_per_element(weights) < 1 else "int8"
    return multiplied, weights


@lru_cache(maxsize=256)
def gemm_variants(dtype: str, weights: str) -> tuple[tuple[str, ...], ...]:
    """Variants that price a pair, in groups: a later one counts where nobody measured the first.

    Weight-only kernels differ by engine, so that the same engine's BF16 is as good a guess.
    """
    kinds = gemm.KINDS.items()
    own = tuple(n for n, kind in kinds if (kind.operand, kind.weights) == (dtype, weights))
    wide = tuple(n for n, kind in kinds if (kind.operand, kind.weights) == (dtype, dtype))
    if dtype == "int8":
        wide = tuple(n for n, kind in kinds if (kind.operand, kind.weights) == ("fp8", "fp8"))
    if weights == dtype == "int8":
        return own, wide
    if weights == dtype:
        return (own,)
    return ((*own, *wide),) if dtype == "bf16" or not own else (own, wide)


def _fitted(
    variant: Variant, family: str, candidate: Candidate, entry: KernelCalibration
) -> Fitted:
    calibration = candidate.calibration
    source = f"{calibration.name}: {family}.{variant.name}"
    values = _with_starts(variant, entry.constants)
    return Fitted(
        variant.name,
        values,
        candidate.evidence,
        source,
        calibration.gpu,
        entry,
        calibration.backend,
    )


def _with_starts(variant: Variant, values: Mapping[str, float]) -> dict[str, float]:
    return {c.name: float(values.get(c.name, c.start)) for c in variant.constants}


def candidates(
    measured: Iterable[Measured], named: str | None, gpu: GpuSpec, engine: str
) -> tuple[Candidate, ...]:
    """What each calibration would be evidence of on a GPU under an engine, in the order given."""
    found = []
    for each in measured:
        same_gpu = each.calibration.gpu == gpu.name
        evidence: Evidence = "datasheet"
        own = same_gpu and each.calibration.backend in {engine, COLLECTIVES}
        if own:
            evidence = each.calibration.evidence
        elif each.calibration.name == named:
            evidence = "calibrated"
        elif same_gpu or each.architecture == gpu.architecture:
            evidence = "class"
        found.append(Candidate(each.calibration, evidence))
    return tuple(found)
