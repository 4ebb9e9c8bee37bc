"""What the page on questions says in figures: stated by others, and answered by its commands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders import outputs

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/questions.md"
_SLIGHT = 0.02
"""The share within which gains of a few per cent must agree."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One figure of a question's answer: what was stated or measured, and how we say it."""

    question: int
    what: str
    low: float
    high: float
    ours: Callable[[Document], float]
    near: float = 0.1
    """The share of the stated figure within which ours agrees."""

    @property
    def stated(self) -> str:
        """As the table shows it."""
        ends = (self.low,) if self.low == self.high else (self.low, self.high)
        return " to ".join(_shown(end) for end in ends)

    def ratio(self, ours: float) -> float:
        """Ours over what was stated; of a range, over the end that is nearer."""
        return ours / min(max(ours, self.low), self.high)

    def met(self, ours: float) -> bool:
        """Whether it lies inside the range, or near it."""
        return abs(self.ratio(ours) - 1) <= self.near


def commands() -> dict[int, str]:
    """The command of each question of the page, by its number."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    found = re.findall(r"^## (\d+)\..*?^<!-- output: (.+?) -->", text, re.MULTILINE | re.DOTALL)
    return {int(number): command for number, command in found}


def figures() -> str:
    """The table of all figures."""
    asked = commands()
    lines = [
        "| question | figure | stated | planner | ratio | agrees |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in FIGURES:
        ours = each.ours(_answer(asked[each.question]))
        agrees = "yes" if each.met(ours) else "**no**"
        row = (
            f"{each.question}",
            each.what,
            each.stated,
            _shown(ours),
            f"{each.ratio(ours):.2f}",
        )
        lines.append(f"| {' | '.join((*row, agrees))} |")
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1e4 else f"{value:.4g}"  # noqa: PLR2004 - five digits


def _answer(command: str) -> Document:
    document: Document = json.loads(outputs.run(f"{command} --json", ROOT))
    return document


def _row(document: Document, **cells: str) -> Document:
    """The row of a sweep whose cells, by the last word of their paths, are these."""
    return next(
        row
        for row in document["rows"]
        if cells.items() <= {k.rpartition(".")[2]: v for k, v in row["cells"].items()}.items()
    )


def _faster(figure: str, slow: dict[str, str], fast: dict[str, str]) -> Callable[[Document], float]:
    """How many times the figure of one row of a sweep is that of another."""
    return lambda found: _value(found, figure, **slow) / _value(found, figure, **fast)


def _value(document: Document, figure: str, **cells: str) -> float:
    return float(_row(document, **cells)["predicted"][figure]["value"])


def _graphs(model: str) -> Callable[[Document], float]:
    eager, graph = ({"model": model, "enforce_eager": word} for word in ("true", "false"))
    return _faster("step_ms", eager, graph)


def _crossing(gpu: str, name: str) -> Callable[[Document], float]:
    return lambda found: float(
        next(row for row in found["gpus"][gpu]["gemms"] if row["name"] == name)["crossing_tokens"]
    )


def _tp(batch: str) -> Callable[[Document], float]:
    one, two = ({"tensor": count, "batch": batch} for count in ("1", "2"))
    return _faster("step_ms", one, two)


def _fp8_cache(context: str) -> Callable[[Document], float]:
    wide, narrow = ({"kv_cache": word, "context": context} for word in ("bf16", "fp8"))
    return _faster("step_ms", wide, narrow)


def _bridge(figure: str) -> Callable[[Document], float]:
    return _faster(figure, {"gpu": "rtx-3090"}, {"gpu": "rtx-3090-nvlink"})


def _narrow(model: str, gpu: str) -> Callable[[Document], float]:
    wide, narrow = ({"model": model, "gpu": gpu, "weights": word} for word in ("bf16", "fp8"))
    return _faster("step_ms", wide, narrow)


def _of(*path: str | int) -> Callable[[Document], float]:
    """A number in the document, by its keys and places."""

    def found(document: Any) -> float:
        for key in path:
            document = document[key]
        return float(document)

    return found


FIGURES = (
    Figure(
        1,
        "tokens at which an RTX 4090 turns compute-bound",
        64,
        128,
        _crossing("rtx-4090", "q_proj"),
    ),
    Figure(1, "the same on a B200", 200, 280, _crossing("b200-sxm", "q_proj")),
    Figure(
        1, "H100: ridge in FLOP/byte", 295, 295, _of("gpus", "h100-sxm", "ridge_flops_per_byte")
    ),
    Figure(1, "4090: experts, 128 / 8 of the ridge", 2622, 2622, _crossing("rtx-4090", "experts")),
    Figure(2, "a dense 8B model, times faster", 1.1, 1.3, _graphs("llama-3.1-8b-instruct")),
    Figure(2, "0.6B, times faster", 1.5, 4, _graphs("qwen3-0.6b")),
    Figure(2, "experts and latent attention, times faster", 4, 4, _graphs("deepseek-v2-lite")),
    Figure(3, "two cards at batch 1, times faster", 1.33, 1.33, _tp("1")),
    Figure(3, "two cards at batch 100, times faster", 0.66, 0.66, _tp("100")),
    Figure(4, "FP8 cache at 1k, times faster", 1.004, 1.004, _fp8_cache("1024"), _SLIGHT),
    Figure(4, "FP8 cache at 16k, times faster", 1.055, 1.055, _fp8_cache("16384"), _SLIGHT),
    Figure(6, "sequences that run at once", 219, 247, _of("serving", "running")),
    Figure(6, "output tokens a second", 1970, 2349, _of("serving", "output_tokens_per_s", "value")),
    Figure(
        7,
        "H200: output tokens a second of one user",
        115.3,
        115.3,
        lambda found: _row(found, gpu="h200-sxm")["tok_s"],
    ),
    Figure(8, "FP8 on a 4090, times faster", 0.74, 0.74, _narrow("qwen3-8b", "rtx-4090")),
    Figure(
        9,
        "prompt tokens a second at batch 8 over batch 1",
        1,
        1,
        lambda found: 8 * _faster("step_ms", {"batch": "1"}, {"batch": "8"})(found),
    ),
    Figure(10, "tokens a second", 4.0, 4.2, lambda found: 1 / _of("step", "time_s")(found)),
    Figure(11, "decode with a bridge, times faster", 1.03, 1.05, _bridge("tpot_ms"), _SLIGHT),
    Figure(
        11, "prompts of 10,000 tokens with a bridge, times faster", 1.35, 1.49, _bridge("ttft_ms")
    ),
    Figure(
        12,
        "room of eight separate caches over that of one split eight ways",
        7.7,
        7.7,
        lambda found: found["kv_tokens"][1] / found["kv_tokens"][0],
    ),
    Figure(13, "KV tokens that vLLM prints", 178_880, 178_880, _of("kv_tokens", 0)),
    Figure(13, "KV tokens that SGLang prints", 367_404, 367_404, _of("kv_tokens", 1)),
    Figure(
        16,
        "output tokens a second, 128 tokens each",
        28_000,
        28_000,
        _of("rows", 0, "predicted", "throughput_tok_s", "value"),
    ),
    Figure(
        16,
        "output tokens a second, 28 tokens each",
        6957,
        6957,
        _of("rows", 1, "predicted", "throughput_tok_s", "value"),
    ),
    Figure(
        17,
        "mean time per output token over the median wait",
        3.07,
        3.07,
        lambda found: found["tpot"]["mean_s"] / found["itl"]["p50_s"],
    ),
    Figure(18, "tokens a second", 65, 65, lambda found: 1 / _of("step", "time_s")(found)),
)
"""Figures of the questions that state one. What question 14, 15 and 5 state is no figure of this
kind: what is captured, that nothing changes, and which of two choices costs as much."""
