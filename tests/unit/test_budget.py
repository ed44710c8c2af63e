"""The profiles of the tests: what each leaves out, and how much its tests try."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.budget import (
    Level,
    Profile,
    budget,
    examples,
    is_chosen,
    level,
    may_have_chosen,
    profile,
)

PROFILES = get_args(Profile)


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NOETL_TEST_PROFILE", "NOETL_TEST_KILLS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("name", "expected"), [*zip(PROFILES, PROFILES, strict=True), ("", "full")])
def test_the_environment_names_the_profile_and_without_a_name_everything_runs(
    name: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_TEST_PROFILE", name)
    assert profile() == expected


def test_a_profile_that_does_not_exist_is_refused_with_those_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TEST_PROFILE", "fast")
    with pytest.raises(ValueError, match="is 'fast'; it must be one of quick, rest, full, long"):
        profile()


@pytest.mark.parametrize(
    ("folder", "marks", "runs"),
    [
        ("unit", "", "quick full long"),
        ("unit", "full", "rest full long"),
        ("unit", "long", "long"),
        ("unit", "full long", "long"),
        ("unit", "postgres", "rest full long"),
        ("acceptance", "acceptance postgres redis", "rest full long"),
        ("acceptance", "acceptance postgres redis quick", "quick full long"),
        ("playbooks", "", "rest full long"),
        ("playbooks", "quick", "quick full long"),
        ("house", "", "full long"),
    ],
)
def test_every_test_is_of_quick_or_of_the_rest_or_a_rule_that_make_check_tries(
    folder: str, marks: str, runs: str
) -> None:
    file = f"tests/{folder}/test_it.py"
    text = "".join(f"@pytest.mark.{mark}\n" for mark in marks.split())
    chosen, read = [], []
    for run in PROFILES:
        chosen += [run] if is_chosen(f"{file}::test_it", set(marks.split()), run) else []
        read += [run] if may_have_chosen(file, text, run) else []
    assert chosen == runs.split()
    assert set(chosen) <= set(read), "a file is passed over, and a test with it"


def test_files_without_a_test_of_the_run_are_not_even_imported() -> None:
    assert not may_have_chosen("tests/playbooks/test_it.py", "@pytest.mark.full", "quick")
    assert not may_have_chosen("tests/unit/test_it.py", "@pytest.mark.long", "rest")


def test_a_variable_of_its_own_overrides_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TEST_PROFILE", "quick")
    assert budget("NOETL_TEST_KILLS", quick=5, full=12, long=500) == 5
    monkeypatch.setenv("NOETL_TEST_KILLS", "7")
    assert budget("NOETL_TEST_KILLS", quick=5, full=12, long=500) == 7


def test_more_thorough_levels_try_more_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    for name in get_args(Level):
        monkeypatch.setenv("NOETL_TEST_PROFILE", name)
        tried.append(examples(60))
    assert tried == [12, 60, 1800]


def test_the_rest_tries_as_much_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TEST_PROFILE", "rest")
    assert level() == "full"
