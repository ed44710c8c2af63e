"""The profiles of the tests: how much each tries, and what it leaves out."""

from __future__ import annotations

import pytest

from tests.budget import PROFILES, budget, examples, profile


@pytest.mark.parametrize(("name", "expected"), [*zip(PROFILES, PROFILES, strict=True), ("", "full")])
def test_the_environment_names_the_profile_and_without_a_name_everything_runs(
    name: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_TEST_PROFILE", name)
    assert profile() == expected


def test_a_profile_that_does_not_exist_is_refused_with_those_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TEST_PROFILE", "fast")
    with pytest.raises(ValueError, match="is 'fast'; it must be one of quick, full, long"):
        profile()


def test_a_variable_of_its_own_overrides_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TEST_PROFILE", "quick")
    monkeypatch.delenv("NOETL_TEST_KILLS", raising=False)
    assert budget("NOETL_TEST_KILLS", quick=5, full=12, long=500) == 5
    monkeypatch.setenv("NOETL_TEST_KILLS", "7")
    assert budget("NOETL_TEST_KILLS", quick=5, full=12, long=500) == 7


def test_more_thorough_profiles_try_more_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    for name in PROFILES:
        monkeypatch.setenv("NOETL_TEST_PROFILE", name)
        tried.append(examples(60))
    assert tried == [12, 60, 1800]
