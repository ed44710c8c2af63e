"""Where the keys for credentials come from: a setting, a command, or a file."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from noetl.errors import ConfigError
from noetl.tools.secrets.vault import Vault, generate_key

#: Seconds that the command may take, and seconds that what it said is used.
COMMAND_S: Final = 10.0
COMMAND_KEPT_S: Final = 300.0


@dataclass(slots=True)
class Keys:
    """The keys, newest first and separated by commas: `given`, else what `command` prints, else what `file` holds.

    `make`: a missing file is made. The file is read again when it changed, so that keys can be added while processes
    run. Safe for threads.
    """

    given: str = field(default="", repr=False)
    command: str = ""
    file: Path = Path("secret.key")
    make: bool = True
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _kept: tuple[object, Vault] | None = field(default=None, repr=False)
    _until: float = 0.0

    def vault(self) -> Vault:
        """Raises ConfigError where there are no keys, or they cannot be used."""
        with self._lock:
            stamp = self._stamp()
            if self._kept is None or self._kept[0] != stamp:
                # With the stamp from before: what changes meanwhile is read next time.
                self._kept = stamp, Vault(self._texts())
            return self._kept[1]

    def add(self) -> None:
        """Puts a new key in front of the file's. Raises ConfigError where the keys come from elsewhere."""
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
            return _printed_by(self.command)
        return load_or_create_key(self.file) if self.make else _read(self.file)


def _printed_by(command: str) -> str:
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
    """Written under another name and linked: nobody ever sees half a key, and the first one wins."""
    draft = _draft(path, key)
    try:
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        draft.unlink()


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
