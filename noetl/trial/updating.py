"""Writes what came in the place of what tests expect, and leaves the rest of their file as it
is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from noetl.dsl.read.source import read
from noetl.trial.running import TrialVerdict
from noetl.trial.suites import TESTS
from noetl.trial.verdicts import renewed


def update_text(verdicts: Iterable[TrialVerdict]) -> str:
    """The text of the file that these tests stand in, with expectations that hold.

    Raises PlaybookInvalid where the text cannot be read with its comments, and ModuleNotFoundError
    without ruamel.yaml.
    """
    # ruamel.yaml is an extra.
    from noetl.dsl.read.canonical_text import canonical_text

    verdicts = list(verdicts)
    source = read(verdicts[0].suite.source.text, str(verdicts[0].suite.file))
    data: dict[str, Any] = dict(source.data or {})
    tests = list(data[TESTS])
    for verdict in verdicts:
        tests[verdict.index] = {
            **tests[verdict.index],
            "expect": renewed(verdict.test.expect, verdict.played),
        }
    data[TESTS] = tests
    # Every part is where it was.
    return canonical_text(source.rewritten(data, {(): ()}))
