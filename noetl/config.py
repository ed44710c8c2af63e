"""Settings, from the environment: each is `NOETL_<NAME>`, and `docs/operations.md` lists them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from noetl.errors import ConfigError
from noetl.facts.nearest import nearest
from noetl.tools.kit.files import PROC, FilePolicy

log = logging.getLogger(__name__)

PREFIX = "NOETL_"
#: Where a Flower of this machine listens: it asks nobody who they are, so that the server does
#: before it.
FLOWER_HOST = "127.0.0.1"

_YEAR_S = 366 * 86_400

#: What the engine has in its home.
_KEPT_IN_HOME = (
    *("noetl.db", "noetl.db-wal", "noetl.db-shm", "noetl.db-journal", "secret.key", "results", "scratch"),
    *("logs", "redis", "broker", "up.json", "up.lock", "token"),
)


def _bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("expected true or false")


def _password(text: str) -> str:
    """A name and a password as Flower takes them, which splits several at commas."""
    name, colon, password = text.strip().partition(":")
    if text.strip() and not (name and colon and password and text.isprintable() and "," not in text):
        raise ValueError("expected name:password, without a comma")
    return text.strip()


def _number(read: Callable[[str], float], what: str, low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = read(text)
        except ValueError:
            raise ValueError(f"expected {what}") from None
        if not low <= value <= high:
            raise ValueError(f"expected {what} from {low} to {high}")
        return value

    return parse


def _whole(low: int, high: int = 2**31 - 1) -> Callable[[str], float]:
    return _number(int, "a whole number", low, high)


def _seconds(low: float) -> Callable[[str], float]:
    return _number(float, "a number of seconds", low, _YEAR_S)


def _level(text: str) -> str:
    known = logging.getLevelNamesMapping()
    if text.upper() not in known:
        raise ValueError(f"expected one of {', '.join(known)}")
    return text.upper()


def _folder(text: str) -> Path:
    if not text.strip():
        raise ValueError("it is empty")
    return Path(text)


def _folders(text: str) -> tuple[Path, ...]:
    paths = tuple(Path(name) for name in _names(text))
    if relative := next((path for path in paths if not path.is_absolute()), None):
        raise ValueError(f"{relative} is not an absolute path")
    return paths


def _web_address(text: str) -> str:
    parts = urlsplit(text.strip())
    if not text.strip():
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("it is no http or https address")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a password does not belong into it")
    if not text.strip().isprintable() or " " in text.strip() or parts.port == 0:
        raise ValueError("host or port cannot be")
    return text.strip().rstrip("/")


def _server_address(text: str) -> str:
    address = _web_address(text)
    if urlsplit(address).path:
        raise ValueError("nothing may stand behind host and port")
    return address


def _schema(text: str) -> str:
    name = text.strip()
    if name.startswith("pg_") or name == "information_schema":
        raise ValueError("this one is PostgreSQL's own")
    if not name.isprintable() or len(name.encode()) > 63:
        raise ValueError("expected the name of a schema, of at most 63 bytes")
    return name


def _prefix(text: str) -> str:
    if text.upper().startswith(PREFIX):
        raise ValueError(f"variables that begin with {PREFIX} are settings")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        chosen = text.strip().lower()
        if chosen not in words:
            raise ValueError(f"expected {' or '.join(filter(None, words))}")
        return chosen

    return parse


def _variables(text: str) -> tuple[str, ...]:
    names = _names(text)
    if own := next((name for name in names if name.startswith(PREFIX)), None):
        raise ValueError(f"{own} is a setting of NoETL, and user code sees none")
    return names


def _queue_limits(text: str) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for entry in _names(text):
        queue, _, number = entry.partition("=")
        if not queue.strip() or not number.strip().isdecimal() or not int(number.strip()[:9]) > 0:
            raise ValueError(f"{entry!r} is not like http=20: a queue and a whole number from 1")
        found[queue.strip()] = int(number.strip()[:9])
    return tuple(found.items())


def _mask(text: str) -> str:
    """A value without the password that may stand in an address."""
    return re.sub(r"//.*@", "//***@", text)


def _write(entry: object) -> str:
    """One of several, as it is read."""
    return "=".join(map(str, entry)) if isinstance(entry, tuple) else str(entry)


def _networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(name) for name in _names(text))


def _env(default: Any, read: Callable[[str], Any], about: str, *, shown: bool = True) -> Any:
    return field(default=default, repr=shown, metadata={"read": read, "about": about})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a process. Read them with `Settings.from_env`."""

    home: Path = _env(Path("~/.noetl"), _folder, "directory for the database, results and keys")
    database_url: str = _env("", str, "SQLAlchemy URL of the log; default: SQLite in the home")
    database_schema: str = _env(
        "",
        _schema,
        "schema of a PostgreSQL database in which the tables are; default: where they are found, else noetl",
    )
    broker_url: str = _env("", str, "Celery broker; default: chosen by `noetl up`")
    result_backend: str = _env("", str, "Celery result backend; default: the broker, where it is Redis")
    results_url: str = _env("", str, "fsspec URL for large results; default: a folder in the home")
    results_keep_s: float = _env(0.0, _seconds(0), "how long large results outlive executions; 0: for ever")
    results_gc_s: float = _env(3600.0, _seconds(0), "how often the sweeper removes large results; 0: never")
    secret_key: str = _env("", str, "Fernet keys for credentials, comma-separated, newest first", shown=False)
    secret_key_command: str = _env("", str, "command that prints those keys, run without a shell")
    secret_key_file: Path | None = _env(
        None, _folder, "file with those keys; default: secret.key in the home, made on first use"
    )
    secrets_env_prefix: str = _env("", _prefix, "prefix of environment variables that the provider env gives")
    secrets_dir: Path | None = _env(None, _folder, "directory of the files that the provider file gives")
    vault_addr: str = _env("", str, "address of the HashiCorp Vault that the provider vault asks")
    vault_token: str = _env("", str, "token for that vault", shown=False)
    vault_token_file: Path | None = _env(None, _folder, "file with the token for that vault")
    vault_ca: Path | None = _env(None, _folder, "file with the authorities of that vault's certificate")
    env_allow: tuple[str, ...] = _env((), _names, "environment variables that templates may read")
    host: str = _env("127.0.0.1", str, "address the API listens on")
    port: int = _env(8642, _whole(0, 65535), "port the API listens on")
    public_url: str = _env(
        "",
        _web_address,
        "address under which services outside reach the API, like https://noetl.example.com; callbacks "
        "go there; default: the API's own",
    )
    flower_port: int = _env(
        5555, _whole(0, 65535), "port on loopback at which Flower listens, and the server finds it"
    )
    flower_url: str = _env(
        "",
        _server_address,
        "address at which the server finds a Flower of another machine, like http://flower:5555; its "
        "password is NOETL_FLOWER_AUTH; default: that of NOETL_FLOWER_PORT",
    )
    flower_auth: str = _env(
        "",
        _password,
        "`name:password` that Flower asks for, and the server sends; `noetl up` makes one",
        shown=False,
    )
    open: bool | None = _env(
        None,
        _bool,
        "whether requests need no token: true: none does, false: all do; unless set, those do that come "
        "from beyond loopback or through a proxy, and all where the API listens beyond loopback",
    )
    token: str = _env(
        "", str, "token that commands send to a server; default: the file token in the home", shown=False
    )
    backlog: int = _env(
        100_000,
        _whole(0),
        "executions and commands that may wait before starts are refused (429); 0: no bound",
    )
    oidc_issuer: str = _env("", str, "URL of an OpenID Connect issuer whose tokens are taken, too")
    oidc_audience: str = _env("", str, "audience that its tokens have to be for")
    oidc_principal: str = _env("sub", str, "claim of its tokens that names the principal")
    oidc_groups: str = _env("groups", str, "claim of its tokens that lists groups")
    oidc_grants: tuple[str, ...] = _env(
        (), _names, "what groups may do, like sre=operate,etl=run:etl/*; * means everybody"
    )
    server_threads: int = _env(
        8, _whole(1, 1000), "requests that a server process answers at once, besides those that wait"
    )
    server_streams: int = _env(
        300, _whole(0, 10_000), "event streams and long polls that a server process holds open"
    )
    body_timeout_s: float = _env(10.0, _seconds(0.01), "how long the body of a request may take to arrive")
    cors_origins: tuple[str, ...] = _env((), _names, "origins that browsers may call the API from")
    allow_private_networks: bool = _env(True, _bool, "whether http tasks may reach private addresses")
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = _env(
        (), _networks, "networks that http tasks may reach even so, like 10.1.0.0/16,127.0.0.1"
    )
    file_roots: tuple[Path, ...] = _env(
        (), _folders, "directories that files named by tasks must lie below, absolute, comma-separated"
    )
    files: Literal["", "user", "roots"] = _env(
        "",
        _one_of("", "user", "roots"),
        "which files tasks may name: user (those of the process's user) or roots (NOETL_FILE_ROOTS); "
        "default: user for `noetl run` and `noetl up` on loopback, roots for everything else",
    )
    python_memory_mb: int = _env(2048, _whole(16, 1_048_576), "memory limit of one python or shell task")
    python_isolation: Literal["process", "sandbox"] = _env(
        "process",
        _one_of("process", "sandbox"),
        "where python and shell tasks run: process, or sandbox (bubblewrap)",
    )
    python_inline: bool = _env(
        False, _bool, "whether python tasks may run in the worker's own process (spec.isolation: inline)"
    )
    python_env_allow: tuple[str, ...] = _env(
        (), _variables, "environment variables that python and shell tasks see beside the usual ones"
    )
    task_timeout_s: float = _env(3600.0, _seconds(0.01), "deadline of a task that sets no timeout")
    inline_bytes: int = _env(65536, _whole(0), "results above this size are kept outside of the log")
    loop_max_in_flight: int = _env(16, _whole(1), "iterations of a parallel loop at once, by default")
    loop_max_items: int = _env(100_000, _whole(1), "items that a loop may have")
    queue_limits: tuple[tuple[str, int], ...] = _env(
        (), _queue_limits, "how much of a queue runs at once, over all workers: `quantum=2,http=20`"
    )
    lease_s: float = _env(30.0, _seconds(0.01), "a claim without a heartbeat is good for this long")
    heartbeat_s: float = _env(3.0, _seconds(0.01), "interval of the workers' heartbeats")
    resend_s: float = _env(60.0, _seconds(0.01), "an unclaimed command is sent again after this long")
    max_deliveries: int = _env(5, _whole(1), "deliveries of one command before it is given up")
    sweep_s: float = _env(1.0, _seconds(0), "interval of the sweeper; 0 turns it off")
    watch_s: float = _env(
        1.0,
        _seconds(0),
        "interval of looks at executions that are waited for, besides what the database notifies; 0: never",
    )
    report_wake: bool = _env(True, _bool, "whether workers wake the scheduler (off only in tests)")
    cancel_grace_s: float = _env(10.0, _seconds(0), "how long a cancelled execution waits for running work")
    log_level: str = _env("WARNING", _level, "level of the log on standard error")
    log_json: bool = _env(False, _bool, "log as JSON lines")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Warns of variables that look like settings but are not. Raises ConfigError that names the
        variable and what it should hold."""
        given: dict[str, Any] = {}
        for one in fields(cls):
            name = PREFIX + one.name.upper()
            if name not in environ:
                continue
            try:
                given[one.name] = one.metadata["read"](environ[name])
            except ValueError as error:
                about, said = one.metadata["about"], _mask(environ[name]) if one.repr else "***"
                raise ConfigError(f"{name}={said!r} cannot be used ({error}): {about}.") from error
        settings = cls(**given)
        _warn_of(tuple(settings.unread(environ)))
        return settings

    def unread(self, environ: Mapping[str, str] = os.environ) -> list[str]:
        """Variables that look like settings but are not, and are handed to no playbook either."""
        known = {PREFIX + one.name.upper() for one in fields(self)} | set(self.env_allow)
        return sorted(
            name for name in environ if name.startswith(PREFIX) and name not in known and "_TEST_" not in name
        )

    @property
    def home_dir(self) -> Path:
        """Raises ConfigError where `~` leads nowhere (a user without a home)."""
        try:
            return self.home.expanduser().absolute()
        except RuntimeError as error:
            raise ConfigError(
                f"The directory {self.home} cannot be found ({error}); set NOETL_HOME."
            ) from error

    def make_home(self) -> Path:
        """The home, which is made where there is none. Raises ConfigError."""
        home = self.home_dir
        try:
            home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"The directory {home} cannot be made ({error.strerror}); set NOETL_HOME to one that can."
            ) from error
        return home

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.home_dir / 'noetl.db'}"

    @property
    def results(self) -> str:
        return self.results_url or f"file://{self.home_dir / 'results'}"

    @property
    def artifacts(self) -> str:
        """Where artifacts are kept, as an fsspec URL."""
        return f"{self.results.rstrip('/')}/artifacts"

    @property
    def outer_url(self) -> str:
        """What the addresses begin with that services outside are handed, without a slash at the
        end."""
        if self.public_url:
            return self.public_url
        try:
            is_everywhere = ip_address(self.host).is_unspecified
        except ValueError:
            is_everywhere = not self.host
        host = "127.0.0.1" if is_everywhere else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def flower(self) -> str:
        """Where the server finds Flower, without a slash at the end."""
        return self.flower_url or f"http://{FLOWER_HOST}:{self.flower_port}"

    def check_flower(self) -> None:
        """Raises ConfigError where everybody in a network may use the Flower of the settings."""
        if self.flower_url and not self.flower_auth:
            raise ConfigError(
                f"NOETL_FLOWER_URL={self.flower_url} is reached over a network, where Flower has to ask "
                "for a password: set NOETL_FLOWER_AUTH=name:password for the server and for Flower."
            )

    @property
    def token_file(self) -> Path:
        """Where the first start leaves its token."""
        return self.home_dir / "token"

    @property
    def key_file(self) -> Path:
        return self.secret_key_file or self.home_dir / "secret.key"

    def file_policy(self, directories: Sequence[Path] = (), *, started_by_user: bool = False) -> FilePolicy:
        """Which files the tasks of a process may name. `directories` are those that its command was
        given, or started in: relative names start there, and they are roots where there are any."""
        as_user = self.files == "user" or (started_by_user and self.files != "roots")
        starts = tuple(dict.fromkeys(path.absolute() for path in directories))
        is_bound = bool(self.file_roots) or not as_user
        home = self.home_dir
        # Work in the home itself is beside what the engine has there.
        inside = as_user and any(start.is_relative_to(home) for start in starts)
        kept = tuple(home / name for name in _KEPT_IN_HOME) if inside else (home,)
        own = (*kept, self.secret_key_file, self.secrets_dir, self.vault_token_file)
        return FilePolicy(
            as_user=as_user,
            roots=(*self.file_roots, *starts) if is_bound else (),
            directories=starts,
            private=(PROC, *(path.absolute() for path in own if path is not None)),
        )

    @property
    def backend(self) -> str | None:
        """The Celery result backend: only Redis counts chords natively."""
        if self.result_backend:
            return self.result_backend
        return self.broker_url if urlsplit(self.broker_url).scheme.startswith("redis") else None

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The allow-listed variables, for templates."""
        return {name: environ[name] for name in self.env_allow if name in environ}

    def secret_variables(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The variables that the provider env may give, by name without the prefix; none without a
        prefix."""
        prefix = self.secrets_env_prefix
        if not prefix:
            return {}
        return {
            name.removeprefix(prefix): value for name, value in environ.items() if name.startswith(prefix)
        }

    def as_environ(self) -> dict[str, str]:
        """The variables that make another process read the same settings."""
        default = Settings()
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            PREFIX + name.upper(): ",".join(map(_write, value)) if isinstance(value, tuple) else str(value)
            for name, value in values.items()
            if value != getattr(default, name)
        }


def find_meant(name: str) -> str | None:
    """The setting that a variable which is none was likely meant for."""
    near = nearest(name.removeprefix(PREFIX), [one.name.upper() for one in fields(Settings)])
    return None if near is None else PREFIX + near


@cache
def _warn_of(unread: tuple[str, ...]) -> None:
    """Once in a process, however often that reads its settings."""
    for name in unread:
        near = find_meant(name)
        hint = f"did you mean {near}?" if near else "unset it, or see docs/operations.md for those there are."
        log.warning("Nothing reads %s: %s", name, hint)
