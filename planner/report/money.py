"""What choices cost by the million tokens, in money and in energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from planner.report.cells import DASH, heading, price, small, table, words

_ABOUT = (
    "Of a million tokens at this load: what is paid is split between input and output by the time "
    "that goes to each. Energy is that of GPUs at their TDP, without hosts and cooling."
)


def money(found: Sequence[tuple[str, Mapping[str, Any]]]) -> RenderableType:
    """What is rented, each with its `Spending` as `planner choose --json` has it."""
    headers = ("", "rent", "USD/M in", "USD/M out", "USD/M all", "kW", "kWh/M out")
    rows = table(headers, left=(1,))
    for number, (rent, spent) in enumerate(found, 1):
        watts, kwh = spent["power_w"], spent["kwh_per_million_output"]
        rows.add_row(
            str(number),
            words(rent),
            price(spent["per_million_input"]),
            price(spent["per_million_output"]),
            price(spent["per_million_tokens"]),
            DASH if watts is None else f"{watts / 1e3:.3g}",
            DASH if kwh is None else f"{kwh:.3g}",
        )
    return Group(heading("What a million tokens costs"), rows, small(_ABOUT))
