"""Frozen dataclasses that are made quickly: a plan makes thousands of them.

``frozen=True`` is kept by mypy alone. At run time each field of a frozen dataclass is set through
`object.__setattr__`, which took a sixth of the time of a plan. All else is as the standard library
has it, equality and hash too.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, **options: Any) -> Any:
        """As `dataclasses.dataclass`."""
        hashed = frozen and options.get("eq", True)
        return dataclasses.dataclass(cls, unsafe_hash=hashed, **options)


__all__ = ["dataclass"]
