"""The built wheel, installed into an empty environment elsewhere, plans by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOYMENT = """
model: qwen2.5-7b-instruct
gpu: rtx-4090
step: {decode: {batch: 16, context: 4096}}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `planner` command of an environment that holds the wheel alone."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "env"
    venv.create(environment, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", str(wheel)], check=True)
    return environment / "bin" / "planner"


def run(command: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the wheel's command away from the checkout, dependencies lent by this environment.

    Path files are not read along PYTHONPATH, so an editable planner of this environment stays out.
    """
    surroundings = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "PYTHONPATH": sysconfig.get_paths()["purelib"],
    }
    return subprocess.run(
        [str(command), *arguments],
        cwd=folder,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_plans_stores_and_lists_away_from_the_checkout(installed, tmp_path):
    (tmp_path / "deploy.yaml").write_text(DEPLOYMENT)
    planned = run(installed, tmp_path, "plan", "deploy.yaml", "--json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    listed = run(installed, tmp_path, "list", "--json")
    assert plan["plan_id"] in listed.stdout
    assert list(tmp_path.rglob("plans.db")), "stored below the home directory"


def test_the_wheel_carries_its_own_catalogue(installed, tmp_path):
    shown = run(installed, tmp_path, "catalog", "list", "gpus", "--json")
    assert shown.returncode == 0, shown.stderr
    assert "h200-sxm" in shown.stdout


def test_the_wheel_is_the_planner_that_ran(installed, tmp_path):
    python = installed.with_name("python")
    found = run(python, tmp_path, "-c", "import planner; print(planner.__file__)")
    assert str(installed.parents[1]) in found.stdout
