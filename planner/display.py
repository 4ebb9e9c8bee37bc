"""How values show themselves in notebooks: what draws them is told from above, so that values need
to know nothing of reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

Library = Literal["pandas", "polars"]
_html: list[Callable[[Any], str]] = []
_frame: list[Callable[[Any, str | None, Library | None], Any]] = []


def register(
    html: Callable[[Any], str], frame: Callable[[Any, str | None, Library | None], Any]
) -> None:
    """Say what draws values, and what makes frames of them; the package does so at import."""
    _html[:], _frame[:] = [html], [frame]


class Displayed:
    """A value that a notebook shows as more than its ``repr``."""

    def _repr_html_(self) -> str | None:
        return _html[0](self) if _html else None

    def to_frame(self, table: str | None = None, library: Library | None = None) -> Any:
        """One of its tables as a data frame, a row each; numbers in SI, as ``--json`` has them.

        ``table`` is the first of the value's tables unless it is named: ``kernels`` or ``nodes`` of
        a plan, ``modes`` or ``parts``; of a comparison ``parts``, ``flips`` or ``groups``; of a
        verdict ``judgements``. ``library`` is pandas where that is installed, else polars. Raises
        UsageError for a table there is not, or where neither is installed.
        """
        return _frame[0](self, table, library)
