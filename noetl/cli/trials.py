"""`noetl test`: playbooks on trial, with stand-ins for their calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from noetl.atomic import replace_file
from noetl.cli.check import files_below
from noetl.cli.complaints import FAILED, INVALID, word
from noetl.cli.console import as_json_option, json_out
from noetl.dsl import Problem
from noetl.errors import BadRequest, ConfigError, PlaybookInvalid
from noetl.facts.distribution import install_line
from noetl.facts.json import JsonMap
from noetl.tools.kit.registry import kinds as installed_kinds
from noetl.trial.coverage import KINDS, Coverage
from noetl.trial.junit import junit_text
from noetl.trial.running import TrialVerdict, explain_failure, run_test
from noetl.trial.stage import TrialStage, open_stage
from noetl.trial.suites import Suite, has_tests, is_test_file, read_suite, tests_beside
from noetl.trial.updating import update_text


@click.command(epilog="Example: noetl test examples --coverage")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("-k", "name", metavar="TEXT", help="Only tests that have TEXT in their name or file.")
@click.option(
    "--junit",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what became of them as JUnit XML.",
)
@click.option("--update", is_flag=True, help="Write what came in the place of what was expected.")
@click.option("--coverage", "show_coverage", is_flag=True, help="Say which steps, arcs and rules none met.")
@click.option(
    "--min-coverage",
    metavar="N",
    type=click.FloatRange(0, 100),
    help="Fail where less than N percent of them were met.",
)
@as_json_option
@click.pass_context
def test(
    ctx: click.Context,
    paths: tuple[Path, ...],
    name: str | None,
    junit: Path | None,
    update: bool,
    show_coverage: bool,
    min_coverage: float | None,
    as_json: bool,
) -> None:
    """Run the tests of playbooks: those in files like orders.test.yaml, beside orders.yaml, and
    those under `tests:` in a playbook.

    PATHS are such files, playbooks, or directories; the current one unless given. Nothing leaves
    the machine but what a test really calls (`run: true`). Exit code 0: all went as expected; 1:
    some did not; 2: tests or playbooks that cannot be run.
    """
    session = _Session(as_json=as_json)
    for file in _find(paths or (Path(),)):
        session.read(file)
    chosen = [one for one in session.tests() if name is None or _is_meant(name, *one)]
    if not chosen and not session.problems:
        raise BadRequest(f"No test has {name!r} in its name or file." if name else "There are no tests.")
    with open_stage() as stage:
        for suite, index in chosen:
            session.run(stage, suite, index)
    if update:
        session.update()
    if junit is not None:
        _write(junit, junit_text(session.verdicts))
    is_covered = min_coverage is None or session.coverage.percent >= min_coverage
    session.show(coverage=show_coverage or not is_covered)
    if session.problems:
        ctx.exit(INVALID)
    ctx.exit(0 if is_covered and not session.failed else FAILED)


def _is_meant(name: str, suite: Suite, index: int) -> bool:
    return name.casefold() in f"{suite.file}: {suite.tests[index].name}".casefold()


@dataclass(slots=True)
class _Session:
    """What was read, and what became of it. Lines are printed as they come."""

    as_json: bool
    suites: list[Suite] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    verdicts: list[TrialVerdict] = field(default_factory=list)
    updated: list[TrialVerdict] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)

    def read(self, file: Path) -> None:
        """A file that cannot be read is a problem, and the others are run all the same."""
        try:
            suite = read_suite(file, installed_kinds())
        except PlaybookInvalid as error:
            found = [one for one in error.problems if one.severity == "error" and one not in self.problems]
            self.problems += found
            for problem in found if not self.as_json else ():
                click.echo(str(problem), err=True)
            return
        self.suites.append(suite)
        self.coverage.know(suite.net)

    def tests(self) -> Iterator[tuple[Suite, int]]:
        """All of them, by their suite and number."""
        for suite in self.suites:
            for index in range(len(suite.tests)):
                yield suite, index

    @property
    def failed(self) -> list[TrialVerdict]:
        """Those that failed, and still would."""
        return [one for one in self.verdicts if not one.passed and one not in self.updated]

    def run(self, stage: TrialStage, suite: Suite, index: int) -> None:
        verdict = run_test(stage, suite, index)
        self.verdicts.append(verdict)
        self.coverage.add(verdict.played.traces)
        if self.as_json:
            return
        said = word("ok", "green") if verdict.passed else word("FAILED", "red")
        click.echo(f"{suite.file}: {verdict.name}: {said} ({verdict.seconds:.2f} s)")
        for line in () if verdict.passed else explain_failure(verdict):
            click.echo(f"  {line}")

    def update(self) -> None:
        """Calls that nothing stands in for stay a failure: what they would have come to is not
        known."""
        wrong = [
            one
            for one in self.verdicts
            if not one.played.faults and (one.mismatches or one.test.expect is None)
        ]
        for file in dict.fromkeys(one.suite.file for one in wrong):
            own = [one for one in wrong if one.suite.file == file]
            _write(file, _update_text(own))
            self.updated += own

    def show(self, *, coverage: bool) -> None:
        if self.as_json:
            json_out(self._as_json(coverage=coverage))
            return
        if coverage:
            for line in _coverage_lines(self.coverage):
                click.echo(line)
        click.echo(self._summary(), err=True)

    def _summary(self) -> str:
        seconds = sum(one.seconds for one in self.verdicts)
        parts = [f"{sum(one.passed for one in self.verdicts)} ok"]
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        parts += [f"{len(self.updated)} updated"] if self.updated else []
        files = len({problem.file for problem in self.problems})
        where = "a file that was" if files == 1 else f"{files} files that were"
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        parts += [f"{count} in {where} not run"] if files else []
        number = len(self.verdicts)
        return f"{number} test{'' if number == 1 else 's'}: {', '.join(parts)} ({seconds:.2f} s)"

    def _as_json(self, *, coverage: bool) -> JsonMap:
        said = {
            "ok": not self.failed and not self.problems,
            "passed": sum(one.passed for one in self.verdicts),
            "failed": len(self.failed),
            "updated": len(self.updated),
            "tests": [_describe(one) for one in self.verdicts],
            "problems": [one.as_json() for one in self.problems],
        }
        return {**said, "coverage": _describe_coverage(self.coverage)} if coverage else said


def _describe(verdict: TrialVerdict) -> JsonMap:
    played = verdict.played
    return {
        "file": str(verdict.suite.file),
        "line": verdict.line,
        "name": verdict.name,
        "ok": verdict.passed,
        "seconds": round(verdict.seconds, 3),
        "status": played.status,
        "path": played.path,
        "failure": [] if verdict.passed else list(explain_failure(verdict)),
    }


def _describe_coverage(coverage: Coverage) -> JsonMap:
    return {
        "percent": round(coverage.percent, 1),
        "playbooks": [
            {
                "file": one.file,
                **{kind: dict(zip(("met", "all"), one.count(kind), strict=True)) for kind in KINDS},
                "missed": [{"line": part.line, "message": part.missed} for part in one.missed()],
            }
            for one in coverage.playbooks.values()
        ],
    }


def _coverage_lines(coverage: Coverage) -> Iterator[str]:
    for one in coverage.playbooks.values():
        counts = ", ".join(f"{met} of {every} {kind}" for kind in KINDS for met, every in [one.count(kind)])
        yield f"{one.file}: {counts}"
        yield from (f"  {one.file}:{part.line}: {part.missed}" for part in one.missed())
    yield f"coverage: {coverage.percent:.0f} %"


def _find(paths: Iterable[Path]) -> list[Path]:
    """The files with tests that are named, or below the directories that are. Raises BadRequest."""
    found = [file for path in paths for file in (_below(path) if path.is_dir() else _named(path))]
    if not found:
        names = ", ".join(repr(str(path)) for path in paths)
        raise BadRequest(f"There are no tests (*.test.yaml, or a playbook with tests:) below {names}.")
    return list(dict.fromkeys(found))


def _below(folder: Path) -> list[Path]:
    return [file for file in files_below(folder) if has_tests(file)]


def _named(file: Path) -> Sequence[Path]:
    if not file.is_file():
        raise BadRequest(f"There is no file {str(file)!r}; name a playbook, its tests, or a directory.")
    if is_test_file(file):
        return [file]
    found = [*([file] if has_tests(file) else []), *tests_beside(file)]
    if not found:
        beside = file.with_name(f"{file.stem}.test.yaml")
        raise BadRequest(f"{file} has no tests, and none stand beside it: write {beside}.")
    return found


def _update_text(verdicts: Sequence[TrialVerdict]) -> str:
    try:
        return update_text(verdicts)
    except ModuleNotFoundError as error:
        raise ConfigError(f"--update needs ruamel.yaml: {install_line('migrate')}.") from error


def _write(file: Path, text: str) -> None:
    """Whole or not at all."""
    try:
        with replace_file(file) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadRequest(f"{file} cannot be written: {error.strerror or error}.") from error
