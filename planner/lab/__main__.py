"""``python -m planner.lab JOB.json OUT``: measures a job where only torch and NumPy are at hand."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from planner.errors import PlannerError
from planner.lab.job import load
from planner.lab.run import run


def main() -> int:
    """Exit code 0, or 2 with a sentence on what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m planner.lab")
    parser.add_argument("job", type=Path, help="made by `planner lab job`")
    parser.add_argument("out", type=Path, help="folder for what is measured")
    parser.add_argument("--force", action="store_true", help="measure a busy machine too")
    parser.add_argument("--fresh", action="store_true", help="forget what the folder holds")
    said = parser.parse_args()
    try:
        notes = run(
            load(said.job), said.out, progress=_to_stderr, force=said.force, fresh=said.fresh
        )
    except PlannerError as error:
        _to_stderr(str(error))
        return error.exit_code
    for note in notes:
        _to_stderr(note)
    return 0


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
