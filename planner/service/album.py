"""Pictures that were drawn, for those who ask again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

_KEPT = 128


class Album:
    """Pictures that were drawn, the least recently seen given up first."""

    def __init__(self) -> None:
        self.drawing = asyncio.Lock()
        """One picture is drawn at a time, so that plans need not wait behind a page's charts."""
        self._kept: OrderedDict[tuple[str, ...], str] = OrderedDict()

    def find(self, key: tuple[str, ...]) -> str | None:
        """A picture that is still there."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: tuple[str, ...], picture: str) -> None:
        """Keep a picture for those who ask again."""
        self._kept[key] = picture
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
