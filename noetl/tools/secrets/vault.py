"""Credentials at rest: encrypted mappings, and where the keys for them come from."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.atomic import create_private
from noetl.errors import BadRequest, ConfigError
from noetl.facts.callbacks import TaskAddress, make_token, read_token
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import is_sealed_by, seal_reference

# Imported where it is used: it takes 20 ms, and most runs open no credential.
if TYPE_CHECKING:
    from cryptography.fernet import Fernet

#: Seconds that the command may take, and seconds that what it said is used.
COMMAND_S: Final = 10.0
COMMAND_KEPT_S: Final = 300.0


def generate_key() -> str:
    """A new key: 32 random bytes in URL-safe base64."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode("ascii")


class FernetVault:
    """Encrypts mappings. `keys` are separated by commas; the first encrypts, all decrypt."""

    def __init__(self, keys: str) -> None:
        texts = [key.strip() for key in keys.split(",") if key.strip()]
        if not texts:
            raise ConfigError(
                "There is no key for credentials; set one (32 random bytes in URL-safe base64)."
            )
        from cryptography.fernet import MultiFernet

        self._fernet = MultiFernet([_fernet(text, number) for number, text in enumerate(texts, 1)])
        # Other keys, made from those that encrypt: what a seal reveals is of no use against a
        # credential.
        self._seals = [
            hmac.digest(text.encode(), b"noetl: references to secrets", "sha256") for text in texts
        ]

        self._addresses = [
            hmac.digest(text.encode(), b"noetl: addresses of tasks", "sha256") for text in texts
        ]

    def __repr__(self) -> str:
        return f"Vault({len(self._seals)} keys)"

    def encrypt(self, data: Mapping[str, Json]) -> bytes:
        """The ciphertext of `data`. Raises BadRequest where it is not JSON."""
        try:
            text = json.dumps(dict(data), allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError):
            # The cause is left out: it may quote the secret.
            raise BadRequest("The data of a credential must be a JSON mapping of plain values.") from None
        return self._fernet.encrypt(text.encode())

    def decrypt(self, token: bytes) -> dict[str, Json]:
        """The mapping that `encrypt` was given. Raises ConfigError where no key fits."""
        from cryptography.fernet import InvalidToken

        try:
            text = self._fernet.decrypt(bytes(token))
        except InvalidToken:
            raise ConfigError(
                "A credential cannot be decrypted with the keys of this process; add the key "
                "that encrypted it "
                "behind the current one, or set the credential again."
            ) from None
        data: dict[str, Json] = json.loads(text)
        return data

    def seal(self, reference: JsonMap) -> dict[str, Json]:
        """`reference` to a secret, sealed with the first key."""
        return seal_reference(reference, self._seals[0])

    def has_sealed(self, reference: JsonMap) -> bool:
        """Whether one of the keys made the seal of `reference`."""
        return any(is_sealed_by(reference, key) for key in self._seals)

    def make_token(self, place: TaskAddress) -> str:
        """The token of the address of a task, made with the first key."""
        return make_token(place, self._addresses[0])

    def read_token(self, token: str) -> TaskAddress | None:
        """The place that the token stands for; None where none of the keys made it."""
        return read_token(token, self._addresses)


def _fernet(text: str, number: int) -> Fernet:
    from cryptography.fernet import Fernet

    try:
        return Fernet(text.encode("ascii"))
    except ValueError:
        raise ConfigError(
            f"Key {number} for credentials is not 32 bytes in URL-safe base64; make one with "
            "`python -c 'from noetl.tools.secrets.vault import generate_key; print(generate_key())'`."
        ) from None


@dataclass(slots=True)
class KeySource:
    """The keys, newest first and separated by commas: `given`, else what `command` prints, else
    what `file` holds.

    `make`: a missing file is made. The file is read again when it changed, so that keys can be
    added while processes run. Safe for threads."""

    given: str = field(default="", repr=False)
    command: str = ""
    file: Path = Path("secret.key")
    make: bool = True
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _kept: tuple[object, FernetVault] | None = field(default=None, repr=False)
    _until: float = 0.0

    def vault(self) -> FernetVault:
        """Raises ConfigError where there are no keys, or they cannot be used."""
        with self._lock:
            stamp = self._stamp()
            if self._kept is None or self._kept[0] != stamp:
                # With the stamp from before: what changes meanwhile is read next time.
                self._kept = stamp, FernetVault(self._texts())
            return self._kept[1]

    def add(self) -> None:
        """Puts a new key in front of the file's. Raises ConfigError where the keys come from
        elsewhere."""
        if self.given or self.command:
            where = "NOETL_SECRET_KEY" if self.given else "NOETL_SECRET_KEY_COMMAND"
            raise ConfigError(f"The keys come from {where}; put the new key in front of the others there.")
        with self._lock:
            before = _read(self.file) if self.file.exists() else ""
            _replace(self.file, ",".join(filter(None, [generate_key(), before])))

    def _stamp(self) -> object:
        """Another one where the keys may be others."""
        if self.given:
            return self.given
        if self.command:
            now = self.clock()
            if now >= self._until:
                self._until = now + COMMAND_KEPT_S
            return self._until
        try:
            found = self.file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _texts(self) -> str:
        if self.given:
            return self.given
        if self.command:
            return _print_of(self.command)
        return load_or_create_key(self.file) if self.make else _read(self.file)


def _print_of(command: str) -> str:
    """What it prints is never quoted: it may be the key."""
    name = "NOETL_SECRET_KEY_COMMAND"
    try:
        argv = shlex.split(command)
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{name} gave no key within {COMMAND_S:.0f} s.") from None
    except (OSError, ValueError, IndexError) as error:
        why = getattr(error, "strerror", None) or "it is no command line"
        raise ConfigError(f"{name} cannot be run: {why}.") from None
    if done.returncode != 0:
        raise ConfigError(f"{name} ended with exit status {done.returncode}; run it by hand to see why.")
    printed = done.stdout.decode("ascii", "replace").strip()
    if not printed:
        raise ConfigError(f"{name} printed no key.")
    return printed


def load_or_create_key(path: Path) -> str:
    """The keys in the file `path`, which is made (readable by its owner alone) where it is missing.

    Processes that race for it get the same key. Raises ConfigError where the file cannot be used.
    """
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(path, generate_key())
    except OSError as error:
        raise ConfigError(f"The key file {path} cannot be used: {error.strerror}.") from error
    return _read(path)


def _read(path: Path) -> str:
    try:
        keys = path.read_text("ascii").strip()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"The key file {path} cannot be used: {why}.") from error
    if not keys:
        raise ConfigError(
            f"The key file {path} is empty; restore it, or delete it and set all credentials again."
        )
    return keys


def _create(path: Path, key: str) -> None:
    """Half a key is never seen, and the first one wins."""
    with suppress(FileExistsError):
        create_private(path, key + "\n")


def _replace(path: Path, keys: str) -> None:
    draft = _draft(path, keys)
    try:
        draft.replace(path)
    except OSError as error:
        draft.unlink()
        raise ConfigError(f"The key file {path} cannot be replaced: {error.strerror}.") from error


def _draft(path: Path, keys: str) -> Path:
    """A file beside `path` that only its owner may read."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(keys + "\n")
        file.flush()
        os.fsync(file.fileno())
    return draft
