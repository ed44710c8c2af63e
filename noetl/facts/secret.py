"""References to secrets: what stands for a secret everywhere but inside of a tool call.

A *secret reference* is `{kind: secret_ref, execution, keychain | input + hash | callback + run +
iteration | provider + name, version?, field?, seal}`. Only who has the installation's keys can make
its `seal`, so that data from outside cannot ask for a secret by looking like a reference; `field`
is not under the seal: with a reference one may reach deeper. In mixed text a *marker* stands for
it: a word of letters that need no escaping in JSON, addresses and headers.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from noetl.errors import BadRequest, ConfigError, TemplateError
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean

#: The value of `kind` in the mapping that stands for a secret.
SECRET_REF: Final = "secret_ref"  # noqa: S105 - a word of the format
#: Who keeps credentials by their names.
STORE: Final = "store"
#: What every marker begins with.
MARK: Final = "~noetl-secret."
_MARKER: Final = re.compile(r'("?)~noetl-secret\.(text|json|url)\.([A-Za-z0-9_-]+)\.~("?)')

_PLAIN: Final = frozenset({int, float, bool, type(None)})

#: Names that people give to secrets, in lower case, with `_` for `-`; not marks of pages
#: (`page_token`) and names of secrets (`secret_name`).
_NAMES: Final = re.compile(
    r"(.*_)?(password|passwd|passphrase|api_?key|secret_?key|private_?key|client_secret|"
    r"(access|auth|bearer|refresh|api)_token)|pwd|token|secret"
)
_HEADERS: Final = frozenset({"authorization", "proxy_authorization"})

#: How the secret is to be written where its marker stands.
Form: TypeAlias = Literal["text", "json", "url"]
#: Adds the seal to a reference.
Seal: TypeAlias = Callable[[JsonMap], JsonMap]


def is_secret(value: Any) -> bool:
    """Whether `value` is a secret reference; not whether its seal is good."""
    return (
        isinstance(value, Mapping) and value.get("kind") == SECRET_REF and isinstance(value.get("seal"), str)
    )


def is_secret_name(key: str) -> bool:
    """Whether people call secrets so: `password`, `api-key`, `token`."""
    return _NAMES.fullmatch(key.lower().replace("-", "_")) is not None or is_secret_header(key)


def is_secret_header(key: str) -> bool:
    """Whether a header of that name carries a secret."""
    return key.lower().replace("-", "_") in _HEADERS


def deeper(reference: JsonMap, part: str) -> dict[str, Json]:
    """The reference to a field of what `reference` stands for."""
    field = reference.get("field")
    return {**reference, "field": f"{field}.{part}" if field else part}


def describe_secret(reference: JsonMap) -> str:
    """How messages name a secret: `keychain.db.password`, `workload.token`, `callback.answer.url`,
    or `secret 'db' (vault)`."""
    field = f".{reference['field']}" if reference.get("field") else ""
    if "input" in reference:
        return f"workload.{reference['input']}{field}"
    if "keychain" in reference:
        return f"keychain.{reference['keychain']}{field}"
    if "callback" in reference:
        return f"callback.{reference['callback']}{field}"
    return f"secret '{reference.get('name')}'{field} ({reference.get('provider')})"


def seal_reference(reference: JsonMap, key: bytes) -> dict[str, Json]:
    """`reference` with the seal that `key` makes: HMAC-SHA256 over all but `field`, cut to 128
    bits."""
    base = {name: value for name, value in reference.items() if name not in ("field", "seal")}
    text = json.dumps(base, sort_keys=True, separators=(",", ":"))
    digest = hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")[:16]
    return {**reference, "seal": _encode(digest)}


def omit_seal(reference: JsonMap) -> dict[str, Json]:
    """`reference` with a seal that is never accepted: that of a process without keys."""
    return {**reference, "seal": ""}


def is_sealed_by(reference: JsonMap, key: bytes) -> bool:
    """Whether the seal of `reference` is the one that `key` makes."""
    return hmac.compare_digest(
        str(seal_reference(reference, key)["seal"]).encode(), str(reference["seal"]).encode()
    )


class SealedNames(Mapping[str, JsonMap]):
    """What templates see as `word`: a name → the reference to what it stands for, sealed when it is
    asked for. `base` is what the references have in common, `unknown` begins the sentence about a
    name that there is not."""

    __slots__ = ("_base", "_entries", "_seal", "_unknown", "_word")

    def __init__(self, word: str, entries: tuple[str, ...], base: JsonMap, seal: Seal, unknown: str) -> None:
        self._word = word
        self._entries = entries
        self._base = base
        self._seal = seal
        self._unknown = unknown

    def __getitem__(self, name: str) -> JsonMap:
        """Raises TemplateError for a name that there is not, and where nothing can be sealed."""
        if name not in self._entries:
            hint = did_you_mean(str(name), self._entries)
            raise TemplateError(f"{self._unknown} {str(name)[:80]!r}.{hint}")
        try:
            return self._seal({"kind": SECRET_REF, **self._base, self._word: name})
        except ConfigError as error:
            raise TemplateError(f"{self._word}.{name} cannot be used: {error}") from error

    def get(self, name: str, default: Any = None) -> Any:
        """Raises nothing for an unknown name, so that this mapping can be read like any other."""
        return self[name] if name in self._entries else default

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class Keychain(SealedNames):
    """What templates see as `keychain`: the name of an entry → its reference."""

    __slots__ = ()

    def __init__(self, entries: tuple[JsonMap, ...], execution_id: str, seal: Seal) -> None:
        names = tuple(str(entry["name"]) for entry in entries if "name" in entry)
        unknown = "The keychain of this playbook has no entry"
        super().__init__("keychain", names, {"execution": execution_id}, seal, unknown)


def marker(reference: JsonMap, form: Form = "text") -> str:
    """The text that stands for `reference` inside of a longer one."""
    packed = json.dumps(dict(reference), separators=(",", ":"))
    return f"{MARK}{form}.{_encode(packed.encode('utf-8', 'surrogatepass'))}.~"


def change_form(text: str, form: Form) -> str:
    """`text` with the secrets in it to be written as `form` says; those with another form
    keep it."""
    return text.replace(f"{MARK}text.", f"{MARK}{form}.")


def replace_markers(text: str, open: Callable[[JsonMap], Json]) -> str:
    """`text` with every marker replaced by what `open` yields for its reference, written as the
    marker says.

    Raises BadRequest where a marker was changed or cut, or where its secret is no text and no JSON
    is asked for.
    """
    if len(_MARKER.findall(text)) != text.count(MARK):
        raise BadRequest(
            "A text with a secret in it was changed, so that the secret cannot be put in its place."
        )
    return _MARKER.sub(lambda match: _write(match, open), text)


def _write(match: re.Match[str], open: Callable[[JsonMap], Json]) -> str:
    before, form, packed, after = match.groups()
    reference = _unpack(packed)
    value = open(reference)
    if form == "json" and before and after:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool | None | list | Mapping):
        raise BadRequest(f"{describe_secret(reference)} is no text; name one of its fields.")
    match form:
        case "json":
            written = json.dumps(str(value), ensure_ascii=False)[1:-1]
        case "url":
            written = quote(str(value), safe="")
        case _:
            written = str(value)
    return f"{before}{written}{after}"


def _unpack(packed: str) -> JsonMap:
    try:
        found = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not is_secret(found):
        raise BadRequest(
            "A text with a secret in it was changed, so that the secret cannot be put in its place."
        )
    return found  # type: ignore[no-any-return]  # a mapping, see above


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def holds_secret(value: Json) -> bool:
    """Whether a reference or a marker stands anywhere in `value`, however deep (without
    recursion)."""
    pending: list[Any] = [[value]]
    while pending:
        current = pending.pop()
        if isinstance(current, Mapping):
            if current.get("kind") == SECRET_REF and is_secret(current):
                return True
            inner: Iterable[Json] = current.values()
        else:
            inner = current if isinstance(current, list) else ()
        # Large inputs are mostly plain values, which are looked at in passing.
        for one in inner:
            kind = type(one)
            if kind is str:
                if MARK in one:
                    return True
            elif kind not in _PLAIN:
                pending.append(one)
    return False
