"""Draw the pictures of docs/charts.md into docs/pictures: ``python docs/pictures.py``.

They are drawn by the commands that the page shows, some seconds in all. No test draws them again:
where letters stand depends on a machine's fonts.
"""

# ruff: noqa: INP001 - a script beside the pages it draws for
from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT)]

from builders import process  # noqa: E402 - found through sys.path

from planner.charts.files import save_chart  # noqa: E402
from planner.charts.history import history_chart  # noqa: E402

FOLDER = ROOT / "docs/pictures"
CHAT = "specs/qwen2.5-7b-rtx4090.yaml"
SMALL_EAGER = "--set model=qwen2.5-0.5b-instruct --set backend.flags.enforce_eager=true"
CHOOSE = (
    "choose specs/llama-3.1-8b-chat.yaml --slo tpot=30ms,ttft=500ms "
    "--price specs/prices-example.yaml --gpus l40s,h100-sxm,b200-sxm --json"
)
PICTURES = {
    "roofline": f"chart roofline {CHAT}",
    "modes": f"chart modes {CHAT}",
    "memory": f"chart memory {CHAT}",
    "batch": f"chart batch {CHAT}",
    "context": f"chart context {CHAT}",
    "users": "chart batch specs/llama-3.1-8b-chat.yaml",
    "rate": "chart batch specs/llama-3.1-8b-h100-rate.yaml",
    "block": f"chart block {CHAT}",
    "timeline": f"chart timeline {CHAT} {SMALL_EAGER}",
    "gpus": f"chart gpus {CHAT} --gpu rtx-4090,l40s,h100-sxm,h200-sxm",
}
"""What is drawn of specs alone; a diff, a choice and a history need steps before."""


def main() -> int:
    """Draw every picture and name it with its size."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, words in PICTURES.items():
            _run(f"{words} -o {FOLDER / kind}.svg", folder)
        before, after = (_plan(batch, folder) for batch in (16, 24))
        _run(f"chart diff {before} {after} -o {FOLDER / 'diff'}.svg", folder)
        choice = folder / "choice.json"
        choice.write_text(_run(CHOOSE, folder), encoding="utf-8")
        _run(f"chart front {choice} -o {FOLDER / 'front'}.svg", folder)
    _history()
    for file in sorted(FOLDER.glob("*.svg")):
        sys.stdout.write(f"{file.relative_to(ROOT)} {file.stat().st_size:,} bytes\n")
    return 0


def _plan(batch: int, folder: Path) -> str:
    """A stored plan of the chat at another batch."""
    said = _run(f"plan {CHAT} --set step.decode.batch={batch} --no-advice", folder)
    return said.rpartition("\nplan ")[2].partition(":")[0]


def _history() -> None:
    """Runs of the chat, a day each, of made-up figures; one of them is a baseline."""
    started = datetime(2026, 11, 2, 9, tzinfo=UTC)
    head = {"plan_id": "5ef6060506ef", "plan": "qwen2.5-7b-chat", "tool": "vllm 0.26"}
    head |= {"metric": "step", "statistic": "mean", "unit": "s"}
    predicted = {"predicted": 0.0245, "fastest": 0.0208, "slowest": 0.0305}
    rows: list[dict[str, Any]] = []
    for day, measured in enumerate((0.0259, 0.0261, 0.0254, 0.0278, 0.0256, 0.0255)):
        row = {"run_id": f"{day:012x}", "recorded_at": started + timedelta(days=day)}
        row |= {"measured": measured, "ratio": measured / 0.0245}
        rows.append(head | predicted | row | {"baseline": "main" if day == 1 else None})
    save_chart(history_chart(rows), FOLDER / "history.svg")


def _run(words: str, folder: Path) -> str:
    done = process.planner(words.split(), ROOT, folder / "plans.db")
    if done.code:
        raise RuntimeError(f"planner {words} ended with {done.code}:\n{done.err}")
    return done.out


if __name__ == "__main__":
    sys.exit(main())
