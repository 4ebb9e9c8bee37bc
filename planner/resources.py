"""Finds the folders that ship with the program, in a checkout or inside the installed wheel."""

from __future__ import annotations

from pathlib import Path

from planner.errors import PlannerError

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """Path of ``catalog``, ``specs`` or ``migrations``.

    The wheel carries them below ``planner/_data``; in a checkout they lie beside the package.
    Raises PlannerError when neither exists, which means a broken installation.
    """
    for candidate in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise PlannerError(f"the installation lacks its folder {name!r}; reinstall inference-planner")
