"""`metadata.labels`: what becomes of them, and what is left out with a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from noetl.dsl import Code, Compiled
from noetl.net.codec import digest, from_json, to_json

Compile: TypeAlias = Callable[[str], Compiled]


def text(labels: str | None) -> str:
    more = "" if labels is None else f"\n  labels: {labels}"
    return (
        f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: x{more}\n"
        "workflow: [{step: start, tool: {kind: noop}}]\n"
    )


@pytest.mark.parametrize(
    ("labels", "meant"),
    [
        ("{team: data, a/b.c-d_1: 'x y'}", {"team": "data", "a/b.c-d_1": "x y"}),
        ("{n: 3, f: 1.5, yes: true, no: false}", {"n": "3", "f": "1.5", "yes": "true", "no": "false"}),
        ("{team: '{{ workload.team }}'}", {"team": "{{ workload.team }}"}),
        ("{empty: ''}", {"empty": ""}),
        ("{}", {}),
        ("null", {}),
    ],
)
def test_a_mapping_of_names_to_scalars_is_taken(
    compiled: Compile, labels: str, meant: dict[str, str]
) -> None:
    found = compiled(text(labels))
    assert found.net is not None
    assert (found.net.labels, found.problems) == (meant, ())


@pytest.mark.parametrize(
    ("labels", "told", "place"),
    [
        ("[data]", "`labels` has no effect: it is no mapping", "metadata.labels"),
        ("data", "`labels` has no effect: it is no mapping", "metadata.labels"),
        ("7", "`labels` has no effect: it is no mapping", "metadata.labels"),
        ("{a: [1], ok: 1}", "labels have no text as 'a', but a list", "metadata.labels.a"),
        ("{a: {b: 1}, ok: 1}", "labels have no text as 'a', but a mapping", "metadata.labels.a"),
        ("{a: null, ok: 1}", "labels have no text as 'a', but null", "metadata.labels.a"),
        (
            f"{{ok: 1, a: {'x' * 201}}}",
            "labels have 201 characters as 'a', more than 200",
            "metadata.labels.a",
        ),
        ('{ok: 1, a: "x\\ty"}', "cannot be printed (U+0009)", "metadata.labels.a"),
        ("{ok: 1, b c: x}", "labels have the name 'b c'", "metadata.labels"),
        (f"{{ok: 1, {'n' * 64}: x}}", "of 64 characters, more than 63", "metadata.labels"),
    ],
)
def test_what_is_none_is_left_out_with_a_warning(
    compiled: Compile, labels: str, told: str, place: str
) -> None:
    found = compiled(text(labels))
    assert found.net is not None
    assert found.net.labels in ({}, {"ok": "1"})
    assert ("ok" in labels) == ("ok" in found.net.labels)
    (problem,) = found.problems
    assert (problem.code, problem.severity, problem.line) == (Code.IGNORED, "warning", 5)
    assert told in problem.message
    assert problem.path.startswith(place)


def test_of_too_many_the_first_ones_are_taken(compiled: Compile) -> None:
    found = compiled(text("{" + ", ".join(f"l{n}: {n}" for n in range(52)) + "}"))
    assert found.net is not None
    assert list(found.net.labels) == [f"l{n}" for n in range(50)]
    assert [one.path for one in found.problems] == ["metadata.labels.l50", "metadata.labels.l51"]
    assert {one.message for one in found.problems} == {"this label is left out: an execution has up to 50"}


def test_nets_keep_their_labels_and_those_without_keep_their_digest(compiled: Compile) -> None:
    plain, labelled = compiled(text(None)).net, compiled(text("{team: data}")).net
    assert plain is not None
    assert labelled is not None
    assert "labels" not in to_json(plain)
    assert from_json(to_json(labelled)) == labelled
    assert digest(plain) != digest(labelled)
