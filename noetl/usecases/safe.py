"""Opening secrets, for tool calls alone: what a reference or the name of a credential stands
for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from noetl.errors import ConfigError, ToolError
from noetl.facts.callbacks import PATH, TaskAddress, place_of
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import STORE, describe_secret
from noetl.usecases.credentials import best, explain_absence
from noetl.usecases.ports import Store
from noetl.usecases.runtime import Cache
from noetl.usecases.secret_fields import (
    KEPT_AS,
    SecretScope,
    base_name,
    fields_of,
    is_own,
    kept_name,
    make_gone,
    pick,
    read_scope,
)
from noetl.usecases.secrets import Asking, Provider, Secret, Sources, TokenRequest


class Vault(Protocol):
    """Opens what is encrypted, knows its own seals, and makes the tokens of addresses."""

    def decrypt(self, token: bytes, /) -> Mapping[str, Json]: ...

    def has_sealed(self, reference: JsonMap, /) -> bool: ...

    def make_token(self, place: TaskAddress, /) -> str: ...


class Safe:
    """Opens secrets for one process, and the addresses of tasks, which begin with `server_url`.
    Thread-safe."""

    def __init__(
        self,
        store: Store,
        vault: Callable[[], Vault],
        sources: Sources,
        clock: Callable[[], float] = time.monotonic,
        *,
        server_url: str = "",
    ) -> None:
        self._store = store
        self._vault = vault
        self._sources = sources
        self._clock = clock
        self._server_url = server_url
        self._scopes: Cache[str, SecretScope] = Cache(1024)
        self._kept: Cache[tuple[str, str, str | None], tuple[float, Secret]] = Cache(256)

    def credential(self, name: str, execution_id: str = "") -> Mapping[str, Json]:
        """The fields of what a task means by `auth: name`: an entry of its playbook's keychain,
        else a credential.

        Raises ToolError of kind `auth` that names the nearest one.
        """
        scope = self._find_scope(execution_id)
        entry = scope.keychain.get(name)
        if entry is None:
            return self._read_credential(name, scope)
        value = fields_of(self._open_entry(entry, scope, None).value)
        if not isinstance(value, Mapping):
            raise ToolError("auth", f"keychain.{name} is a text, and no credential.", type="UnusableSecret")
        return value

    def open(self, reference: JsonMap, versions: Mapping[str, str]) -> Secret:
        """What `reference` stands for. `versions` are those that the task has used before, by the
        secret's name. Raises ToolError where it may not be opened, or is not there."""
        if not self._vault().has_sealed(reference):
            message = (
                f"{describe_secret(reference)} is not opened: no key of this process made its reference. "
                "Data cannot "
                "ask for secrets; where the keys were changed, add the old one behind the new one."
            )
            raise ToolError("auth", message, type="UnsealedSecret")
        scope = self._find_scope(str(reference.get("execution", "")))
        if "callback" in reference:
            whole = Secret({"url": self._address(reference)})
        else:
            whole = self._open_whole(reference, scope, versions)
        wanted = reference.get("field")
        if wanted is None:
            return whole
        value = pick(whole.value, str(wanted), reference)
        if value in (None, "") and is_own(reference, scope):
            message = (
                f"{describe_secret(reference)} is empty: what the keychain reads there was not given "
                "when the "
                "execution began."
            )
            raise ToolError("auth", message, type="EmptySecret")
        return Secret(value, whole.version)

    def _address(self, reference: JsonMap) -> str:
        token = self._vault().make_token(place_of(reference))
        return f"{self._server_url}{PATH}{token}"

    def find(self, provider: str, name: str, version: str | None, execution_id: str) -> Secret:
        """The secret that a provider has under a name. Raises ToolError."""
        scope = self._find_scope(execution_id)
        return self._read_provider(provider, name, version, scope)

    def _open_whole(self, reference: JsonMap, scope: SecretScope, versions: Mapping[str, str]) -> Secret:
        base = base_name(reference)
        if "keychain" in reference:
            entry = scope.keychain.get(str(reference["keychain"]))
            if entry is None:
                raise ToolError(
                    "auth", f"{base} is no entry of its playbook's keychain.", type="UnknownSecret"
                )
            return self._open_entry(entry, scope, versions.get(base))
        if "input" in reference:
            return self._read_input(reference, scope)
        version = reference.get("version") or versions.get(base)
        return self._read_provider(str(reference["provider"]), str(reference["name"]), version, scope)

    def _read_input(self, reference: JsonMap, scope: SecretScope) -> Secret:
        name = kept_name(reference)
        with self._store.read() as tx:
            is_kept = bool(tx.credentials.find(name))
        if not is_kept:
            raise make_gone(reference)
        return Secret(self._read_credential(name, scope)[KEPT_AS])

    def _open_entry(self, entry: JsonMap, scope: SecretScope, version: str | None) -> Secret:
        name = f"keychain.{entry.get('name')}"
        match entry.get("kind"):
            case "credential":
                return Secret(self._read_credential(str(entry.get("credential")), scope))
            case "secret":
                return self._read_elsewhere(entry, scope, version)
            case "token":
                return self._get_token(entry, scope, name)
            case kind:
                raise ToolError("auth", f"{name} cannot be opened: {_useless(kind)}", type="UnusableSecret")

    def _read_elsewhere(self, entry: JsonMap, scope: SecretScope, version: str | None) -> Secret:
        pinned, auth = entry.get("version"), entry.get("auth")
        if pinned is not None:
            version = str(pinned)
        provider, path = str(entry.get("provider")), str(entry.get("path"))
        found = self._read_provider(provider, path, version, scope, entry.get("ttl"), auth)
        part = entry.get("field")
        return found if part is None else Secret(pick(found.value, str(part), entry), found.version)

    def _get_token(self, entry: JsonMap, scope: SecretScope, name: str) -> Secret:
        auth = entry.get("auth")
        fields: dict[str, Json] = {}
        if isinstance(auth, Mapping):
            fields = {key: value for key, value in auth.items() if key != "credential"}
            auth = auth.get("credential")
        data = {**(self._read_credential(str(auth), scope) if auth is not None else {}), **fields}
        ttl, renew = entry.get("ttl"), entry.get("auto_renew", True)
        order = TokenRequest(name, data, None if ttl is None else float(ttl), bool(renew), scope.execution_id)
        token = self._sources.token(order)
        return Secret({"type": "bearer", "token": token, "access_token": token})

    def _read_provider(
        self,
        provider: str,
        name: str,
        version: str | None,
        scope: SecretScope,
        keep_s: float | None = None,
        auth: Json = None,
    ) -> Secret:
        if provider == STORE:
            return Secret(self._read_credential(name, scope))
        source = self._find_provider(provider, auth, scope)
        key = (provider, name, version)
        # What one credential may read is not kept for those who ask with another.
        kept = self._kept.get(key) if auth is None else None
        if kept is not None and self._clock() < kept[0]:
            return kept[1]
        found = source.read(name, version)
        lasts = source.keep_s if keep_s is None else float(keep_s)
        if lasts > 0 and auth is None:
            self._kept.put(key, (self._clock() + lasts, found))
        return found

    def _find_provider(self, provider: str, auth: Json, scope: SecretScope) -> Provider:
        """The provider to ask; `auth` is for those that can be asked with another credential."""
        source = self._sources.provider(provider)
        if auth is None or not isinstance(source, Asking):
            return source
        name = auth.get("credential") if isinstance(auth, Mapping) else auth
        return source.asking_with(self.credential(str(name), scope.execution_id))

    def _read_credential(self, name: str, scope: SecretScope) -> Mapping[str, Json]:
        with self._store.read() as tx:
            rows = tx.credentials.find(name)
            row = best(rows, scope.path, scope.execution_id)
            if row is None:
                why = explain_absence(tx, name, scope.path, rows, scope.keychain)
                raise ToolError("auth", why, type="UnknownCredential")
        try:
            data = self._vault().decrypt(row.data)
        except ConfigError as error:
            raise ToolError(
                "auth", f"Credential {name!r} cannot be opened: {error}", type="WrongKey"
            ) from error
        # A credential that is of no use to a tool is known by its type; what its data says itself
        # wins.
        return {"type": row.type, **data}

    def _find_scope(self, execution_id: str) -> SecretScope:
        if not execution_id.isdecimal() or len(execution_id) > 19:
            return SecretScope()
        scope = self._scopes.get(execution_id)
        if scope is None:
            with self._store.read() as tx:
                scope = read_scope(tx, execution_id)
            self._scopes.put(execution_id, scope)
        return scope


def _useless(kind: Json) -> str:
    if kind == "static":
        return (
            "its value stands in the playbook as plain text, which is no secret; store it with "
            "`noetl credential set`, and make the entry one of kind credential."
        )
    return f"kind {str(kind)[:40]!r} means nothing; there are credential, secret and token."
