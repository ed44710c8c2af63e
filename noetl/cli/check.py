"""`noetl validate`, `graph`, `schema`: what is known of playbooks without running them."""

from __future__ import annotations

import codecs
import glob
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from noetl.cli.complaints import INVALID
from noetl.cli.console import STDIN, directories_of, json_out, read_bytes, read_text
from noetl.cli.problem_formats import FORMATS, CheckedFile
from noetl.config import Settings
from noetl.dsl import Code, Compiled, Problem, compile_playbook, json_schema, load_playbook, schema_of_tests
from noetl.dsl.explain.lessons import section
from noetl.dsl.explain.rendering import render_problems
from noetl.dsl.problems import quote_value
from noetl.dsl.read.source import MAX_BYTES
from noetl.errors import BadRequest, PlaybookInvalid
from noetl.facts.nearest import did_you_mean
from noetl.net.diagram import dot, mermaid
from noetl.net.model import KindInfo
from noetl.net.soundness import SoundnessBounds
from noetl.store.library import SUFFIXES
from noetl.tools.kit.registry import kinds as installed_kinds
from noetl.tools.kit.scripts import source_file
from noetl.trial.suites import is_meant, is_test_file, read_suite

#: Seconds for which it is looked whether every run of a playbook comes to an end.
_PATIENCE_S: Final = 1.0


