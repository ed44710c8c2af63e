"""The fields of a credential, asked for one by one."""

from __future__ import annotations

import click

from noetl.facts.json import JsonMap
from noetl.usecases.credential_types import OFFERED, PUBLIC, may_have_more, read_typed_fields


def ask_fields(type: str) -> JsonMap:
    """Asks on standard error; what is secret is not shown. Nothing is a field that is left out."""
    typed = {name: _ask(name) for name in OFFERED.get(type, ())}
    while may_have_more(type) and (name := _ask("name of another field; Return ends", is_public=True)):
        typed[name] = _ask(name)
    return read_typed_fields({name: text for name, text in typed.items() if text})


def _ask(name: str, *, is_public: bool = False) -> str:
    is_secret = not is_public and name not in PUBLIC
    answer: str = click.prompt(name, default="", show_default=False, hide_input=is_secret, err=True)
    return answer.strip("\r\n") if is_secret else answer.strip()
