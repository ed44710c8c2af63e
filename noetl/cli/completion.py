"""What the shell completes where an argument is neither a file alone nor one of a few words."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from noetl.dsl.problems import Code
from noetl.tools.kit import registry


def complete_file(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files, where other text may stand as well: the shell looks for them."""
    return [CompletionItem(incomplete, type="file")]


def complete_directory(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Directories, where a URL may stand as well."""
    return [CompletionItem(incomplete, type="dir")]


def complete_kind(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The kinds of the installed tools."""
    return [kind for kind in sorted(registry.entry_points()) if kind.startswith(incomplete)]


def complete_code(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The codes of problems."""
    return [str(code) for code in Code if str(code).startswith(incomplete.upper())]
