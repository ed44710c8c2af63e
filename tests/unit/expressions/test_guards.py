"""Guards: expressions with and without braces, and when they hold."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.expressions import truth
from tests.unit.expressions.sample import NAMES


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        (True, True),
        (False, False),
        (None, False),
        (1, True),
        ([], False),
        ("", False),
        ("  \n", False),
        ("n == 3", True),
        ("\n  n == 3\n", True),
        ("n > 5 or s == 'abc'", True),
        ("nope", False),
        ("nope.ok == true", False),
        ("true", True),
        ("'{' in s", False),
        ("{'a': {'b': 1}}.a.b == 1", True),
        ("{{ n == 3 }}", True),
        ("{{ 'false' }}", True),
        ("{{ 0 }}", False),
        ("{{ nope }}", False),
        ("{{ xs }}", True),
        ("x{{ nope }}", True),
        ("{{ yes }}{{ nope }}", True),
        ("{{ not yes }}{{ nope }}", False),
        ("{% if n > 5 %}yes{% else %}No{% endif %}", False),
        ("{% if n > 5 %}yes{% endif %}", False),
        ("{{ 0 }}{{ nope }}", False),
        ("OFF{# never #}", False),
        ("None{# never #}", False),
        ("null{# never #}", False),
    ],
)
def test_guards(guard: Any, expected: bool) -> None:
    assert truth(guard, NAMES) is expected


def test_a_broken_guard_is_an_error() -> None:
    for guard in ("n ==", "n }} m", "n n", "{{ n"):
        with pytest.raises(TemplateError, match="syntax error"):
            truth(guard, NAMES)
