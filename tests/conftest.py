"""Property tests draw the same examples every time, so that a failure is the change's own fault.

`make thorough` draws many more of them; ``HYPOTHESIS_PROFILE=explore python -m pytest`` draws as many
fresh ones.
"""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, max_examples=40, **UNTIMED)
settings.register_profile("thorough", derandomize=True, **UNTIMED)
settings.register_profile("explore", derandomize=False, **UNTIMED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

gc.set_threshold(100_000)  # as the program does: plans leave little garbage


def pytest_terminal_summary(terminalreporter):
    """What tests recorded, from whichever process they ran in."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            terminalreporter.line(f"{name}: {value}")
