"""All filters and tests that a template may name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from noetl.expressions.list_filters import LIST_FILTERS
from noetl.expressions.predicates import TESTS
from noetl.expressions.run import Verb
from noetl.expressions.text_filters import TEXT_FILTERS

FILTERS: Mapping[str, Verb] = {**LIST_FILTERS, **TEXT_FILTERS}

__all__ = ["FILTERS", "TESTS", "nearest"]


def nearest(name: str, known: Mapping[str, Verb]) -> str:
    """A hint that names the known word most like `name`; empty where none is."""
    matches = get_close_matches(name, known, n=1)
    return f"Did you mean '{matches[0]}'?" if matches else ""
