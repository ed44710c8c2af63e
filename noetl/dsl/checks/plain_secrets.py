"""Secrets that stand in the text of a playbook: found by the names that people give them, never by
how they look."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Finding, Path
from noetl.facts.json import Json
from noetl.facts.secret import is_secret_header, is_secret_name

_NUMBERS_TOO: Final = re.compile(r".*pass(word|wd|phrase)")
_USERINFO: Final = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^/\s:@]{0,200}:([^/\s@]{1,200})@", re.IGNORECASE)
_SCHEME: Final = re.compile(r"\w+\s+")
# What people write where no secret is to be seen.
_PLACEHOLDER: Final = re.compile(
    r"\W*|.{0,3}|[\Wx]+|<.*>|\[.*\]|\$.*|%.*%|@.*|your\W.*|your_.*|my[\W_].*|(change|replace|fill)[\W_]?.*|none|null|true|false|"
    r"(an?[\W_])?(example|placeholder|dummy|fake|redacted|hidden|masked|todo|secret|password|passwd|token|key)",
    re.IGNORECASE,
)
#: Texts that are no configuration.
_PROSE: Final = frozenset({"code", "desc", "description"})
_PARTS: Final = ("workload", "workbook", "workflow", "executor")
_HINT: Final = "store it (`noetl credential set NAME ...`), and name the credential here or in the keychain"


def check_plain_secrets(subject: Subject) -> Iterator[Finding]:
    """Passwords, tokens and keys in plain text, which are hidden from whoever is shown the text."""
    for part in _PARTS:
        for path, what in _secrets((part,), (subject.source.data or {}).get(part)):
            message = f"{what} stands in the playbook as plain text"
            yield Finding(Code.IN_PLAIN_TEXT, path, message, _HINT, hides=True)


def _secrets(path: Path, value: Json) -> Iterator[tuple[Path, str]]:
    """Where secrets stand, and what to call them."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from _secrets((*path, key), inner)
        case list():
            for index, inner in enumerate(value):
                yield from _secrets((*path, index), inner)
        case str() | int():
            what = _what(path, value)
            if what is not None:
                yield path, what


def _what(path: Path, value: str | int) -> str | None:
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    name = key.lower().replace("-", "_")
    if isinstance(value, int):
        is_secret = not isinstance(value, bool) and _NUMBERS_TOO.fullmatch(name) is not None
        return f"the value of `{key}`" if is_secret else None
    if name in _PROSE or is_template(value):
        return None
    if is_secret_header(key):
        if not _is_placeholder(_SCHEME.sub("", value, count=1), key):
            return f"the header `{key}`"
    elif is_secret_name(key) and not _is_placeholder(value, key):
        return f"the value of `{key}`"
    found = _USERINFO.search(value)
    return None if found is None or _is_placeholder(found[1], key) else "the password of an address"


def _is_placeholder(value: str, key: str) -> bool:
    return _PLACEHOLDER.fullmatch(value.strip()) is not None or value.strip().lower() == key.lower()
