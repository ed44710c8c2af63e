"""How a request of the tool `http` says who it is: headers, parameters, or a token that is fetched
first."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import quote

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.kit.base import Services
from noetl.tools.kit.http.messages import header_fields, text_of
from noetl.usecases.credential_types import KEY, KEY_NAME, TOKEN, USER, find_fault, first, http_type


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Who asks for tokens (RFC 6749, client credentials), and where. `params` go into the form."""

    place: str
    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    params: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    in_body: bool = False
    #: Further headers of the request.
    more: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: For whom alone its token is; empty: for all.
    holder: str = ""

    @property
    def key(self) -> str:
        """What tokens are kept under: another secret is another client."""
        who = (self.token_url, self.client_id, self.client_secret, self.params)
        return sha256(json.dumps([*who, self.in_body, self.more, self.holder]).encode()).hexdigest()

    @property
    def form(self) -> list[tuple[str, str]]:
        mine = [("client_id", self.client_id), ("client_secret", self.client_secret)] if self.in_body else []
        return [("grant_type", "client_credentials"), *self.params, *mine]

    @property
    def headers(self) -> dict[str, str]:
        """RFC 6749, 2.3.1: both parts are form-encoded before they are joined."""
        login = basic(quote(self.client_id, safe=""), quote(self.client_secret, safe=""))
        return {**dict(self.more), **({} if self.in_body else {"authorization": login})}


@dataclass(frozen=True, slots=True)
class TokenRoute:
    """How the token endpoint is reached: like the service itself."""

    verify: bool | str = True
    proxy: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """What a credential adds to a request; `secrets` are texts that must not be seen again."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    params: Sequence[tuple[str, str]] = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    client: OAuthClient | None = None


def grant_of(auth: str | Mapping[str, Json] | None, services: Services) -> RequestCredentials:
    """What `auth` stands for: a name, `{credential: name, ...}`, or the fields. Raises
    ToolError(auth)."""
    if auth is None:
        return RequestCredentials()
    place, data = open_credential(auth, services)
    wrong = find_fault("http", data)
    if wrong is not None:
        raise ToolError("auth", f"{place} cannot be used for http; {wrong}.", type="UnusableCredential")
    match http_type(data):
        case "basic":
            user, password = login_of(data)
            value = basic(user, password)
            secrets = (password, value.removeprefix("Basic "))
            return RequestCredentials({"authorization": value}, secrets=secrets)
        case "bearer":
            token = text_of(first(data, TOKEN)).strip()
            return RequestCredentials(header_fields({"authorization": f"Bearer {token}"}), secrets=(token,))
        case "api_key":
            return _api_key(data)
        case _:
            return RequestCredentials(client=_client(data, place))


def client_of(place: str, data: Mapping[str, Json]) -> OAuthClient:
    """The client that `data` describes. Raises ToolError(auth) where it is none."""
    wrong = find_fault("oauth2", {name: value for name, value in data.items() if name != "type"})
    if wrong is not None:
        raise ToolError("auth", f"{place} cannot get a token; {wrong}.", type="UnusableCredential")
    return _client(data, place)


def open_credential(auth: str | Mapping[str, Json], services: Services) -> tuple[str, Mapping[str, Json]]:
    """How messages name the credential, and its data: fields beside `credential` win over the
    stored ones."""
    if isinstance(auth, str):
        return f"Credential '{auth}'", services.credential(auth)
    name = auth.get("credential")
    if name is None:
        return "`auth`", auth
    beside = {key: value for key, value in auth.items() if key != "credential"}
    return f"Credential '{name}'", {**services.credential(str(name)), **beside}


def basic(user: str, password: str) -> str:
    """The value of an `Authorization` header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def login_of(data: Mapping[str, Json]) -> tuple[str, str]:
    """User and password of a credential of type basic."""
    return text_of(first(data, USER)).strip(), text_of(data.get("password"))


def _api_key(data: Mapping[str, Json]) -> RequestCredentials:
    secret = text_of(first(data, KEY + TOKEN)).strip()
    name = first(data, KEY_NAME)
    if data.get("in") == "query":
        return RequestCredentials(params=[(str(name or "api_key"), secret)], secrets=(secret,))
    return RequestCredentials(header_fields({str(name or "x-api-key"): secret}), secrets=(secret,))


def _client(data: Mapping[str, Json], place: str) -> OAuthClient:
    scope, more = data.get("scope"), data.get("params") or {}
    fields = {
        "scope": " ".join(scope) if isinstance(scope, list) else scope,
        "audience": data.get("audience"),
        **more,
    }
    # The body of a request for a token is a form, whatever they say.
    given = dict(data.get("headers") or {})
    headers = {name: value for name, value in given.items() if name.lower() != "content-type"}
    return OAuthClient(
        place=place,
        token_url=text_of(data["token_url"]).strip(),
        client_id=text_of(data["client_id"]).strip(),
        client_secret=text_of(data["client_secret"]).strip(),
        params=tuple((name, str(value)) for name, value in fields.items() if value),
        in_body=data.get("client_auth") == "body",
        more=tuple(header_fields(headers).items()),
    )
