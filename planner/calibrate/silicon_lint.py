"""Faults of the labels of public serving measurements, found by rules, never by a list of rows.

A rule says what is wrong and, where the file itself tells how, what was meant: such a row is read
as meant, and marked. No row is dropped here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.calibrate.lint import neighbours, runs
from planner.calibrate.silicon import INFERENCEX, SiliconRow, Split
from planner.calibrate.silicon_drafts import drafted
from planner.spec.conditions import version_key

RULES: Mapping[str, str] = {
    "duplicate": "the same TTFT and TPOT to the last digit, of the same lengths on the same GPUs,"
    " stand in another row, which is kept",
    "gpus": "takes more GPUs than one NVLink domain has",
    "split": "the id states other GPUs than the labels multiply to, or a like label's id does: read"
    " as the id says",
    "blocks": "experts cut inside the blocks of 128 that FP8 scales are of, which engines refuse:"
    " read as whole experts on each rank",
    "concurrency": "the batch, times ranks of data-parallel attention, is not the stated users:"
    " read as several servers where it divides them, else as stated",
    "large-batch": "1,024 sequences a rank or more: past what engines take by default",
    "drafts": "tokens are drafted by multi-token prediction, which no label says: read as the"
    " source's change log has it",
    "tokens": "the client's tokenizer split DeepSeek's text otherwise than the server's, which saw"
    " five times the stated prompt: read as so many",
    "spike": "TPOT above those of both neighbours in users by more than half",
    "dip": "TPOT below those of both neighbours in users by more than a third",
    "impossible": "TPOT below the bare roofline of the decode step, or no time above zero",
}
"""What each rule says. The last one needs a plan, and is told by whoever has it."""
_DOMAINS = {"gb200": 72, "gb300": 72}
_NODE = 8
"""GPUs that NVLink joins: an HGX board, or an NVL72 rack (datasheets)."""
_LARGE = 1024
_SPLIT_ANEW = 35921 / 7140
"""Tokens of the server for one of the client, of a prompt of 7,140. SGLang's images from 0.5.10 on
have transformers 5, which loads a LlamaTokenizerFast without its own pre-tokenizer; the server
mends that, the client did not (https://github.com/SemiAnalysisAI/InferenceX/pull/937), with models
given by name until pull 1381."""
_MENDED = "2026-05-15"
_TRANSFORMERS_5 = (0, 5, 10)
_BLOCK = 128
_EXPERT_WIDTHS = {"MiniMaxAI/MiniMax-M2.5": 1536, "Qwen/Qwen3-235B-A22B-FP8": 1536}
"""Intermediate size of one expert (config.json) of the checkpoints in FP8 blocks where it is no
multiple of 128 times eight. vLLM's recipe of MiniMax-M2 has no plain TP8 for it."""


@dataclass(frozen=True)
class Flagged:
    """A row with the rules it breaks, and its split as it was meant."""

    row: SiliconRow
    flags: tuple[str, ...]
    split: Split
    """As the labels say, or as a rule reads them."""
    drafts: int = 0
    """Tokens drafted a step."""

    @property
    def input(self) -> int:
        """Prompt tokens that the server saw, on average."""
        longer = _SPLIT_ANEW if "tokens" in self.flags else 1.0
        return round(self.row.input * longer)

    @property
    def clean(self) -> bool:
        """Neither a duplicate, nor data-parallel attention, nor over 8 GPUs, nor of 1,024 users or
        more, and its batch is its users: the rows that peers are compared on.
        """
        row = self.row
        return (
            not {"duplicate", "concurrency"} & set(self.flags)
            and row.split.data == 1
            and row.split.tensor <= _NODE
            and row.batch < _LARGE
        )


def lint(rows: Sequence[SiliconRow]) -> tuple[Flagged, ...]:
    """Every row with what is wrong with it. Rules look over all rows: give the whole file."""
    meant = _meant(rows)
    alone = [
        Flagged(row, tuple(_of_labels(row, split, drafts)), split, drafts)
        for row, split, drafts in zip(rows, meant, drafted(rows, meant), strict=True)
    ]
    twice = _duplicates(alone)
    jumps = _jumps(alone)
    return tuple(
        replace(each, flags=(*twice[place], *each.flags, *jumps[place]))
        for place, each in enumerate(alone)
    )


def domain(system: str) -> int:
    """GPUs that NVLink joins."""
    return _DOMAINS.get(system, _NODE)


def _of_labels(row: SiliconRow, split: Split, drafts: int) -> Iterator[str]:
    """What one row's labels tell alone, and whether they were read otherwise."""
    if row.split.gpus > domain(row.system):
        yield "gpus"
    if _cut(row, row.split):
        yield "blocks"
    elif split != row.split:
        yield "split"
    if drafts:
        yield "drafts"
    if _split_anew(row):
        yield "tokens"
    if row.stated_concurrency not in (None, row.batch * row.split.data):
        yield "concurrency"
    if row.batch >= _LARGE:
        yield "large-batch"
    if min(row.ttft_ms, row.tpot_ms) <= 0:
        yield "impossible"


def _split_anew(row: SiliconRow) -> bool:
    ours = row.family == INFERENCEX and row.engine == "sglang" and "/DeepSeek-" in row.model
    recent = bool(row.version[:1].isdigit()) and version_key(row.version) >= _TRANSFORMERS_5
    return ours and recent and (row.measured or "") < _MENDED


def _meant(rows: Sequence[SiliconRow]) -> list[Split]:
    """Splits as their ids say them; without a word of it in the id, as ids of the same labels say.

    Ids of InferenceX state the GPUs and the expert-parallel ranks of the command that ran; labels
    were made of these by multiplying one with the other.
    """
    stated = {_like(row): spelt for row in rows if (spelt := _contradicting(row))}
    return [
        _read(row, _contradicting(row) or _by_likes(row, stated) or _by_shape(row) or _whole(row))
        for row in rows
    ]


def _like(row: SiliconRow) -> tuple[str, Split]:
    return row.family, row.split


def _contradicting(row: SiliconRow) -> tuple[int, int] | None:
    """What the id says of GPUs and experts, where the labels multiply to other GPUs."""
    spelt = row.split_in_id
    return spelt if spelt and spelt[0] != row.split.gpus else None


def _by_likes(
    row: SiliconRow, stated: Mapping[tuple[str, Split], tuple[int, int]]
) -> tuple[int, int] | None:
    return None if row.split_in_id else stated.get(_like(row))


def _by_shape(row: SiliconRow) -> tuple[int, int] | None:
    """More GPUs than can be, and factors that say how the product came about."""
    split = row.split
    if row.split_in_id or split.gpus <= domain(row.system):
        return None
    if split.moe_tensor == split.expert and split.expert**2 == split.gpus:
        return split.expert, split.expert
    if split.tensor == split.data and split.expert == split.gpus:
        return split.tensor, split.tensor
    return None


def _whole(row: SiliconRow) -> tuple[int, int] | None:
    return (row.split.gpus, row.split.gpus) if _cut(row, row.split) else None


def _cut(row: SiliconRow, split: Split) -> bool:
    """Whether a rank's share of an expert ends within a block of scales."""
    width = _EXPERT_WIDTHS.get(row.model)
    if width is None or not row.gemm.startswith("fp8"):
        return False
    return split.moe_tensor > 1 and width // split.moe_tensor % _BLOCK > 0


def _read(row: SiliconRow, spelt: tuple[int, int] | None) -> Split:
    """The split of a command that states GPUs, expert ranks and whether attention is parallel in
    data; then each GPU is a rank of it.
    """
    if spelt is None:
        return row.split
    gpus, expert = spelt
    tensor, data = (1, gpus) if row.split.data > 1 else (gpus, 1)
    return Split(tensor, data, gpus // expert, expert)


def _duplicates(flagged: Sequence[Flagged]) -> list[tuple[str, ...]]:
    """Of rows with the same figures the one with the fewest other faults is kept, else the first.

    DeepSeek-V3 and R1 are one architecture, and the file has runs of one under both names.
    """
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, each in enumerate(flagged):
        row = each.row
        figures = (row.ttft_ms, row.tpot_ms)
        groups[row.engine, row.system, row.input, row.output, *figures].append(place)
    found: list[tuple[str, ...]] = [()] * len(flagged)
    for places in groups.values():
        kept = min(places, key=lambda place: len(flagged[place].flags))
        for place in places:
            if place != kept:
                found[place] = ("duplicate",)
    return found


def _jumps(flagged: Sequence[Flagged]) -> list[tuple[str, ...]]:
    """Spikes and dips along growing users, all else the same. Needs a row on either side."""
    rows = [each.row for each in flagged]
    keys = [_series(each) for each in flagged]
    codes = np.unique(np.array(keys), return_inverse=True)[1]
    users = np.array([row.concurrency for row in rows])
    found = neighbours(np.array([row.tpot_ms for row in rows]), runs([codes], users))
    return [
        tuple(name for name in ("spike", "dip") if found[name][place])
        for place in range(len(flagged))
    ]


def _series(each: Flagged) -> str:
    row, split = each.row, each.split
    words = (row.family, row.source.split(";")[0], row.engine, row.version, row.model, row.system)
    return "|".join(map(str, (*words, row.precision, row.gemm, row.input, row.output, split)))
