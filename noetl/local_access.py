"""Access for who works on this machine: as whom commands ask, and the token that the first start
leaves in the home."""

from __future__ import annotations

import os
import pwd
import secrets
from pathlib import Path
from typing import Final

from noetl.atomic import create_private
from noetl.config import Settings
from noetl.errors import ConfigError, Unauthenticated
from noetl.facts.callers import Caller
from noetl.usecases import tokens
from noetl.usecases.runtime import Runtime

#: More bytes than any token has.
_MOST: Final = 1024


def local_caller() -> Caller:
    """The user of the operating system that this process runs as, in a request of its own."""
    return Caller(f"os:{_login_name()}", secrets.token_hex(16))


def _login_name() -> str:
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        # As in a container that runs as a user of whom its image knows nothing.
        return str(number)


def open_warning(settings: Settings) -> str | None:
    """What is said at the start of a server that wants to know nobody; None of any other."""
    if not settings.open:
        return None
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return (
        f"NOETL_OPEN=true: who can reach {host}:{settings.port} may run code here without a token; unset "
        "NOETL_OPEN."
    )


def read_token(file: Path) -> str | None:
    """The token in a file; None where there is no file. Raises ConfigError for one that cannot be
    used."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST).decode("ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(
            f"The token file {file} cannot be read: {why}; move it away, or set NOETL_TOKEN."
        ) from error
    return text


def keep_first_token(rt: Runtime, settings: Settings) -> None:
    """Has the database know the first token, and the token file hold it. Does nothing where the
    database knows it already.

    Raises ConfigError where the file cannot be written, unless somebody has other tokens; what the
    database raises where it cannot be asked.
    """
    if tokens.has_first(rt):
        return
    file = settings.token_file
    earlier = _read_earlier(file)
    asking = rt if rt.caller is not None else rt.acting_for(local_caller())
    try:
        settings.make_home()
        tokens.create_first(asking, lambda text: create_private(file, f"{text}\n"), earlier)
    except OSError as error:
        if tokens.tokens(rt):
            return
        raise ConfigError(
            f"The first token cannot be written to {file} ({error.strerror or error}): make "
            f"{file.parent} writable, set NOETL_HOME to a directory that is, or make a token yourself with "
            "`noetl token create NAME --scope admin`."
        ) from error


def find_good_token(rt: Runtime, settings: Settings) -> str | None:
    """The token in the file, where the database takes it: it may be that of another database, or no
    longer good. Raises ConfigError."""
    text = read_token(settings.token_file)
    if not text:
        return None
    try:
        tokens.recognize(rt, text)
    except Unauthenticated:
        return None
    return text


def _read_earlier(file: Path) -> str | None:
    """The first token of another database that began in this home. Raises ConfigError for anything
    else in the place of the token."""
    text = read_token(file)
    if text is None or tokens.is_first(text):
        return text
    raise ConfigError(
        f"The file {file} is where the first token of this database belongs, and holds something else: "
        "move it away and start again."
    )
