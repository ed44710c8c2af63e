"""Reads what people type (payloads, overrides, files), and prints JSON and tables."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from noetl.dsl.read.mapping import read_json_mapping, read_mapping, read_yaml_mapping
from noetl.dsl.read.scalars import ScalarFault, plain
from noetl.dsl.read.source import read
from noetl.engine.request import ADDS
from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.labels import read_labels
from noetl.facts.nearest import nearest
from noetl.net.inputs import READ_FROM_TEXT, TEXTS, Input, find_inputs

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: In the place of a file: what comes on standard input.
STDIN: Final = Path("-")

#: Bytes that are read of a file: what the API takes, and more than any playbook may have.
_MOST: Final = 16 << 20

#: Between two columns of a table.
GAP: Final = "  "

as_json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


def complete_file(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Has the shell complete names of files, where other text may stand as well."""
    return [CompletionItem(incomplete, type="file")]


set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="A.B=V",
    help="Set a workload value (typed as YAML); +A=V adds one.",
)
payload_option = click.option(
    "--payload",
    metavar="JSON|FILE",
    shell_complete=complete_file,
    help="Workload values as JSON, or a file with them.",
)


def make_label_option(told: str) -> Callable[[_Command], _Command]:
    """`--label`, with what is told of it."""
    return click.option("--label", "labels", metavar="NAME=VALUE", multiple=True, help=told)


where_option = click.option(
    "--where",
    metavar="CONDITION",
    help="Those of which this is true: \"status = 'failed' and error ~ 'timed out'\".",
)


