"""What all kinds of spec share."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr

from planner.spec.origin import Origin

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._+-]*$", max_length=80)]
Expression = int | str
"""A whole number or arithmetic over dims: ``heads * head_dim``."""
Scalar = bool | int | float | str | None


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return text


Pattern = Annotated[str, AfterValidator(_expression)]
"""A regular expression that is searched for in a name."""


class Spec(BaseModel):
    """A frozen value that remembers where it was written."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )

    _origin: Origin = PrivateAttr(default_factory=Origin.unknown)

    @property
    def origin(self) -> Origin:
        """Where this value stands in the user's text, for errors found after reading it."""
        return self._origin

    def remember(self, origin: Origin) -> None:
        """Note where this value stands. Only the loader calls it, before it hands the value out."""
        self._origin = origin


class CatalogSpec(Spec):
    """What all catalogue files have."""

    name: Name
    title: str = Field(description="The name as its maker writes it")
    about: str | None = Field(None, description="One or two sentences for `planner catalog show`")
    sources: dict[str, str] = Field(
        default_factory=dict, description="Short keys for the places the figures were read in"
    )


Conditions = dict[str, Scalar | tuple[Scalar, ...]]
"""Facts that must hold: ``{flag.enforce_eager: false, tensor: '> 1', capability: [9.0, 10.0]}``.
A value is equalled; a list offers choices; a text may open with a comparison."""
