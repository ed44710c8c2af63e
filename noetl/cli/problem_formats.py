"""Problems for programs: JSON, SARIF, the commands of GitHub workflows, JUnit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote
from xml.etree import ElementTree

from noetl import __version__
from noetl.dsl.problems import MEANING, Problem, Severity, severity_of
from noetl.facts.json import Json, JsonMap

#: What XML cannot hold, even escaped.
_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """One file with its problems; `text` is its text as it may be shown, None where it cannot be
    read."""

    file: str
    problems: tuple[Problem, ...]
    text: str | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


#: The files that were checked, as one text.
Format: TypeAlias = Callable[[Sequence[CheckedFile]], str]


def _all(checked: Sequence[CheckedFile]) -> list[Problem]:
    return [problem for one in checked for problem in one.problems]


def as_json(checked: Sequence[CheckedFile]) -> str:
    """`{ok, problems: [{file, line, column, severity, code, path, message, hint}]}`."""
    report = {
        "ok": not any(one.errors for one in checked),
        "problems": [problem.as_json() for problem in _all(checked)],
    }
    return json.dumps(report, indent=2, ensure_ascii=False)


# --- SARIF ---------------------------------------------------------------------------------------


def as_sarif(checked: Sequence[CheckedFile]) -> str:
    """A log of SARIF 2.1.0 with one run; its rules are the codes that occur."""
    problems = _all(checked)
    codes = sorted({problem.code for problem in problems})
    driver: JsonMap = {
        "name": "NoETL",
        "version": __version__,
        "rules": [
            {
                "id": str(code),
                "shortDescription": {"text": MEANING[code]},
                "help": {"text": f"noetl validate --explain {code}"},
                "defaultConfiguration": {"level": severity_of(code)},
            }
            for code in codes
        ],
    }
    run: JsonMap = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(problem, codes.index(problem.code)) for problem in problems],
    }
    return json.dumps(
        {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]},
        indent=2,
        ensure_ascii=False,
    )


def _result(problem: Problem, rule: int) -> JsonMap:
    location: dict[str, Json] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(problem.file)},
            "region": {"startLine": problem.line, "startColumn": problem.column},
        }
    }
    if problem.path:
        location["logicalLocations"] = [{"fullyQualifiedName": problem.path}]
    return {
        "ruleId": str(problem.code),
        "ruleIndex": rule,
        "level": problem.severity,
        "message": {"text": _sentence(problem)},
        "locations": [location],
    }


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), errors="surrogateescape")


def _sentence(problem: Problem) -> str:
    return f"{problem.message} ({problem.hint})" if problem.hint else problem.message


# --- GitHub --------------------------------------------------------------------------------------


def as_github(checked: Sequence[CheckedFile]) -> str:
    """One workflow command a line: GitHub shows them beside the lines of a pull request."""
    return "\n".join(map(_command, _all(checked)))


_COMMANDS: Final[Mapping[Severity, str]] = {"error": "error", "warning": "warning", "note": "notice"}


def _command(problem: Problem) -> str:
    places = {
        "file": problem.file,
        "line": problem.line,
        "col": problem.column,
        "title": f"NoETL {problem.code}",
    }
    values = {key: _data(str(value)) for key, value in places.items()}
    said = ",".join(f"{key}={value.replace(':', '%3A').replace(',', '%2C')}" for key, value in values.items())
    return f"::{_COMMANDS[problem.severity]} {said}::{_data(_sentence(problem))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


# --- JUnit ---------------------------------------------------------------------------------------


def as_junit(checked: Sequence[CheckedFile]) -> str:
    """One test case for each file, which fails where there is an error; warnings and notes are its
    output."""
    failed = str(sum(1 for one in checked if one.errors))
    counts = {"tests": str(len(checked)), "failures": failed, "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "noetl validate", **counts, "skipped": "0"})
    for one in checked:
        _add_case(suite, one)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode")


def _add_case(suite: ElementTree.Element, checked: CheckedFile) -> None:
    names = {"classname": "noetl.validate", "name": _legible(checked.file), "time": "0"}
    case = ElementTree.SubElement(suite, "testcase", names)
    if errors := checked.errors:
        first = {"type": str(errors[0].code), "message": _legible(_sentence(errors[0]))}
        ElementTree.SubElement(case, "failure", first).text = _lines(errors)
    if others := [problem for problem in checked.problems if problem.severity != "error"]:
        ElementTree.SubElement(case, "system-out").text = _lines(others)


def _lines(problems: Sequence[Problem]) -> str:
    return _legible("\n".join(map(str, problems)))


def _legible(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)


#: The forms of `noetl validate --format` besides text.
FORMATS: Final[Mapping[str, Format]] = {
    "json": as_json,
    "sarif": as_sarif,
    "github": as_github,
    "junit": as_junit,
}
