"""What a file says of requests: how many succeeded, and how long they were."""

from __future__ import annotations

from collections.abc import Mapping

from planner.importers.fields import Fields

Known = Mapping[str, int | float | str | None]


def stated(known: Known) -> dict[str, int | float | str]:
    """The entries that a file does say."""
    return {path: value for path, value in known.items() if value is not None}


def completed(fields: Fields, done: str, failed: int | None, notes: list[str]) -> int:
    """How many requests succeeded. Raises ImportRefused when none did; some failing is noted."""
    count = fields.count(done)
    if count is None:
        raise fields.refusal(done, "is missing")
    if not count:
        raise fields.refusal(done, "is 0: every request failed", "look at the server's log")
    if failed:
        notes.append(f"requests failed: {failed}; figures are of the {count} that succeeded")
    return count


def mean_length(
    fields: Fields, total: str, requests: int, what: str, notes: list[str]
) -> int | None:
    """Mean tokens per request, rounded; a mean that is no whole number is noted."""
    tokens = fields.count(total)
    if tokens is None:
        return None
    if tokens % requests:
        notes.append(f"{what} lengths vary; {round(tokens / requests)} tokens is their mean")
    return max(1, round(tokens / requests)) if tokens else None
