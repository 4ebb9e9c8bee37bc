"""Print every published claim beside the planner's figure: ``python docs/claims.py``.

The exit code is 1 when a figure is wrong. docs/claims.md is made of the same tables.
"""

# ruff: noqa: INP001 - a script beside the page it makes
from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT)]

from builders import claims  # noqa: E402 - found through sys.path


def main() -> int:
    """Print the tables."""
    parts = (claims.summary(), claims.listed(), claims.left_out())
    sys.stdout.write("\n\n".join(parts) + "\n")
    return int(not all(claim.right for claim in claims.claims()))


if __name__ == "__main__":
    sys.exit(main())
