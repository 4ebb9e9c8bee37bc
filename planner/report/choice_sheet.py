"""A choice as a report, from what ``planner choose --json`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from planner.report.cells import (
    DASH,
    bullets,
    facts,
    heading,
    price,
    rate,
    share,
    small,
    table,
    words,
)
from planner.report.choose import limit_words
from planner.report.money import money
from planner.report.pieces import Picture, Piece, pieces
from planner.report.running import running
from planner.serving.targets import Targets
from planner.units import show_seconds

Document = Mapping[str, Any]
_LISTED = 12
_CHANGES = ("precision.", "backend.")
"""What of a choice its hardware and split do not say."""


def choice_title(document: Document) -> str:
    """What the report is called."""
    return f"Hardware for {document['model']}"


def choice_about(document: Document) -> str:
    """The load in a line."""
    load = document["workload"]
    users = f"{load['concurrency']:,} users, " if load.get("concurrency") else ""
    return f"{document['model']}: {users}{load['input']:,} tokens in, {load['output']:,} out"


def choice_sheet(document: Document, picture: str | None = None) -> tuple[Piece, ...]:
    """What is asked, the picture, what keeps the limits, how to run the cheapest."""
    found = list(_asked(document))
    if picture is not None:
        found.append(Picture(picture))
    for view in _views(document):
        found += pieces(view)
    return tuple(found)


def _asked(document: Document) -> Iterator[Piece]:
    targets = Targets(**document["targets"])
    rows = (("load", choice_about(document)), ("limits", limit_words(targets)))
    yield from pieces(facts([*rows, ("most GPUs", document["max_gpus"])]))


def _views(document: Document) -> Iterator[RenderableType]:
    choices = document["choices"]
    if choices:
        yield heading("What keeps the limits, cheapest first")
        yield _rows(choices[:_LISTED])
        yield small("Margin: to the tightest limit, with ? where its 80 % interval crosses it.")
        yield money([(_rent(row), row["spending"]) for row in choices[:_LISTED]])
        yield from _command(choices[0])
    else:
        yield words("nothing that was planned keeps the limits", "bold red")
    if document["nearest"]:
        yield heading("What misses them by least")
        yield _rows(document["nearest"])
    if document["front"]:
        yield heading("Pareto front: nothing is both cheaper and faster")
        yield _rows(document["front"])
    if document["given"]:
        yield heading("The deployment as it stands")
        yield _rows([document["given"]])
    yield heading("What was tried")
    yield words(f"{document['planned']:,} deployments planned")
    yield bullets(f"{row['count']:,} left out: {row['reason']}" for row in document["left_out"])


def _rows(rows: Sequence[Document]) -> RenderableType:
    headers = ("rent", "split", "changes", "USD/h", "first token", "a token", "out/s", "margin")
    found = table((*headers, "USD/M out"), left=(0, 1, 2))
    for row in rows:
        serving, spending = row["serving"], row["spending"]
        found.add_row(
            words(_rent(row)),
            words(_split(row["parallel"])),
            words("\n".join(text for text in row["sets"] if text.startswith(_CHANGES)) or DASH),
            price(spending["price_per_hour"]),
            show_seconds(serving["ttft_s"]["value"]),
            show_seconds(serving["tpot_s"]["value"]),
            rate(serving["output_tokens_per_s"]["value"]),
            _margin(row),
            price(spending["per_million_output"]),
        )
    return found


def _rent(row: Document) -> str:
    return f"{row['units']} × {row['offer']}"


def _split(parallel: Mapping[str, int]) -> str:
    names = {"tensor": "tp", "pipeline": "pp", "expert": "ep", "data": "dp"}
    said = [f"{short} {parallel[name]}" for name, short in names.items() if parallel[name] > 1]
    return ", ".join(said) or "one GPU"


def _margin(row: Document) -> str:
    margins = [each["margin"] for each in row["margins"]]
    return f"{share(min(margins))}{' ?' if row['unsure'] else ''}" if margins else DASH


def _command(choice: Document) -> Iterator[RenderableType]:
    if choice["command"] is not None:
        yield from running(choice["command"])
