"""What to type so that an engine serves a deployment."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class EngineCommand:
    """What to type."""

    words: tuple[str, ...]
    servers: int
    """How many servers to start so, with what spreads requests over them in front."""
    install: str | None
    """The package in the version planned, as pip takes it; None for no version in particular."""
    unsaid: tuple[str, ...]
    """What the deployment has and the command cannot say."""
    notes: tuple[str, ...]

    @property
    def line(self) -> str:
        """The command as a shell takes it."""
        return shlex.join(self.words)

    @property
    def script(self) -> str:
        """The command after the installation of its version."""
        return f"pip install {self.install}\n{self.line}" if self.install else self.line
