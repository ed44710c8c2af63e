"""Takes the secrets of a request out of what comes back: servers echo headers, addresses and bodies."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, quote_plus

from noetl.errors import ToolError
from noetl.facts.json import Json

if TYPE_CHECKING:
    from noetl.tools.transport import Answer

MASK: Final = "***"
#: Shorter secrets, and short ones that are plain words, are left where they stand in a body: taking out
#: `password` wherever it occurs would tear up innocent data.
_SHORTEST: Final = 6
_WORD: Final = re.compile(r"[a-z]{0,9}")


class Blackout:
    """Knows the secrets of one call, in the spellings in which they come back."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._params: set[str] = set()

    def __repr__(self) -> str:
        return f"Blackout({len(self._texts)} texts)"

    def add(self, secrets: Iterable[str], params: Iterable[str] = ()) -> None:
        """`params` are names whose values are taken out of addresses, however short they are."""
        for secret in secrets:
            spelled = _spellings(secret)
            self._texts |= {one for one in spelled if len(one) >= _SHORTEST and not _WORD.fullmatch(one)}
        self._params |= set(params)

    def text(self, text: str) -> str:
        for secret in self._ordered():
            text = text.replace(secret, MASK)
        return text

    def address(self, url: str) -> str:
        """The same, also without the values of the parameters that are secret."""
        for name in self._params:
            url = re.sub(rf"([?&]{re.escape(quote_plus(name))}=)[^&#]*", rf"\g<1>{MASK}", url)
        return self.text(url)

    def answer(self, answer: Answer) -> Answer:
        """What may be shown of an answer."""
        headers = {name: self.address(value) for name, value in answer.headers.items()}
        body = answer.body
        for secret in self._ordered():
            body = body.replace(secret.encode(), MASK.encode())
        url, reason = self.address(answer.url), self.text(answer.reason)
        return replace(answer, headers=headers, body=body, url=url, reason=reason)

    def error(self, error: ToolError) -> ToolError:
        """The same failure, in words that may be shown."""
        return ToolError(
            error.kind,
            self.address(error.message),
            retryable=error.retryable,
            type=error.type,
            extras={name: self._value(value) for name, value in error.extras.items()},
        )

    def _value(self, value: Json) -> Json:
        match value:
            case str():
                return self.address(value)
            case Mapping():
                return {name: self._value(inner) for name, inner in value.items()}
            case list():
                return [self._value(inner) for inner in value]
            case _:
                return value

    def _ordered(self) -> list[str]:
        """Longest first: one may be a part of another."""
        return sorted(self._texts, key=len, reverse=True)


def _spellings(secret: str) -> set[str]:
    """A text, and the same in addresses, in JSON and in base64."""
    in_json = json.dumps(secret)[1:-1]
    encoded = base64.b64encode(secret.encode()).decode("ascii")
    return {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        in_json,
        in_json.replace("/", "\\/"),
        encoded,
        encoded.rstrip("="),
    }
