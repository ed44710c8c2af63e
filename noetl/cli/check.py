"""`noetl validate`, `graph`, `schema`: what can be said of a playbook without running it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from noetl.cli.complaints import INVALID
from noetl.cli.inputs import json_out, read_bytes, read_text
from noetl.dsl import Compiled, compile_playbook, json_schema, load_playbook
from noetl.dsl.problems import Code, Problem, render
from noetl.errors import BadRequest
from noetl.net.diagram import dot, mermaid
from noetl.net.model import KindInfo
from noetl.tools.registry import kinds as installed_kinds
from noetl.tools.scripts import source_file


@click.command(epilog="Example: noetl validate examples/*.yaml --strict")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to answer.")
@click.pass_context
def validate(ctx: click.Context, files: tuple[Path, ...], strict: bool, form: str) -> None:
    """Check playbooks and explain every problem at once: file:line:col: error[CODE]: message (hint)."""
    kinds = installed_kinds()
    problems: list[Problem] = []
    for file in files:
        problems += _problems(file, kinds, strict=strict)
    ok = not any(problem.severity == "error" for problem in problems)
    if form == "json":
        json_out({"ok": ok, "problems": [problem.as_json() for problem in problems]})
    else:
        for problem in problems:
            click.echo(render(problem, _text(problem) if sys.stdout.isatty() else None))
        click.echo(_verdict(len(files), problems), err=True)
    ctx.exit(0 if ok else INVALID)


def _problems(file: Path, kinds: Mapping[str, KindInfo], *, strict: bool) -> list[Problem]:
    """Those of one file. That it cannot be read is one, so that the other files are told of, too."""
    try:
        return list(compiled(file, kinds, strict=strict).problems)
    except BadRequest as error:
        return [Problem(Code.FILE, "error", str(file), 1, 1, "", error.message.rstrip("."))]


def compiled(file: Path, kinds: Mapping[str, KindInfo], *, strict: bool) -> Compiled:
    """What becomes of a file, with the sources that it names. Raises BadRequest where it cannot be read."""

    def beside(name: str) -> str:
        return source_file(name, file.absolute().parent).text

    return compile_playbook(read_bytes(file), file=str(file), kinds=kinds, strict=strict, sources=beside)


def _text(problem: Problem) -> str | None:
    if problem.code in (Code.FILE, Code.ENCODING):
        return None
    return read_text(Path(problem.file))


def _verdict(files: int, problems: list[Problem]) -> str:
    errors = sum(1 for problem in problems if problem.severity == "error")
    warnings = len(problems) - errors
    name = "1 playbook" if files == 1 else f"{files} playbooks"
    if not problems:
        return f"{name}: no problems."
    return f"{name}: {_count(errors, 'error')}, {_count(warnings, 'warning')}."


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
