"""Which public serving runs drafted tokens, though no label says so.

InferenceX's change log tells which of its scripts draft by multi-token prediction, and with which
images they ran. Its exports that the file was made of leave that word out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from planner.calibrate.silicon import INFERENCEX, SiliconRow, Split

_PLAIN_USERS = 64
"""The most that dsr1-fp8-b200-sglang asks for; its sibling that drafts asks for up to 512
(nvidia-master.yaml)."""
_HALF = 4
_WHOLE = 8
"""GPUs of a board, and of half of one."""


def drafted(rows: Sequence[SiliconRow], splits: Sequence[Split]) -> list[int]:
    """Tokens that each row drafts a step; ``splits`` are those that the labels mean."""
    twins = _quicker(rows, splits)
    return [
        _tensorrt(row) or _qwen(row, split) or (2 if place in twins else 0)
        for place, (row, split) in enumerate(zip(rows, splits, strict=True))
    ]


def _tensorrt(row: SiliconRow) -> int:
    """3, and 1 where attention is data-parallel (dsr1_{fp4,fp8}_b200_trt_mtp.sh,
    dsr1_fp8_h200_trt_mtp.sh).

    By perf-changelog.yaml: pull 392 brought these scripts with the image 1.1.0rc2.post2, measured
    on one day; pulls 632 and 642 gave them 1.2.0rc6.post3, which no other script of this model has
    (594 and 620 gave those 1.2.0rc6.post2).
    """
    if not _of(row, "trtllm", "DeepSeek-"):
        return 0
    first = (row.version, row.measured) == ("1.1.0rc2.post2", "2026-01-14")
    if not first and row.version != "1.2.0rc6.post3":
        return 0
    return 3 if row.split.data == 1 else 1


def _qwen(row: SiliconRow, split: Split) -> int:
    """3 on half a board without expert parallelism (qwen3.5_fp8_{b200,b300}_mtp.sh), which the
    plain scripts of this image do not ask for (table of pull 804).
    """
    blackwell = row.system in {"b200_sxm", "b300_sxm"} and row.gemm.startswith("fp8")
    if not (_of(row, "sglang", "Qwen3.5-") and blackwell and row.version == "0.5.9"):
        return 0
    return 3 if (split.gpus, split.expert) == (_HALF, 1) else 0


def _quicker(rows: Sequence[SiliconRow], splits: Sequence[Split]) -> set[int]:
    """Rows of DeepSeek in FP8 on eight B200 under SGLang 0.5.9 that drafted two tokens.

    One image ran two scripts that day (dsr1_fp8_b200.sh, and its sibling of pull 626): where one
    load has two times a token, the shorter one is of drafts, as is any load that the plain script
    does not ask for.
    """
    loads: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for place, (row, split) in enumerate(zip(rows, splits, strict=True)):
        alike = row.system == "b200_sxm" and row.gemm.startswith("fp8") and row.version == "0.5.9"
        if _of(row, "sglang", "DeepSeek-") and alike and (split.gpus, split.expert) == (_WHOLE, 1):
            loads[row.input, row.output, row.concurrency].append(place)
    found: set[int] = set()
    for (_, _, users), places in loads.items():
        times = {rows[place].tpot_ms for place in places}
        if users > _PLAIN_USERS:
            found |= set(places)
        elif len(times) > 1:
            found |= {place for place in places if rows[place].tpot_ms == min(times)}
    return found


def _of(row: SiliconRow, engine: str, model: str) -> bool:
    named = row.model.partition("/")[2].startswith(model)
    return row.family == INFERENCEX and row.engine == engine and named
