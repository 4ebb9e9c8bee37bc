"""Fields of a Hugging Face config, read with their types, defaults and places."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from planner.errors import Fault
from planner.spec.faults import said, shown
from planner.spec.origin import Document, Origin, Path

LARGEST = 10**9
"""A dimension beyond this was mistaken for another figure."""
MOST_LAYERS = 2_000


class Config:
    """One object of a config.json. A wrong field becomes a fault and reads as its default.

    A key that is absent or null takes the default that transformers' class gives it.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        document: Document,
        path: Path = (),
        faults: list[Fault] | None = None,
        lifted: frozenset[str] = frozenset(),
    ) -> None:
        """``lifted`` are keys of ``data`` that stand at the document's root."""
        self.data = data
        self.document = document
        self.path = path
        self.faults: list[Fault] = [] if faults is None else faults
        self.lifted = lifted
        self.read: set[str] = set()
        """Keys that were asked for, present or not."""

    def origin(self, key: str) -> Origin:
        """Where a field stands."""
        return Origin(self.document, self.place(key))

    def place(self, key: str) -> Path:
        """The path of a field from the document's root."""
        return (key,) if key in self.lifted else (*self.path, key)

    def refuse(self, key: str, message: str, hint: str | None = None) -> None:
        """Note a fault at a field."""
        origin = self.origin(key)
        self.faults.append(origin.fault(said(origin.path, message), hint))

    def get(self, key: str) -> Any:
        """The field as it stands, or None."""
        self.read.add(key)
        return self.data.get(key)

    def first(self, *keys: str) -> str:
        """The first of several spellings that is present; none is the first."""
        self.read.update(keys)
        return next((key for key in keys if self.data.get(key) is not None), keys[0])

    def count(self, key: str, default: int, *, most: int = LARGEST, least: int = 1) -> int:
        """A whole number of at least ``least``."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, f"expected a whole number, got {shown(value)}")
            return default
        if not least <= value <= most:
            self.refuse(key, f"must be from {least:,} to {most:,}, got {shown(value)}")
            return default
        return value

    def maybe(self, key: str, default: int | None = None) -> int | None:
        """A whole number, or None where it is absent and has no default."""
        if self.get(key) is None:
            return default
        return self.count(key, 1)

    def number(self, key: str, default: float) -> float:
        """A number no further from nought than `LARGEST`."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, f"expected a number, got {shown(value)}")
            return default
        if not abs(value) <= LARGEST:
            self.refuse(key, f"must be at most {LARGEST:,}, got {shown(value)}")
            return default
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(key, f"expected true or false, got {shown(value)}")
            return default
        return value

    def text(self, key: str) -> str | None:
        """A text, or None."""
        value = self.get(key)
        if value is not None and not isinstance(value, str):
            self.refuse(key, f"expected text, got {shown(value)}")
            return None
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; none where it is absent."""
        value = self.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(key, f"expected a list of texts, got {shown(value)}")
            return ()
        return tuple(value)

    def inside(self, key: str) -> Config | None:
        """The object under a key, or None."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.refuse(key, f"expected an object, got {shown(value)}")
            return None
        return Config(value, self.document, self.place(key), self.faults)

    def expect(self, key: str, allowed: Collection[object], default: object, why: str) -> None:
        """Refuse any value of a field but ``allowed``; ``why`` says which structure it asks for."""
        value = self.get(key)
        value = default if value is None else value
        same = [item for item in allowed if type(item) is type(value) and item == value]
        if not same:
            words = " or ".join(shown(item) for item in allowed)
            self.refuse(key, f"{shown(value)} {why}; known here is {words}")
