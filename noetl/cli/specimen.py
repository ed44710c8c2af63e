"""`noetl execution export` and `import`: an execution as a file, to be looked at elsewhere."""

from __future__ import annotations

import gzip
import itertools
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any, Final, Protocol

import click

from noetl.atomic import replace_file
from noetl.cli.address import execution_argument
from noetl.cli.console import STDIN, as_json_option, json_out
from noetl.cli.process import open_runtime
from noetl.errors import BadRequest
from noetl.facts import json
from noetl.usecases import specimens
from noetl.usecases.fixtures import make_fixture
from noetl.usecases.specimen_file import Specimen


class BinaryLines(Protocol):
    """What lines are read from."""

    def readline(self, size: int = ..., /) -> bytes: ...


#: Bytes of a file that is not packed.
_MOST: Final = 256 << 20
#: How packed files begin.
_GZIP: Final = b"\x1f\x8b"


@click.command(
    short_help="Write an execution to a file.",
    epilog="Example: noetl execution export 1234567890123 -o broken.noetl.jsonl.gz",
)
@execution_argument()
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file; packed where its name ends in .gz; - is standard output; ID.noetl.jsonl unless given.",
)
@as_json_option
def export(execution_id: str, output: Path | None, as_json: bool) -> None:
    """Write an execution to a file: its playbook, events, results and what its tasks printed, in
    JSON lines.

    No secret stands in it that does not stand in the log. `noetl execution import` reads it.
    """
    target = output or Path(f"{execution_id}.noetl.jsonl")
    with open_runtime() as rt:
        lines = specimens.export(rt, execution_id)
        # Asked for now: without the execution there is no file.
        lines = itertools.chain([next(lines)], lines)
        end = json.loads(_write(lines, target))["end"]
    said = {"execution_id": execution_id, "file": None if target == STDIN else str(target), **end}
    _say_exported(said, as_json=as_json)


def _write(lines: Iterable[str], target: Path) -> str:
    """Writes all lines, or nothing. The last one."""
    if target == STDIN:
        return _copy(lines, sys.stdout)
    try:
        with replace_file(target) as draft, _open_draft(draft, packed=target.suffix == ".gz") as file:
            return _copy(lines, file)
    except OSError as error:
        raise BadRequest(f"{target} cannot be written: {error.strerror or error}.") from error


def _open_draft(draft: Path, *, packed: bool) -> IO[str]:
    if packed:
        return gzip.open(draft, "wt", encoding="utf-8")
    return draft.open("w", encoding="utf-8")


def _copy(lines: Iterable[str], file: IO[str]) -> str:
    line = ""
    for line in lines:
        file.write(line)
    return line


def _say_exported(said: dict[str, Any], *, as_json: bool) -> None:
    """To standard error where the file itself goes to standard output."""
    aside = said["file"] is None
    if as_json:
        click.echo(json.dumps(said), err=aside)
        return
    kept = f"{said['file'] or said['execution_id']}: {said['events']} events, {said['results']} results"
    click.echo(kept, err=aside)
    for one in said["left_out"]:
        click.echo(f"left out: {one['ref']}: {one['why']}", err=True)


@click.command(
    short_help="Make a test of an execution.",
    epilog="Example: noetl execution fixture 1234567890123 > orders.test.yaml",
)
@execution_argument()
def fixture(execution_id: str) -> None:
    """Print a test that an execution would pass, as a file for `noetl test`: what it recorded
    stands in for its calls, and how it went is what is expected.

    Secrets, and values that are too large, are left out; the file says which.
    """
    with open_runtime() as rt:
        made = make_fixture(rt, execution_id)
    click.echo(made.as_yaml(), nl=False)
    for note in made.notes:
        click.echo(note, err=True)


@click.command(
    name="import",
    short_help="Read an exported execution, to look at it.",
    epilog="Example: noetl execution import broken.noetl.jsonl.gz",
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Only check the file.")
@as_json_option
def import_(file: Path, dry_run: bool, as_json: bool) -> None:
    """Read the execution in FILE, which `noetl execution export` wrote (- is standard input).

    It can be looked at like any other: `show`, `events`, `replay`. It never goes on, and nothing
    changes it. FILE is refused where one line of it is not what was exported.
    """
    with open_runtime() as rt:
        specimen = specimens.check(rt, _lines(file))
        found = None if dry_run else specimens.keep(rt, specimen)
    if as_json:
        json_out(_describe(specimen, is_new=None if found is None else found.is_new))
        return
    header = specimen.header
    what = "can be imported" if found is None else "imported" if found.is_new else "is here already"
    click.echo(
        f"{header.execution_id}: {what}: {header.path}@{header.playbook_version}, {header.status}, "
        f"{header.events} events, {len(specimen.results)} results"
    )
    if specimen.left_out:
        click.echo(
            f"Not in the file: {', '.join(str(one.get('ref')) for one in specimen.left_out)}", err=True
        )


def _describe(specimen: Specimen, *, is_new: bool | None) -> dict[str, Any]:
    header = specimen.header
    return {
        "execution_id": header.execution_id,
        "path": header.path,
        "version": header.playbook_version,
        "status": header.status,
        "events": header.events,
        "results": len(specimen.results),
        "left_out": list(specimen.left_out),
        "is_new": is_new,
    }


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, packed or not. Raises BadRequest that names the file and the cause."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as file:
            yield from _bounded(_unpack(file), path)
    except FileNotFoundError:
        raise BadRequest(f"There is no file {str(path)!r}.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadRequest(f"{str(path)!r} is damaged, or cut off: {error}.") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise BadRequest(f"{str(path)!r} cannot be read: {reason}.") from error


def _unpack(file: Any) -> BinaryLines:
    """`file`, or what is packed in it."""
    is_packed = file.peek(len(_GZIP))[: len(_GZIP)] == _GZIP
    unpacked: BinaryLines = gzip.GzipFile(fileobj=file) if is_packed else file
    return unpacked


def _bounded(file: BinaryLines, path: Path) -> Iterator[bytes]:
    left = _MOST
    while line := file.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise BadRequest(f"{str(path)!r} has more than {_MOST >> 20} MiB, unpacked.")
        yield line
