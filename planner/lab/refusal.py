"""Why the lab does not measure."""

from __future__ import annotations

from planner.errors import PlannerError


class LabRefused(PlannerError):  # noqa: N818 - as ImportRefused: a refusal, not a failure
    """The lab cannot measure here, or what it would measure could not be trusted."""

    def __init__(self, message: str, hint: str) -> None:
        self.hint = hint
        super().__init__(f"{message} ({hint})")
