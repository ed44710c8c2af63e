"""Hypothesis profiles, and the modules that the tests of this folder share.

HYPOTHESIS_PROFILE chooses: `quick` (default), `ci` (more examples), `search` (many, of a new seed each time).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

_COMMON = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=60, derandomize=True, **_COMMON)
settings.register_profile("ci", max_examples=150, derandomize=True, **_COMMON)
settings.register_profile("search", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
