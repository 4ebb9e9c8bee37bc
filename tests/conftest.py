"""Property tests draw the same examples every time, so that a failure is the change's own fault.

``HYPOTHESIS_PROFILE=explore python -m pytest`` draws fresh ones.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
