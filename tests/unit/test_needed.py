"""What cannot be had on a machine skips a test, and fails it in CI."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.needed import running
from tests.services import Missing


@contextlib.contextmanager
def nowhere() -> Iterator[None]:
    raise Missing("It is not on PATH.")
    yield


def outcome(*, required: bool) -> type[BaseException]:
    """What `running` raises. A test that is skipped would say nothing of it."""
    with (
        pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match="It is not on PATH") as found,
        running(nowhere(), required=required),
    ):
        pass
    return found.type


def test_what_is_missing_skips_a_test_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert outcome(required=True) is pytest.skip.Exception


def test_what_is_missing_fails_a_test_in_ci_if_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert outcome(required=True) is pytest.fail.Exception
    assert outcome(required=False) is pytest.skip.Exception
