"""`noetl validate`, `graph`, `schema`: what can be said of a playbook without running it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from noetl.cli.complaints import INVALID
from noetl.cli.completion import complete_code
from noetl.cli.inputs import directories_of, json_out, read_bytes, read_text
from noetl.cli.playbook_files import named
from noetl.cli.problem_formats import FORMATS, CheckedFile
from noetl.config import Settings
from noetl.dsl import Code, Compiled, Problem, compile_playbook, json_schema, load_playbook
from noetl.dsl.explain.lessons.page import section
from noetl.dsl.explain.rendering import listed
from noetl.dsl.problems import shown
from noetl.errors import BadRequest
from noetl.facts.nearest import did_you_mean
from noetl.net.diagram import dot, mermaid
from noetl.net.model import KindInfo
from noetl.tools.kit.registry import kinds as installed_kinds
from noetl.tools.kit.scripts import source_file


def _explain(ctx: click.Context, _: click.Parameter, asked: str | None) -> None:
    if asked is None:
        return
    known = {str(code): code for code in Code}
    code = known.get(asked.upper())
    if code is None:
        hint = did_you_mean(asked.upper(), known).strip() or "docs/diagnostics.md lists all of them."
        raise BadRequest(f"There is no code {shown(asked)}. {hint}")
    click.echo(section(code, installed_kinds()).rstrip("\n"))
    ctx.exit()


@click.command(epilog="Example: noetl validate examples --strict")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@click.option(
    "--format", "form", type=click.Choice(["text", *FORMATS]), default="text", help="How to answer."
)
@click.option(
    "--explain",
    metavar="CODE",
    shell_complete=complete_code,
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
    found = named(files)
    checked = [_checked(file, kinds, strict=strict) for file in found.files]
    checked += [CheckedFile(name, (_file_fault(name, fault),)) for name, fault in found.faults.items()]
    problems = [problem for one in checked for problem in one.problems]
    if form == "text":
        for one in checked:
            for line in listed(one.problems, one.text if sys.stdout.isatty() else None):
                click.echo(line)
        click.echo(_verdict(len(found.files), problems, found.passed_over), err=True)
    else:
        click.echo(FORMATS[form](checked))
    ctx.exit(INVALID if any(problem.severity == "error" for problem in problems) else 0)


def _checked(file: Path, kinds: Mapping[str, KindInfo], *, strict: bool) -> CheckedFile:
    """One file. That it cannot be read is a problem of it, so that the others are checked all the
    same."""
    try:
        found = compiled(file, kinds, strict=strict)
    except BadRequest as error:
        return CheckedFile(str(file), (_file_fault(str(file), error.message),))
    return CheckedFile(str(file), found.problems, found.shown)


def _file_fault(name: str, message: str) -> Problem:
    return Problem(Code.FILE, "error", name, 1, 1, "", message.rstrip("."))


def compiled(file: Path, kinds: Mapping[str, KindInfo], *, strict: bool) -> Compiled:
    """What becomes of a file, with the sources that it names. Raises BadRequest where it cannot be
    read."""

    files = Settings.from_env().file_policy(directories_of(file), started_by_user=True)

    def beside(name: str) -> str:
        return source_file(name, files).text

    content = read_bytes(file)
    return compile_playbook(
        content, file=str(file), kinds=kinds, strict=strict, sources=beside, parse_sql=True
    )


def _verdict(files: int, problems: list[Problem], passed_over: int) -> str:
    errors = sum(1 for problem in problems if problem.severity == "error")
    warnings = len(problems) - errors
    found = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}" if problems else "no problems"
    others = f" {_count(passed_over, 'other file')} passed over." if passed_over else ""
    return f"{_count(files, 'playbook')}: {found}.{others}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
def schema() -> None:
    """Print the JSON Schema of playbooks, for editors."""
    json_out(json_schema(installed_kinds()))
