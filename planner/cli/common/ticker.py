"""Progress of something long on stderr: one line that is written over, or a line per part."""

from __future__ import annotations

import shutil
import sys

_OVER = "\r\x1b[K"


class Ticker:
    """Told a line at a time, as in ``GEMM: rows=16``.

    On a terminal the newest line stands in the place of the one before. In a log only the first
    line of each part is kept, the part being what comes before the colon.
    """

    def __init__(self) -> None:
        self._part = ""
        self._open = False

    def __call__(self, line: str) -> None:
        """Tell one line."""
        part = line.partition(":")[0]
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"{_OVER}{line[:width]}")
            self._open = True
        elif part != self._part:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
        self._part = part

    def end(self) -> None:
        """Leave the line, so that what follows begins on one of its own."""
        if self._open:
            sys.stderr.write(_OVER)
            sys.stderr.flush()
            self._open = False
