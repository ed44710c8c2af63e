"""What a credential of each type holds: looked at when it is stored and when a tool opens it.

Values are secrets: what is said about a fault names fields and never quotes what stands in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean

#: Types that say how to authenticate to an HTTP service.
HTTP_TYPES: Final = ("basic", "bearer", "api_key", "oauth2")
#: All types. `http` is any of `HTTP_TYPES`, recognized by its fields; `generic` is any mapping.
TYPES: Final = ("postgres", "http", *HTTP_TYPES, "generic")

USER: Final = ("username", "user")
TOKEN: Final = ("token", "access_token", "bearer")
KEY: Final = ("api_key", "key", "value")
#: Names of the header or the parameter that carries an API key.
KEY_NAME: Final = ("header", "name", "param")

#: Fields that are no secrets: where something is and whom it knows. They may be seen.
PUBLIC: Final = frozenset(
    {
        *("type", "host", "db_host", "hostname", "port", "db_port", *USER, "db_user"),
        *("database", "db", "dbname", "db_name", "schema", "sslmode", "sslrootcert", "application_name"),
        *("connect_timeout", "target_session_attrs", "channel_binding", "gssencmode", "path", "read_only"),
        *("token_url", "client_id", "client_auth", "grant_type", "scope", "audience", "in", "endpoint"),
        *("header", "name", "param", "region", "account", "role", "warehouse"),
    }
)

_SYNONYMS: Final = {
    "apikey": "api_key",
    "token": "bearer",
    "oauth": "oauth2",
    "client_credentials": "oauth2",
    "oauth2_client_credentials": "oauth2",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """`needs` are groups of names of which one holds a text. `may` are further ones; None: any."""

    needs: tuple[tuple[str, ...], ...]
    may: tuple[str, ...] | None = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*(name for group in self.needs for name in group), *(self.may or ()), "type")


SHAPES: Final[Mapping[str, Shape]] = {
    "postgres": Shape((("host", "db_host", "hostname", "dsn", "url"),), may=None),
    "basic": Shape((USER,), ("password",)),
    "bearer": Shape((TOKEN,)),
    "api_key": Shape((KEY + TOKEN,), ("in", *KEY_NAME)),
    "oauth2": Shape(
        (("token_url",), ("client_id",), ("client_secret",)),
        ("scope", "audience", "client_auth", "grant_type", "params", "headers"),
    ),
}

#: Fields that forms offer of each type: those that people use.
OFFERED: Final[Mapping[str, tuple[str, ...]]] = {
    "postgres": ("host", "port", "database", "user", "password", "sslmode"),
    "bearer": ("token",),
    "basic": ("username", "password"),
    "api_key": ("api_key", "header", "in"),
    "oauth2": ("token_url", "client_id", "client_secret", "scope", "audience", "client_auth"),
}
_NUMBERS: Final = frozenset({"port", "db_port", "connect_timeout"})


def may_have_more(type: str) -> bool:
    """Whether a credential of the type may have fields that forms do not offer."""
    shape = SHAPES.get(type)
    return shape is None or shape.may is None


def read_typed_fields(typed: Mapping[str, str]) -> dict[str, Json]:
    """Fields as somebody typed them: numbers where they are numbers."""
    return {
        name: int(text) if name in _NUMBERS and text.isascii() and text.isdigit() else text
        for name, text in typed.items()
    }


def first(data: Mapping[str, Json], names: Iterable[str]) -> Json:
    """The value of the first of `names` that holds something, else None."""
    return next((data[name] for name in names if data.get(name) not in (None, "")), None)


def http_type(data: Mapping[str, Json]) -> str | None:
    """Which of `HTTP_TYPES` `data` is: what its `type` says, else what its fields tell; None:
    none."""
    said = str(data.get("type") or "http").lower().replace("-", "_").replace(" ", "_")
    said = _SYNONYMS.get(said, said)
    if said not in ("http", "generic"):
        return said if said in HTTP_TYPES else None
    marks = {"oauth2": ("token_url",), "basic": USER, "bearer": TOKEN, "api_key": KEY}
    return next((type for type, names in marks.items() if first(data, names) is not None), None)


def find_fault(type: str, data: Mapping[str, Json]) -> str | None:
    """Why `data` is no credential of `type`, as a clause without values; None where it is one."""
    if type == "generic":
        return None
    if type == "http":
        return _http_fault(data)
    shape = SHAPES[type]
    if shape.may is not None:
        unknown = next((name for name in data if name not in shape.names), None)
        if unknown is not None:
            return f"type '{type}' has no field {unknown[:80]!r}.{did_you_mean(unknown, shape.names)}".rstrip(
                "."
            )
    return _find_missing(type, shape, data) or _unfit(type, data)


def _http_fault(data: Mapping[str, Json]) -> str | None:
    """Other fields may stand beside those that are used: the type is older than those that know
    theirs."""
    type = http_type(data)
    if type is None:
        known = ", ".join(HTTP_TYPES)
        return (
            "give `token`, `username` and `password`, `key` and `header`, "
            f"or a `type` ({known}) and its fields"
        )
    return _find_missing(type, SHAPES[type], data) or _unfit(type, data)


def _find_missing(type: str, shape: Shape, data: Mapping[str, Json]) -> str | None:
    for group in shape.needs:
        value = first(data, group)
        if value is None:
            return f"type '{type}' needs `{group[0]}`"
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return f"`{_holder(data, group)}` of type '{type}' must be a text"
        if type in HTTP_TYPES and not (str(value).strip() and str(value).isprintable()):
            return f"`{_holder(data, group)}` of type '{type}' is blank or holds a line break"
    return None


def _holder(data: Mapping[str, Json], group: Iterable[str]) -> str:
    return next(name for name in group if data.get(name) not in (None, ""))


def _unfit(type: str, data: Mapping[str, Json]) -> str | None:
    match type:
        case "basic":
            password = data.get("password")
            if isinstance(password, bool | list | Mapping):
                return "`password` of type 'basic' must be a text"
            return None
        case "api_key":
            place = data.get("in", "header")
            return None if place in ("header", "query") else "`in` of type 'api_key' is `header` or `query`"
        case "oauth2":
            return _unfit_client(data)
        case _:
            return None


def _unfit_client(data: Mapping[str, Json]) -> str | None:
    if data.get("grant_type", "client_credentials") != "client_credentials":
        return "`grant_type` of type 'oauth2' can only be `client_credentials`"
    if data.get("client_auth", "header") not in ("header", "body"):
        return "`client_auth` of type 'oauth2' is `header` or `body`"
    if not _is_address(str(data.get("token_url"))):
        return "`token_url` of type 'oauth2' must be an address, http or https, without user or password"
    scope = data.get("scope")
    if not (scope is None or isinstance(scope, str) or _is_texts(scope)):
        return "`scope` of type 'oauth2' must be a text or a list of texts"
    if not isinstance(data.get("audience", ""), str | None):
        return "`audience` of type 'oauth2' must be a text"
    for name in ("params", "headers"):
        given = data.get(name)
        if given is not None and not (isinstance(given, Mapping) and all(map(_is_plain, given.values()))):
            return f"`{name}` of type 'oauth2' must be a mapping from texts to texts or numbers"
    return None


def _is_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_plain(value: Json) -> bool:
    return isinstance(value, str | int | float | None) and not isinstance(value, bool)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        named, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(named) and "@" not in parts.netloc
