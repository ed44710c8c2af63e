"""What became of tests, as JUnit writes it: for servers that build and test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from noetl.trial.running import TrialVerdict, explain_failure

#: Characters that XML cannot hold.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_text(verdicts: Sequence[TrialVerdict]) -> str:
    """A suite for each file, in the order in which they ran."""
    root = ElementTree.Element("testsuites", _counts(verdicts))
    for file in dict.fromkeys(verdict.suite.file for verdict in verdicts):
        own = [verdict for verdict in verdicts if verdict.suite.file == file]
        suite = ElementTree.SubElement(root, "testsuite", {"name": str(file), **_counts(own)})
        for verdict in own:
            _add_case(suite, file, verdict)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(verdicts: Sequence[TrialVerdict]) -> dict[str, str]:
    failures = sum(1 for verdict in verdicts if not verdict.passed)
    seconds = sum(verdict.seconds for verdict in verdicts)
    return {
        "tests": str(len(verdicts)),
        "failures": str(failures),
        "errors": "0",
        "time": f"{seconds:.3f}",
    }


def _add_case(suite: ElementTree.Element, file: Path, verdict: TrialVerdict) -> None:
    about = {"classname": str(file), "name": verdict.name, "time": f"{verdict.seconds:.3f}"}
    case = ElementTree.SubElement(suite, "testcase", {**about, "file": str(file), "line": str(verdict.line)})
    if not verdict.passed:
        lines = [_FORBIDDEN.sub("?", line) for line in explain_failure(verdict)]
        ElementTree.SubElement(case, "failure", {"message": lines[0]}).text = "\n".join(lines)
