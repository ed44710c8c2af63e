"""All filters and tests that a template may name."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.expressions.list_filters import LIST_FILTERS
from noetl.expressions.members import Verb
from noetl.expressions.operators import NUMBER_FILTERS
from noetl.expressions.predicates import TESTS
from noetl.expressions.text_filters import TEXT_FILTERS
from noetl.expressions.time_filters import TIME_FILTERS

FILTERS: Mapping[str, Verb] = {**LIST_FILTERS, **NUMBER_FILTERS, **TEXT_FILTERS, **TIME_FILTERS}

__all__ = ["FILTERS", "TESTS"]
