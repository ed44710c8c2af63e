"""Rows for people: align on a terminal, tabs between the columns elsewhere."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence

import click

GAP = "  "


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
    for number, line in enumerate(align(cells, shutil.get_terminal_size().columns)):
        click.echo(click.style(line, bold=True) if number == 0 else line)


def align(rows: Sequence[Sequence[str]], width: int) -> list[str]:
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
