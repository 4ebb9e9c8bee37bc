"""Graphs of mixtures of experts on one rank of several: who holds what, and which sums follow."""

import pytest
from graph_samples import *  # noqa: F403
