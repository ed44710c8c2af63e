"""Takes secrets out of what may be seen: a second safeguard, behind references that are opened only
in a call."""

from __future__ import annotations

import base64
import contextlib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, quote_plus, unquote, unquote_plus, urlsplit

from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome
from noetl.usecases.credential_types import PUBLIC

MASK: Final = "***"
#: Shorter secrets, and short ones that are plain words, are left where they stand: taking out
#: `password` wherever it occurs would tear up innocent data.
SHORTEST: Final = 6
_WORD: Final = re.compile(r"[a-z]{0,9}")
#: A part of a path that nobody would make up: long, or with digits in it.
_TOKEN: Final = re.compile(r"(?=.*[0-9]).{8,}|.{20,}")
#: Texts looked through at once: enough that most results take one look, few enough that memory
#: stays flat.
_CHARS: Final = 1_000_000
#: Bytes of a file that are looked through at once.
_BLOCK: Final = 1024 * 1024


class SecretMask:
    """Knows secrets, in the spellings in which they come back. Thread-safe. `most` spellings are
    remembered."""

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._texts: dict[str, None] = {}
        self._params: frozenset[str] = frozenset()
        self._ordered: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"SecretMask({len(self._texts)} texts)"

    def __bool__(self) -> bool:
        return bool(self._ordered or self._params)

    def add(self, secrets: Iterable[str], params: Iterable[str] = ()) -> None:
        """`params` are names whose values are taken out of addresses, however short they are."""
        spelled = [one for secret in secrets for one in spellings(secret)]
        with self._lock:
            before = len(self._texts)
            self._texts.update(dict.fromkeys(spelled))
            while len(self._texts) > self._most:
                del self._texts[next(iter(self._texts))]
            if len(self._texts) != before or before == self._most:
                # Longest first: one may be a part of another.
                self._ordered = tuple(sorted(self._texts, key=len, reverse=True))
            self._params |= frozenset(params)

    def text(self, text: str) -> str:
        """`text` without secrets."""
        for secret in self._ordered:
            if secret in text:
                text = text.replace(secret, MASK)
        for name in self._params:
            text = re.sub(rf"([?&]{re.escape(quote_plus(name))}=)[^&#\s]*", rf"\g<1>{MASK}", text)
        return text

    def bytes(self, data: bytes) -> bytes:
        """The same for what is not decoded yet."""
        for secret in self._ordered:
            data = data.replace(secret.encode("utf-8", "surrogatepass"), MASK.encode())
        return data

    def file(self, source: Path, target: Path) -> Path:
        """The same for a file of any size, a block at a time: `target`, or `source` where there is
        nothing to hide."""
        if not self._ordered:
            return source
        # What may be the beginning of a secret waits for the block behind it.
        held, longest = b"", max(len(secret.encode("utf-8", "surrogatepass")) for secret in self._ordered)
        with source.open("rb") as body, target.open("wb") as shown:
            while block := body.read(_BLOCK):
                held = self.bytes(held + block)
                ready = max(len(held) - longest + 1, 0)
                shown.write(held[:ready])
                held = held[ready:]
            shown.write(held)
        return target

    def cut(self, text: str) -> str:
        """`text` without secrets, also where one stands at its end or beginning and was cut
        there."""
        text = self.text(text)
        for secret in self._ordered:
            for length in range(min(len(secret) - 1, len(text)), SHORTEST - 1, -1):
                if text.endswith(secret[:length]):
                    text = text[:-length] + MASK
                elif text.startswith(secret[-length:]):
                    text = MASK + text[length:]
        return text

    def border(self, text: str) -> int:
        """How much of `text` can be shown before what follows it is known: where that ends no
        secret is divided, and none may have begun."""
        border = len(text)
        for secret in self._ordered:
            border = min(border, _find_beginning(text, secret, border))
        # Where a secret begins that ends behind the border, the border is before it.
        while any(
            (at := text.find(one, max(0, border - len(one) + 1), border + len(one) - 1)) >= 0
            for one in self._ordered
        ):
            border = at
        return border

    def value(self, value: Json) -> Json:
        """`value` without secrets; the very object where there are none in it."""
        # One look for each spelling into joined texts costs less than many into each text.
        return self._mask(value) if any(self.text(one) != one for one in _chunks(value)) else value

    def outcome(self, outcome: Outcome) -> Outcome:
        """`outcome` without secrets."""
        if not self:
            return outcome
        error = outcome.error
        if error is not None:
            traceback = None if error.traceback is None else self.cut(error.traceback)
            status = self.value(error.status)
            error = replace(error, message=self.cut(error.message), traceback=traceback, status=status)
        return replace(
            outcome,
            result=self.value(outcome.result),
            error=error,
            meta=self._cut_texts(outcome.meta),
            extras=self._cut_texts(outcome.extras),
        )

    def _cut_texts(self, value: Json) -> Json:
        """What tools say besides is short, and may have been cut."""
        match value:
            case str():
                return self.cut(value)
            case Mapping():
                return {self.text(key): self._cut_texts(inner) for key, inner in value.items()}
            case list():
                return [self._cut_texts(inner) for inner in value]
            case _:
                return value

    def _mask(self, value: Json) -> Json:
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(key): self._mask(inner) for key, inner in value.items()}
            case list():
                return [self._mask(inner) for inner in value]
            case int() | float() | Decimal() if not isinstance(value, bool) and str(value) in self._texts:
                return MASK
            case _:
                return value


