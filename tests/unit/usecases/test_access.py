"""Grants and principals: which scope includes which, and what a pattern means."""

from __future__ import annotations

from typing import get_args

import pytest

from noetl.errors import BadRequest
from noetl.usecases.access import (
    ANYBODY,
    NOBODY,
    SCOPES,
    Grant,
    Principal,
    Scope,
    check_name,
    parse_grants,
)
from noetl.usecases.fields import holds
from tests.contract.given import execution


def principal(*grants: str) -> Principal:
    return Principal("ci", parse_grants(grants))


def test_a_scope_includes_those_before_it() -> None:
    def may(scope: str) -> set[str]:
        return {other for other in get_args(Scope) if principal(scope).may(other)}

    assert may("read") == {"read"}
    assert may("run") == {"read", "run"}
    assert may("operate") == {"read", "run", "operate"}
    assert may("approve") == {"read", "approve"}
    assert may("admin") == set(get_args(Scope)) == set(SCOPES)


PATHS = ("etl/load", "etl/a/b", "etl", "etlx/load", "ops/etl/load", "a/nightly", "etl/load/more", "etl.load")


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("etl/load", {"etl/load"}),
        ("/etl/load/", {"etl/load"}),
        ("etl/*", {"etl/load", "etl/a/b", "etl/load/more"}),
        ("etl*", {"etl/load", "etl/a/b", "etl", "etlx/load", "etl/load/more", "etl.load"}),
        ("*/load", {"etl/load", "etlx/load", "ops/etl/load"}),
        ("*/nightly", {"a/nightly"}),
        ("etl.load", {"etl.load"}),
        ("*", set(PATHS)),
        ("e*l/*d", {"etl/load"}),
    ],
)
def test_a_pattern_means_the_same_paths_for_questions_and_for_lists(pattern: str, meant: set[str]) -> None:
    somebody = principal(f"run:{pattern}")
    assert {path for path in PATHS if somebody.may("run", path)} == meant
    for scope in ("read", "run"):
        condition = somebody.reach(scope)  # type: ignore[arg-type]
        rows = [execution(path=path) for path in PATHS]
        assert {row.path for row in rows if condition is None or holds(condition, row)} == meant


def test_a_grant_for_a_pattern_is_none_for_everything() -> None:
    somebody = principal("operate:etl/*", "read")
    assert somebody.may("read")
    assert somebody.visible() is None
    assert not somebody.may("operate")
    assert somebody.has_some("operate")
    assert not somebody.has_some("admin")
    assert somebody.may("operate", "etl/x")
    assert not somebody.may("operate", "ops/x")


def test_who_has_no_grant_reaches_nothing() -> None:
    condition = principal("read:etl/*").reach("operate")
    assert condition is not None
    assert not holds(condition, execution(path="etl/x"))
    assert not any(NOBODY.has_some(scope) for scope in get_args(Scope))
    assert all(ANYBODY.may(scope) for scope in get_args(Scope))


@pytest.mark.parametrize(
    ("pattern", "place", "whole"),
    [
        ("etl/*", "etl/a", True),
        ("etl/*", "etl", False),
        ("etl*", "etl", True),
        ("etl/a", "etl/a", False),
        ("*/nightly", "a/nightly", False),
        ("*/a*b", "x/ab", False),
        ("*", "etl", True),
    ],
)
def test_what_is_below_a_place_has_to_be_meant_as_a_whole(pattern: str, place: str, whole: bool) -> None:
    assert principal(f"admin:{pattern}").may_below("admin", place) is whole


def test_a_grant_is_written_as_it_is_read() -> None:
    for text in ("read", "run:etl/*", "admin:a"):
        assert str(Grant.parse(text)) == text
    assert str(Grant.parse("run:*")) == "run"
    assert parse_grants([" read ", "read", "run:x"]) == (Grant("read"), Grant("run", "x"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("reed", "Did you mean"),
        ("", "no scope"),
        ("run:", "grants no path"),
        ("run:/", "grants no path"),
        ("run:a?", "grants no path"),
        ("run:[a]", "grants no path"),
        ("run:a b", "grants no path"),
        ("run:a\n", "grants no path"),
        ("run:a\ufffd", "grants no path"),
        ("run:" + "a" * 600, "grants no path"),
        ("Read", "Did you mean"),
    ],
)
def test_what_is_no_grant_is_refused(text: str, named: str) -> None:
    if text == "run:a\n":
        text = "run:a\nb"
    with pytest.raises(BadRequest, match=named):
        Grant.parse(text)


def test_there_is_at_least_one_grant() -> None:
    with pytest.raises(BadRequest, match="at least one scope"):
        parse_grants([])


@pytest.mark.parametrize("name", ["ci", "ada@example.org", "a+b/c-d_e.f", "0", "x" * 128])
def test_names(name: str) -> None:
    assert check_name(name, "principal") == name


@pytest.mark.parametrize("name", ["", "anonymous", "-a", "a b", "a\n", "é", "x" * 129, "a:b"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(BadRequest, match="for a group"):
        check_name(name, "group")
