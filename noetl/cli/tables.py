"""Rows for people: aligned on a terminal, tabs between the columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.table import Table


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints to standard output. Programs that read tables had better use `--json`."""
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [list(header), *cells]:
            click.echo("\t".join(row))
        return
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        grid.add_column(name)
    for row in cells:
        grid.add_row(*row)
    Console().print(grid, markup=False)
