"""A template is cut where its expressions begin and end, and nowhere else."""

from __future__ import annotations

import pytest

from noetl.expressions import evaluate, pieces


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ base }}/orders/{{ id }}?x=1", ("{{ base }}", "/orders/", "{{ id }}", "?x=1")),
        ("{{ '}}' ~ {'a': {}} }} b\n", ("{{ '}}' ~ {'a': {}} }}", " b\n")),
        ("plain", ("plain",)),
        ("", ("",)),
    ],
)
def test_texts_and_expressions_are_pieces(source: str, expected: tuple[str, ...]) -> None:
    assert pieces(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "{% if a %}{{ b }}{% endif %}",
        "a {{- b }} c",
        "a {# {{ no }} #} {{ b }}",
        "a {{ b",
        "a }} {{ 'b",
        "a\r\n{{ b }}",
        "{{ a }}" * 60_000,
    ],
)
def test_what_means_something_only_as_a_whole_is_one_piece(source: str) -> None:
    assert pieces(source) == (source,)


def test_pieces_say_together_what_the_template_says() -> None:
    names = {"a": True, "b": None, "c": {"d": [1]}}
    source = "x {{ a }}-{{ b }}-{{ c.d }} y"
    apart = "".join(str(evaluate(piece + "{{ '' }}", names)) for piece in pieces(source))
    assert apart == evaluate(source, names) == "x true--[1] y"
