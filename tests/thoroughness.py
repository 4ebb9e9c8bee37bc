"""How far tests of properties search: as far as `make test` may take, or `make thorough`."""

import os

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE", "steady") != "steady"


def many(usual: int, thorough: int) -> int:
    """A number of examples."""
    return thorough if THOROUGH else usual
