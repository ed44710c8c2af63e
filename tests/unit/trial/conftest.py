"""Playbooks on trial: one stage for all, and files in a folder of the test's own."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from noetl.config import Settings
from noetl.tools.kit.registry import kinds
from noetl.trial.running import TrialVerdict, explain_failure, run_test
from noetl.trial.stage import TrialStage, open_stage
from noetl.trial.suites import read_suite

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/trial}\n"

#: `trial(playbook, tests)`: what became of the tests in a file beside the playbook.
Trial: TypeAlias = Callable[[str, str], list[TrialVerdict]]


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrialStage]:
    with open_stage(Settings(home=tmp_path_factory.mktemp("home"))) as opened:
        yield opened


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """`write(playbook, tests)`: both files; that of the tests."""

    def written(playbook: str, tests: str) -> Path:
        (tmp_path / "book.yaml").write_text(HEAD + textwrap.dedent(playbook), encoding="utf-8")
        file = tmp_path / "book.test.yaml"
        file.write_text(textwrap.dedent(tests), encoding="utf-8")
        return file

    return written


@pytest.fixture
def trial(stage: TrialStage, write: Callable[[str, str], Path]) -> Trial:
    def tried(playbook: str, tests: str) -> list[TrialVerdict]:
        suite = read_suite(write(playbook, tests), kinds())
        return [run_test(stage, suite, index) for index in range(len(suite.tests))]

    return tried


def failures(verdict: TrialVerdict) -> str:
    """Why a test failed, without the folder."""
    lines = "\n".join(explain_failure(verdict))
    return lines.replace(f"{verdict.suite.file.parent}/", "")
