"""The one way things are registered: a decorator with a name, duplicates refused at import."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """Named things of one kind, in the order they were registered."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that files its argument under ``name``.

        Raises ValueError at import when the name is taken: two things by one name is a bug.
        """

        def decorate(thing: T) -> T:
            if name in self._things:
                raise ValueError(f"two of kind {self.kind} are named {name!r}")
            self._things[name] = thing
            return thing

        return decorate

    def get(self, name: str) -> T | None:
        """The thing of that name, or None."""
        return self._things.get(name)

    def names(self) -> tuple[str, ...]:
        """Every registered name."""
        return tuple(self._things)

    def nearest(self, name: str) -> str | None:
        """The registered name most like a misspelt one, if any is close."""
        return nearest(name, self._things)

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return iter(self._things.items())


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The one of ``words`` closest to ``word``, or None when none is near (ratio below 0.6).

    One that goes on where ``word`` stops is closest: ``qwen2.5-0.5b-instruct`` to ``qwen2.5-0.5b``.
    """
    known = list(words)
    longer = [each for each in known if word and each.startswith(f"{word}-")]
    if longer:
        return min(longer, key=len)
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None
