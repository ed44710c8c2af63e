"""Tests of playbooks as pytest's items. Only the plug-in imports this: pytest is no dependency."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import NoetlError, PlaybookInvalid
from noetl.tools.kit.registry import kinds
from noetl.trial.running import TrialVerdict, explain_failure, run_test
from noetl.trial.stage import TrialStage, open_stage
from noetl.trial.suites import Suite, is_meant, read_suite

_STAGE = pytest.StashKey[TrialStage]()


class TrialFailed(AssertionError):
    """An execution went otherwise than its test says."""

    def __init__(self, verdict: TrialVerdict) -> None:
        super().__init__(verdict.name)
        self.verdict = verdict


def collect(file: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The collector of a file that is meant for NoETL; None for another one that is called
    alike."""
    return TrialModule.from_parent(parent, path=file) if is_meant(file) else None


class TrialModule(pytest.File):
    """A file of tests."""

    def collect(self) -> Iterator[TrialItem]:
        try:
            suite = read_suite(self.path, kinds())
        except PlaybookInvalid as error:
            raise self.CollectError("\n".join(map(str, error.problems))) from None
        for index, test in enumerate(suite.tests):
            yield TrialItem.from_parent(self, name=test.name or str(index), suite=suite, index=index)


class TrialItem(pytest.Item):
    """One test of a playbook."""

    def __init__(self, *, suite: Suite, index: int, **options: Any) -> None:
        super().__init__(**options)
        self.suite = suite
        self.index = index

    def runtest(self) -> None:
        verdict = run_test(_stage_of(self.config), self.suite, self.index)
        if not verdict.passed:
            raise TrialFailed(verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Lines with places in the file of tests, and no traceback of the engine."""
        if isinstance(excinfo.value, TrialFailed):
            return "\n".join(explain_failure(excinfo.value.verdict))
        if isinstance(excinfo.value, NoetlError):
            return excinfo.value.message
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        line = self.suite.source.mark(("tests", self.index)).line
        return self.path, line - 1, self.name


def _stage_of(config: pytest.Config) -> TrialStage:
    """One for all tests of a session: processes for user code are started once."""
    if _STAGE not in config.stash:
        stack = ExitStack()
        config.stash[_STAGE] = stack.enter_context(open_stage())
        config.add_cleanup(stack.close)
    return config.stash[_STAGE]
