"""`provides`: what comes while an execution runs."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.dsl.compile.context import Context
from noetl.dsl.document import Provides
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, quote_value
from noetl.net.model import Provided


def compile_provides(context: Context) -> Provided:
    """The names; of one that is a template nobody knows before what it means."""
    said = context.document.provides or Provides()
    return Provided(
        _compile_names(context, "credentials", said.credentials or ()),
        _compile_names(context, "playbooks", said.playbooks or ()),
    )


def _compile_names(context: Context, key: str, names: Sequence[str]) -> tuple[str, ...]:
    for index, name in enumerate(names):
        if is_template(name) or not name:
            context.report.add(
                Code.VALUE,
                ("provides", key, index),
                f"{key} of `provides` are names, not {quote_value(name)}",
                "write the name itself; a name that a task makes by a template is asked for by no start",
            )
    return tuple(dict.fromkeys(names))