def _complete_code(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [str(code) for code in Code if str(code).startswith(incomplete.upper())]


def _explain(ctx: click.Context, _: click.Parameter, asked: str | None) -> None:
    if asked is None:
        return
    known = {str(code): code for code in Code}
    code = known.get(asked.upper())
    if code is None:
        hint = did_you_mean(asked.upper(), known).strip() or "docs/diagnostics.md lists all of them."
        raise BadRequest(f"There is no code {quote_value(asked)}. {hint}")
    click.echo(section(code, installed_kinds()).rstrip("\n"))
    ctx.exit()


@click.command(epilog="Example: noetl validate examples --strict")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Warnings are errors; notes are not.")
@click.option(
    "--format", "form", type=click.Choice(["text", *FORMATS]), default="text", help="How to answer."
)
@click.option(
    "--explain",
    metavar="CODE",
    shell_complete=_complete_code,
    is_eager=True,
    expose_value=False,
    callback=_explain,
    help="Say what a code means, with examples, and do nothing else.",
)
@click.pass_context
def validate(ctx: click.Context, files: tuple[Path, ...], strict: bool, form: str) -> None:
    """Check playbooks and explain every problem at once: file:line:col: error[CODE]: message
    (hint).

    FILES are playbooks, directories (the playbooks below them), or patterns such as
    'flows/**/*.yaml'.
    """
    kinds = installed_kinds()
    found = find_files(files)
    checked = [_check_file(file, kinds, strict=strict) for file in found.files]
    checked += [CheckedFile(name, (_file_fault(name, fault),)) for name, fault in found.faults.items()]
    problems = [problem for one in checked for problem in one.problems]
    if form == "text":
        for one in checked:
            for line in render_problems(one.problems, one.text if sys.stdout.isatty() else None):
                click.echo(line)
        click.echo(_verdict(len(found.files), problems, found.passed_over), err=True)
    else:
        click.echo(FORMATS[form](checked))
    ctx.exit(INVALID if any(problem.severity == "error" for problem in problems) else 0)


def _check_file(file: Path, kinds: Mapping[str, KindInfo], *, strict: bool) -> CheckedFile:
    """A file that cannot be read has that as its problem: the others are checked all the same."""
    try:
        if is_test_file(file):
            return _check_tests(file, kinds)
        found = compile_file(file, kinds, strict=strict)
    except BadRequest as error:
        return CheckedFile(str(file), (_file_fault(str(file), error.message),))
    return CheckedFile(str(file), found.problems, found.shown)


def _check_tests(file: Path, kinds: Mapping[str, KindInfo]) -> CheckedFile:
    text = read_text(file)
    try:
        read_suite(file, kinds)
    except PlaybookInvalid as error:
        return CheckedFile(str(file), tuple(error.problems), text)
    return CheckedFile(str(file), (), text)


def _file_fault(name: str, message: str) -> Problem:
    return Problem(Code.FILE, "error", name, 1, 1, "", message.rstrip("."))


def compile_file(file: Path, kinds: Mapping[str, KindInfo], *, strict: bool) -> Compiled:
    """Compiles a file with the sources that it names. Raises BadRequest where it cannot be read."""
    files = Settings.from_env().file_policy(directories_of(file), started_by_user=True)

    def beside(name: str) -> str:
        return source_file(name, files).text

    return compile_playbook(
        read_bytes(file),
        file=str(file),
        kinds=kinds,
        strict=strict,
        sources=beside,
        parse_sql=True,
        bounds=bounds_of_patience(),
    )


def bounds_of_patience() -> SoundnessBounds:
    """A second for the runs of one playbook that come to no proper end."""
    late = time.monotonic() + _PATIENCE_S
    return SoundnessBounds(should_stop=lambda: time.monotonic() > late)


def _verdict(files: int, problems: list[Problem], passed_over: int) -> str:
    counts = Counter(problem.severity for problem in problems)
    errors, warnings, notes = (counts[one] for one in ("error", "warning", "note"))
    faults = (
        f"{_count(errors, 'error')}, {_count(warnings, 'warning')}" if errors or warnings else "no problems"
    )
    found = f"{faults}, {_count(notes, 'note')}" if notes else faults
    others = f" {_count(passed_over, 'other file')} passed over." if passed_over else ""
    return f"{_count(files, 'playbook')}: {found}.{others}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# --- the files that the command line names ---

_ROOT_KEYS: Final = (
    rb"""["']?(apiVersion["']?\s*:\s*["']?noetl\.io/|kind["']?\s*:\s*["']?Playbook\b|workflow["']?\s*:)"""
)
#: A root key that only playbooks have, looked for in the text: a file that is not YAML may be meant
#: for one.
_IN_YAML: Final = re.compile(rb"^" + _ROOT_KEYS, re.MULTILINE)
_IN_JSON: Final = re.compile(rb"^[\s{]*" + _ROOT_KEYS, re.MULTILINE)


@dataclass(slots=True)
class NamedFiles:
    """What was found: `files` in the order in which they were named, how many others were passed
    over, and what is wrong with a name, by that name."""

    files: list[Path] = field(default_factory=list)
    passed_over: int = 0
    faults: dict[str, str] = field(default_factory=dict)

    def add(self, name: Path) -> None:
        """Adds a file that was not named before, or the playbooks below a directory."""
        if not name.is_dir():
            self.files += [name] if name not in self.files else []
            return
        files = list(files_below(name))
        playbooks = [file for file in files if _is_playbook(file) or (is_test_file(file) and is_meant(file))]
        self.files += [file for file in playbooks if file not in self.files]
        self.passed_over += len(files) - len(playbooks)
        if not playbooks:
            self.faults[str(name)] = f"No playbook (*.yaml, *.yml) is below {str(name)!r}"


def find_files(names: Iterable[Path]) -> NamedFiles:
    """The files of `names`. Of a directory those below it that are playbooks, of a pattern
    (`flows/**/*.yaml`) what it matches; names that begin with a dot are passed over there."""
    found = NamedFiles()
    for name in names:
        if name == STDIN or name.exists() or not glob.has_magic(str(name)):
            found.add(name)
            continue
        matches = sorted(glob.glob(str(name), recursive=True))
        for match in matches:
            found.add(Path(match))
        if not matches:
            found.faults[str(name)] = f"No file matches {str(name)!r}"
    return found


def files_below(folder: Path) -> Iterator[Path]:
    """The YAML files below a directory: its own before those of its directories; names that begin
    with a dot are passed over."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield Path(place, name)


def _is_playbook(file: Path) -> bool:
    """Whether it has a root key of playbooks. A file that cannot be read counts: reading it reports
    why."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_BYTES)
    except OSError:
        return True
    text = text.removeprefix(codecs.BOM_UTF8)
    keys = _IN_JSON if text.lstrip().startswith(b"{") else _IN_YAML
    return keys.search(text) is not None


# --- drawings and the schema ---


@click.command(epilog="Example: noetl graph examples/weather.yaml --format dot | dot -Tsvg > weather.svg")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["mermaid", "dot"]),
    default="mermaid",
    help="Language of the drawing.",
)
def graph(file: Path, form: str) -> None:
    """Draw the steps of FILE and the arcs between them."""
    net = load_playbook(read_text(file), file=str(file), kinds=installed_kinds())
    click.echo((mermaid(net) if form == "mermaid" else dot(net)).rstrip("\n"))


@click.command(epilog="Example: noetl schema > playbook.schema.json")
@click.option("--tests", is_flag=True, help="That of files of tests (orders.test.yaml).")
def schema(tests: bool) -> None:
    """Print the JSON Schema of playbooks, for editors."""
    json_out(schema_of_tests() if tests else json_schema(installed_kinds()))
