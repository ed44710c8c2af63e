"""`key`: what executions are called by."""

from __future__ import annotations

from noetl.dsl.compile.context import Context
from noetl.dsl.document import BusinessKey
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path
from noetl.facts.business_key import read_key
from noetl.net.model import KeyTemplate

_HINT = "write a template over the workload, such as {{ order.id }}, or a text"


def compile_key(context: Context) -> KeyTemplate | None:
    """What the document says of the key; None where it says nothing, or nothing that can be
    used."""
    said = context.document.key
    if said is None:
        return None
    at: Path = ("key",) if isinstance(said, str) else ("key", "value")
    form = BusinessKey(value=said) if isinstance(said, str) else said
    if form.value is None:
        context.report.missing(("key",), "value", "the key has no value", _HINT)
        return None
    context.use(at, form.value, None)
    if not is_template(form.value):
        _check_text(context, form.value, at)
    return KeyTemplate(form.value, form.on_conflict or "reject")


def _check_text(context: Context, text: str, at: Path) -> None:
    try:
        read_key(text)
    except ValueError as error:
        context.report.add(Code.VALUE, at, f"the key {error}", _HINT)