def is_asked() -> bool:
    """Whether somebody sits there who can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def read_bytes(path: Path) -> bytes:
    """A file's content; of `-` what comes on standard input. Raises BadRequest that names the file
    and the cause."""
    if path == STDIN and sys.stdin is None:
        raise BadRequest("'-' stands for standard input, which is closed; give a file.")
    try:
        with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as file:
            content = file.read(_MOST + 1)
    except FileNotFoundError:
        raise BadRequest(f"There is no file {str(path)!r}.{_suggest_file(path)}") from None
    except IsADirectoryError:
        raise BadRequest(f"{str(path)!r} is a directory, not a file.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise BadRequest(f"{str(path)!r} cannot be read: {reason}.") from error
    if len(content) > _MOST:
        raise BadRequest(f"{str(path)!r} has more than {_MOST >> 20} MiB; give large data as separate files.")
    return content


def directories_of(file: Path) -> tuple[Path, ...]:
    """Where relative names in a playbook start: its own directory, then that in which the command
    was started."""
    here = Path.cwd()
    return (here,) if file == STDIN else tuple(dict.fromkeys((file.absolute().parent, here)))


def _suggest_file(path: Path) -> str:
    try:
        others = list(path.parent.iterdir())
    except OSError:
        return ""
    # What files are called by their kind makes no two alike: `sum.yaml` is meant by `sun.yaml`, and
    # by `sum`.
    alike = {one.stem: one for one in others if _kind(one) == _kind(path)}
    by_kind = {one.stem: one for one in others}
    near = alike.get(nearest(path.stem, alike) or "") or by_kind.get(path.stem)
    return f" Did you mean {str(near)!r}?" if near else ""


def _kind(path: Path) -> str:
    return path.suffix.lower().replace(".yml", ".yaml")


def read_text(path: Path) -> str:
    """A file's text. Raises BadRequest that names the file, the cause and the place."""
    content = read_bytes(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadRequest(
            f"{str(path)!r} is not text in UTF-8: line {line} has the byte 0x{content[error.start]:02X}."
        ) from error


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """`--label`, repeated; the last one of a name counts. Raises BadRequest."""
    parts = [one.partition("=") for one in given]
    bare = next((name for name, equals, _ in parts if not equals), None)
    if bare is not None:
        raise BadRequest(f"--label {bare!r} has no value: write NAME=VALUE.")
    try:
        return read_labels({name: value for name, _, value in parts})
    except ValueError as error:
        raise BadRequest(f"The labels of --label {error}.") from error


def payload_of(given: str | None, option: str = "--payload") -> JsonMap:
    """`--payload`: JSON text, or a file with JSON or YAML (`payload.json`, `@payload.yaml`). Raises
    BadRequest."""
    if given is None:
        return {}
    text = given.strip()
    if not text:
        raise BadRequest(f"{option} is empty; give JSON like '{{\"name\": 1}}', or a file.")
    if text[0] in '{["':
        return read_json_mapping(text, option)
    file = Path(text.removeprefix("@"))
    text = read_text(file).strip()
    read_it = read_json_mapping if text[:1] in ("{", "[") else read_yaml_mapping
    return read_it(text, str(file))


def mapping_of(given: str, option: str) -> JsonMap:
    """A mapping in YAML or JSON, or `@FILE` with one. Raises BadRequest."""
    place = given[1:] if given.startswith("@") else option
    text = (read_text(Path(place)) if given.startswith("@") else given).strip()
    return read_mapping(text, place)


@dataclass(frozen=True, slots=True)
class Assigned:
    """`--set a.b=v` before it is known what `a.b` is: its names, and the text as it was written."""

    names: tuple[str, ...]
    text: str


def assigned_of(pairs: Iterable[str]) -> list[Assigned]:
    """What `--set` says. Raises BadRequest."""
    return [_assigned(pair) for pair in pairs]


def _assigned(pair: str) -> Assigned:
    name, sign, text = pair.partition("=")
    names = tuple(name.split("."))
    if not sign or not all(part.strip() for part in names):
        raise BadRequest(f"--set {pair!r} is not an assignment; write --set name=value or --set a.b=value.")
    return Assigned(names, text)


def overrides_of(assigned: Iterable[Assigned], inputs: Sequence[Input] = ()) -> JsonMap:
    """Values by dotted names, typed as in playbooks; but of declared inputs that are text, or are
    read from it, the text as it was written. `+a.b` stays marked. Raises BadRequest."""
    merged: Json = {}
    for one in assigned:
        declared = find_inputs(inputs, (one.names[0].removeprefix(ADDS), *one.names[1:]))
        is_text = len(declared) == len(one.names) and declared[-1].type in TEXTS | READ_FROM_TEXT
        value: Json = one.text if is_text else read_typed(one.text)
        for name in reversed(one.names):
            value = {name: value}
        merged = deep_merge(merged, value)
    return dict(merged)


def read_typed(text: str) -> Json:
    """A number, boolean, null, quoted text, `[list]` or `{mapping}` as in a playbook; else the text
    itself. A number that no float holds keeps its digits, as in the JSON of payloads.

    Raises BadRequest for what JSON cannot hold.
    """
    short = text.strip()
    if short[:1] in ("[", "{", '"', "'"):
        source = read(f"value: {short}", "--set")
        broken = any(problem.severity == "error" for problem in source.problems)
        return text if broken or source.data is None else source.data["value"]
    try:
        value = plain(short) if short else text
    except ScalarFault as fault:
        raise BadRequest(f"--set {short[:60]!r} cannot be used: {fault.message}.") from fault
    if isinstance(value, float):
        return json.float_or_exact(short)
    return text if isinstance(value, str) else value


def json_out(value: Json) -> None:
    """One JSON document on standard output. Instants are ISO 8601."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=datetime.isoformat))


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints to standard output, one line for each row. Programs that read tables had better use
    `--json`."""
    # On one line: line breaks and tabs would end the row or the cell.
    texts = [["" if value is None else " ".join(str(value).split()) for value in row] for row in rows]
    cells = [list(header), *texts]
    if not sys.stdout.isatty():
        for row in cells:
            click.echo("\t".join(row))
        return
    for number, line in enumerate(align_columns(cells, shutil.get_terminal_size().columns)):
        click.echo(click.style(line, bold=True) if number == 0 else line)


def align_columns(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Lines of at most `width` characters: only the last column is cut, so that ids and names stay
    whole."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    left = max(width - sum(widths) - len(GAP) * len(widths), 10)
    lines = []
    for row in rows:
        last = row[-1] if len(row[-1]) <= left else row[-1][: left - 1] + "…"
        parts = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        lines.append(GAP.join([*parts, last]).rstrip())
    return lines
