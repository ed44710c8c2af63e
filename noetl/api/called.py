"""Requests that call the address of a task. Whoever has the address may do that: what it needs is
in the path, which is therefore written nowhere."""

from __future__ import annotations

import re
from typing import Final

from flask import request

from noetl.facts.callbacks import PATH
from noetl.usecases.access import Principal

#: Who makes them.
CALLBACK: Final = Principal("callback", ())
#: What a body may be that is no JSON.
FORM: Final = "application/x-www-form-urlencoded"
TEXT: Final = "text/"
#: A path with a token in it, however it was written.
_PATH: Final = re.compile(r"(?i)(/callbacks(?:/|%2f)+)[\w.~%-]+")


def is_call() -> bool:
    """Whether the current request is one, or would be with another method."""
    return request.path.startswith(PATH)


def is_body_of_call(mimetype: str) -> bool:
    """Whether the body of one may be of that type, besides JSON."""
    return mimetype in ("", FORM) or mimetype.startswith(TEXT)


def hide_token(text: str) -> str:
    """`text` without the tokens of addresses in it."""
    return _PATH.sub(r"\1…", text)
