"""`noetl migrate`: the canonical form of playbooks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from noetl.cli.complaints import FAILED
from noetl.cli.console import STDIN, read_bytes
from noetl.dsl import Code, Compiled, compile_playbook
from noetl.errors import BadRequest, ConfigError, NoetlError, PlaybookInvalid
from noetl.facts.distribution import install_line
from noetl.net.codec import same_net
from noetl.net.model import KindInfo
from noetl.tools.kit.registry import kinds as installed_kinds


@click.command(epilog="Example: noetl migrate old.yaml > new.yaml")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help="Rewrite the files in place.")
@click.option(
    "--check", is_flag=True, help="Print nothing but which files would change; exit 1 where any would."
)
@click.pass_context
def migrate(ctx: click.Context, files: tuple[Path, ...], write: bool, check: bool) -> None:
    """Print FILE in the canonical form: the classic and rules dialects and older spellings are
    rewritten.

    Comments and order stay. What comes out is compiled again, and means the same or is not printed.
    """
    if write and check:
        raise BadRequest("--write changes files and --check does not; give one of them.")
    if write and STDIN in files:
        raise BadRequest("What comes on standard input cannot be written in place; leave out --write.")
    if len(files) > 1 and not (write or check):
        raise BadRequest("Several files cannot be printed as one; add --write, or --check.")
    # All are rewritten before the first is touched.
    found = [(file, *_rewrite(file, installed_kinds())) for file in files]
    changed = [(file, text, places) for file, text, places in found if places]
    for file, text, places in changed if write or check else ():
        number = "1 place" if places == 1 else f"{places} places"
        click.echo(f"{file}: {'would change' if check else 'changed'} in {number}", err=not check)
        if write:
            _replace(file, text)
    if not (write or check):
        click.echo(found[0][1], nl=False)
    ctx.exit(FAILED if check and changed else 0)


def _rewrite(file: Path, kinds: Mapping[str, KindInfo]) -> tuple[str, int]:
    """The text in its canonical form, and how many places of it changed."""
    compiled = _compile(read_bytes(file), file, kinds)
    if not compiled.source.origins:
        return compiled.source.text, 0
    text = _canonical_text(compiled)
    again = _compile(text, file, kinds)
    if compiled.net is None or again.net is None or not same_net(compiled.net, again.net):
        raise NoetlError(
            f"{file} would mean something else in its canonical form, which is a defect of NoETL: "
            "nothing was written. "
            "Please report it with the playbook."
        )
    told = sum(problem.code is Code.DEPRECATED for problem in compiled.problems)
    return text, told + compiled.respelled


def _compile(content: bytes | str, file: Path, kinds: Mapping[str, KindInfo]) -> Compiled:
    compiled = compile_playbook(content, file=str(file), kinds=kinds)
    if compiled.net is None:
        raise PlaybookInvalid(f"{file} cannot be rewritten before its errors are mended.", compiled.problems)
    return compiled


def _canonical_text(compiled: Compiled) -> str:
    try:
        # ruamel.yaml is an extra.
        from noetl.dsl.read.canonical_text import canonical_text
    except ModuleNotFoundError as error:
        raise ConfigError(f"Rewriting needs ruamel.yaml: {install_line('migrate')}.") from error
    return canonical_text(compiled.source)


def _replace(file: Path, text: str) -> None:
    """Whole or not at all; the file keeps its permissions."""
    file = file.resolve()
    try:
        mode = file.stat().st_mode
        with tempfile.NamedTemporaryFile(
            "w", dir=file.parent, prefix=f".{file.name}.", encoding="utf-8", newline="", delete=False
        ) as made:
            made.write(text)
        os.chmod(made.name, mode)
        os.replace(made.name, file)
    except OSError as error:
        raise BadRequest(f"{str(file)!r} cannot be written: {error.strerror or error}.") from error