def _find_beginning(text: str, secret: str, before: int) -> int:
    """Where `text` ends with the beginning of `secret`, the earliest such place; else `before`."""
    at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while 0 <= at < before:
        if secret.startswith(text[at:]):
            return at
        at = text.find(secret[0], at + 1)
    return before


def _chunks(value: Json) -> Iterator[str]:
    """All texts of `value`, keys and numbers included, a newline between them."""
    pending, texts, size = [value], list[str](), 0
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            texts.append(current)
            size += len(current)
        elif isinstance(current, Mapping):
            texts.extend(current)
            size += 16 * len(current)
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
        elif isinstance(current, int | float | Decimal) and not isinstance(current, bool):
            texts.append(str(current))
        if size > _CHARS:
            yield "\n".join(texts)
            texts, size = [], 0
    yield "\n".join(texts)


def texts_of(value: Json) -> Iterator[str]:
    """What is secret in the fields of a credential, or in a secret that is a text: not its public
    fields."""
    match value:
        case bool() | None:
            return
        case str():
            yield value
            yield from _inside(value)
        case int() | float() | Decimal():
            yield str(value)
        case Mapping():
            for name, inner in value.items():
                if name not in PUBLIC:
                    yield from texts_of(inner)
        case list():
            for inner in value:
                yield from texts_of(inner)


def _inside(text: str) -> Iterator[str]:
    """The password and the tokens of an address, and the lines of a key."""
    if "://" in text:
        with contextlib.suppress(ValueError):
            yield from _inside_address(urlsplit(text.strip()))
    if "\n" in text.strip():
        yield from (line for line in text.splitlines() if len(line.strip()) >= 4 * SHORTEST)
        yield text.strip()


def _inside_address(address: SplitResult) -> Iterator[str]:
    """Its password, and of one that a service is called at what tells whoever knows it from others:
    the values of its parameters, and the parts of its path that look like tokens."""
    if address.password:
        yield unquote(address.password)
    if address.scheme.lower() not in ("http", "https"):
        return
    for part in (*address.query.split("&"), *address.fragment.split("&")):
        value = part.rpartition("=")[2]
        yield from (value, unquote_plus(value))
    for part in address.path.split("/"):
        if _TOKEN.fullmatch(part):
            yield from (part, unquote(part))


def spellings(secret: str) -> set[str]:
    """A text, and the same in addresses, JSON, SQL and base64 (also in the middle of something
    longer)."""
    in_json = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    plain = {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        *in_json,
        *(one.replace("/", "\\/") for one in in_json),
        secret.replace("'", "''"),
        repr(secret)[1:-1],
    }
    if len(secret) >= SHORTEST and not _WORD.fullmatch(secret):
        plain |= set(_in_base64(secret.encode("utf-8", "surrogatepass")))
    return {one for one in plain if len(one) >= SHORTEST and not _WORD.fullmatch(one)}


def _in_base64(data: bytes) -> Iterator[str]:
    """The part that is the same whatever stands before and behind, for each place modulo three."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode("ascii").rstrip("=")
        first = (before * 8 + 5) // 6
        last = (before + len(data)) * 8 // 6
        same = encoded[first:last]
        yield same
        yield same.replace("+", "-").replace("/", "_")
        yield same.replace("+", "%2B").replace("/", "%2F")
