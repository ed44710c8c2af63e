"""What is wrong with a pagination is said with its place."""

from __future__ import annotations

import pytest

from noetl.dsl import compile_playbook
from noetl.testing import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/test}\nworkflow:\n"


def problems(pagination: str, kind: str = "http", params: str = "{}") -> list[tuple[int, str]]:
    text = (
        f"{HEAD}  - step: start\n    tool:\n      kind: {kind}\n      url: u\n"
        f"      params: {params}\n      pagination: {pagination}\n"
    )
    return [(one.line, one.message) for one in compile_playbook(text, file="x.yaml", kinds=KINDS).problems]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{type: pages}", "pages"),
        ("{items: rows}", "the pagination has no type"),
        ("{type: cursor}", "pagination by cursor needs path"),
        ("{type: offset}", "pagination by offset needs limit"),
        ("{type: link, size: 3}", "`size` means nothing to pagination by link"),
        ("{type: page, size: 0}", "size is 0"),
        ("{type: page, max_pages: 0}", "max_pages is 0"),
        ("{type: page, size: 'x{{ a }}'}", "size is 'x{{ a }}'"),
        ("{type: page, delay: soon}", "is not a duration"),
        ("{type: page, stop: 3}", "stop"),
        ("{type: page, stop_when: '{{ }'}", "template"),
    ],
)
def test_a_pagination_that_cannot_be_used_says_why(given: str, said: str) -> None:
    ((line, message),) = problems(given)
    assert (line, said in message) == (10, True), message


def test_it_belongs_to_http() -> None:
    ((line, message),) = problems("{type: page}", kind="shell")
    assert (line, message) == (10, "`pagination` means nothing to shell")


@pytest.mark.parametrize(
    ("form", "params"),
    [("{type: link}", "{a: 'x{{ b }}'}"), ("{type: link}", "[[a, 1]]"), ("{type: page}", "[[a, 1]]")],
)
def test_parameters_that_it_cannot_change_are_reported(form: str, params: str) -> None:
    assert [line for line, message in problems(form, params=params) if "params" in message] == [10]
