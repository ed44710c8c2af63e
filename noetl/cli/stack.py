"""The services of `noetl up`: what they are, how they are started, used and stopped."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from noetl import bootstrap
from noetl.cli.access import needs_token, prepare_token, token_of_stack
from noetl.cli.complaints import naming, warn_of_playbook
from noetl.cli.console import Assigned, directories_of, overrides_of
from noetl.cli.follow import RETRY_LOOK_S, follow, follow_attempts, progress_for
from noetl.cli.process import handle_signals
from noetl.cli.remote import POLL_S, TRIES, RemoteExecution
from noetl.cli.services import PREFORK_QUEUES, all_queues, queues_of, server_argv, worker_argv
from noetl.cli.stack_settings import Broker, choose_broker
from noetl.cli.supervisor import Service, Supervisor
from noetl.cli.work_in_hand import WorkInHand
from noetl.client import Client
from noetl.config import FLOWER_HOST, Settings
from noetl.dispatch.naming import SCHEDULER_QUEUE
from noetl.dsl import compile_playbook, load_playbook
from noetl.errors import NoetlError, NotFound, PlaybookInvalid, Unavailable
from noetl.facts.json import JsonMap
from noetl.net.model import Input, Net
from noetl.store.installation import show_database
from noetl.store.library import FileLibrary
from noetl.store.migrate import upgrade
from noetl.store.running import RunningStack, write_note
from noetl.tools.kit.registry import kinds as installed_kinds
from noetl.usecases.catalog import calls

#: What the services import, by name: they are other programs, and this one only starts them.
SHARED = (
    "noetl.celery",
    "noetl.api.app",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
)

#: What stops the stack, and then, a second time, all waiting.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

#: How long the private broker may take to open its socket.
SOCKET_S = 30.0
#: How long the API may take to answer for the first time, however busy the machine is: a service
#: that dies instead is told earlier.
START_S = 120.0


@dataclass(slots=True)
class Stack:
    """The running services and how to reach them."""

    settings: Settings
    broker: Broker
    supervisor: Supervisor
    #: Whether others than this command may have work in it.
    serving: bool = False
    #: What is in the token file, where the database takes it.
    token: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.settings.host in ("0.0.0.0", "::") else self.settings.host  # noqa: S104
        return f"http://{host}:{self.settings.port}"

    def wait_until_ready(self) -> None:
        """Until the API answers. Raises Unavailable where it does not."""
        deadline = time.monotonic() + START_S
        with Client(self.url, tries=1) as client:
            while not _is_healthy(client):
                self.supervisor.tend()
                if time.monotonic() > deadline:
                    raise Unavailable(f"The API did not answer within {START_S:.0f} s; see {self.logs}.")
                time.sleep(0.05)

    @property
    def logs(self) -> Path:
        return self.settings.home_dir / "logs"

    def serve(self) -> None:
        """Looks after the services until a signal stops it."""
        self.serving = True
        received: list[int] = []
        handle_signals(lambda number, _: received.append(number), *STOP_SIGNALS)
        while not received:
            self.supervisor.tend()
            write_note(self.settings.home_dir, self.note())
            time.sleep(0.2)
        click.echo("Stopping.", err=True)

    def note(self) -> RunningStack:
        """What other programs need to find the stack."""
        starts_flower = any(service.name == "flower" for service in self.supervisor.services)
        has_flower = starts_flower or bool(self.settings.flower_url)
        return RunningStack(
            api=self.url,
            flower=f"{self.url}/flower/" if has_flower else None,
            database=show_database(self.settings.database, self.settings.database_schema),
            broker=self.broker.url,
            broker_about=self.broker.about,
            logs=str(self.logs),
            token=str(self.settings.token_file) if self.token else None,
            needs_token=needs_token(self.settings),
            pids={"up": os.getpid(), **self.supervisor.pids},
        )

    def run(
        self, file: Path, text: str, payload: JsonMap, assigned: Sequence[Assigned], *, quiet: bool
    ) -> JsonMap:
        """One playbook over REST, with progress."""
        if not quiet:
            click.echo(click.style(str(file), bold=True), err=True)
        with Client(self.url, token_of_stack(self.token, self.settings), tries=TRIES) as client:
            registered = client.register(text)
            if not quiet:
                warn_of_playbook(registered.warnings, str(file))
            register_called(client, file, text)
            directories = directories_of(file) if self.settings.files == "user" else ()
            overrides = overrides_of(assigned, _find_inputs(text))
            with naming(str(file)):
                started = client.start(
                    registered.path,
                    payload,
                    version=registered.version,
                    overrides=overrides,
                    directories=[str(one) for one in directories],
                )
            there = RemoteExecution(client, started.execution_id)
            return self._follow_attempts(there, quiet=quiet).report()

    def _follow_attempts(self, there: RemoteExecution, *, quiet: bool) -> RemoteExecution:
        tend = self.supervisor.tend

        def follow_one(one: RemoteExecution) -> None:
            with progress_for(sys.stderr, quiet=quiet) as progress:
                follow(one, progress, wait=True, wait_s=POLL_S, meanwhile=tend)

        return follow_attempts(there, follow_one, wait_s=RETRY_LOOK_S, quiet=quiet, meanwhile=tend)


def _find_inputs(text: str) -> tuple[Input, ...]:
    return compile_playbook(text, file="", kinds=installed_kinds()).inputs


def _is_healthy(client: Client) -> bool:
    try:
        return bool(client.health()["status"] != "down")
    except NoetlError:
        return False


def find_queues(files: Mapping[Path, str]) -> set[str]:
    """The queues that playbooks name, and those that they call as far as these are files."""
    found = set[str]()
    for file, text in files.items():
        library = FileLibrary(file.absolute().parent)

        def load(path: str, library: FileLibrary = library) -> Net | None:
            called = library.find(path)
            # One that cannot be run is reported when it is called.
            with contextlib.suppress(PlaybookInvalid):
                return _load(called.content, called.file) if called else None
            return None

        for net in _walk_calls(_load(text, str(file)), load):
            found |= queues_of(net)
    return found


def register_called(client: Client, file: Path, text: str) -> None:
    """What `text` calls, and what that calls: where the catalog does not know it, from the files
    below the directory of `file`. Raises PlaybookInvalid for such a file that cannot be run."""
    library = FileLibrary(file.absolute().parent)

    def load(path: str) -> Net | None:
        try:
            known = client.playbook(path)
        except NotFound:
            found = library.find(path)
            if found is None:
                return None
            net = _load(found.content, found.file)
            client.register(found.content)
            return net
        # Of another version of NoETL, perhaps: whether it can be run is seen when it is called.
        with contextlib.suppress(PlaybookInvalid):
            return load_playbook(known, file=path, kinds=installed_kinds(), lenient=True)
        return None

    # To load one is to register it.
    list(_walk_calls(_load(text, str(file)), load))


def _load(text: str, file: str) -> Net:
    return load_playbook(text, file=file, kinds=installed_kinds())


def _walk_calls(net: Net, load: Callable[[str], Net | None]) -> Iterator[Net]:
    """`net` and those that it calls, directly or not, as far as `load` finds them by their path."""
    todo, seen = [net], set[str]()
    while todo:
        net = todo.pop()
        yield net
        new = [path for path in calls(net) if path not in seen]
        seen.update(new)
        todo += filter(None, map(load, new))


@contextlib.contextmanager
def run_stack(
    settings: Settings, *, flower: bool, concurrency: int, queues: Collection[str] = ()
) -> Iterator[Stack]:
    """The whole stack, answering, for as long as the block runs; its workers serve `queues` besides
    those of the installed tools. Raises Unavailable, and ConfigError where Celery's settings
    contradict NoETL's."""
    broker = choose_broker(settings)
    _check_broker(broker, settings)
    # Who reaches Flower by itself, as any program of this machine does, is asked for it.
    flower_auth = settings.flower_auth or f"noetl:{secrets.token_urlsafe(24)}"
    settings = replace(
        settings, broker_url=broker.url, database_url=settings.database, flower_auth=flower_auth
    )
    bootstrap.check_celery(settings)
    upgrade(settings.database, settings.database_schema)
    token = prepare_token(settings)
    (settings.home_dir / "logs").mkdir(exist_ok=True)
    # As `noetl.celery` does it, which is shared by all services that are forked.
    environment = {**settings.as_environ(), "FLOWER_BASIC_AUTH": flower_auth}
    services = _services(settings, broker, flower, concurrency, queues)
    supervisor = Supervisor(services, environment, WorkInHand(settings).find)
    stack = Stack(settings, broker, supervisor, token=token)
    # The services are forked with it: Flower would log in another form.
    bootstrap.open_log(settings)
    try:
        supervisor.start(["redis"])
        supervisor.preload(SHARED)
        _wait_for_socket(broker)
        supervisor.start([service.name for service in supervisor.services if service.name != "redis"])
        stack.wait_until_ready()
        yield stack
    finally:
        # A second Ctrl-C is not made to wait, and still leaves nothing behind.
        handle_signals(supervisor.hurry, *STOP_SIGNALS)
        supervisor.stop(announce=stack.serving)
        if broker.folder is not None:
            shutil.rmtree(broker.folder, ignore_errors=True)


def _check_broker(broker: Broker, settings: Settings) -> None:
    """Raises Unavailable where a broker that others run does not answer: without it nothing would
    happen."""
    if broker.is_ours:
        return
    try:
        bootstrap.ping_broker(settings)
    except Unavailable as error:
        raise Unavailable(
            f"{error.message} It is the one of NOETL_BROKER_URL ({broker.url.rsplit('@', 1)[-1]}): start "
            "it, or unset "
            "NOETL_BROKER_URL, and `noetl up` brings its own."
        ) from error


def _wait_for_socket(broker: Broker) -> None:
    if not broker.argv:
        return
    path = Path(broker.url.removeprefix("redis+socket://"))
    deadline = time.monotonic() + SOCKET_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise Unavailable(f"The private Redis did not open {path}.")
        time.sleep(0.01)


def _services(
    settings: Settings, broker: Broker, flower: bool, concurrency: int, queues: Collection[str]
) -> list[Service]:
    served = sorted({*all_queues(), *queues})
    heavy = [queue for queue in served if queue in PREFORK_QUEUES]
    light = [queue for queue in served if queue not in PREFORK_QUEUES]
    logs = settings.home_dir / "logs"
    server = server_argv(settings.host, settings.port, settings.server_threads, settings.server_streams)

    def python(name: str, module: str, argv: list[str], queues: Sequence[str] = ()) -> Service:
        return Service(name, argv, logs / f"{name}.log", module, queues=queues)

    # A worker that finishes its task still has to say so.
    services = [Service("redis", broker.argv, logs / "redis.log", is_needed=True)] if broker.argv else []
    services += [
        python("scheduler", "celery", worker_argv(SCHEDULER_QUEUE, "solo", 1, "scheduler")),
        python("server", "gunicorn", server),
        python("worker-code", "celery", worker_argv(",".join(heavy), "prefork", concurrency, "code"), heavy),
        python("worker-io", "celery", worker_argv(",".join(light), "threads", 8, "io"), light),
        python("sweeper", "noetl", ["sweeper"]),
    ]
    if flower and not settings.flower_url:
        options = [
            f"--address={FLOWER_HOST}",
            f"--port={settings.flower_port}",
            "--url_prefix=flower",
            "--logging=warning",
        ]
        services.append(python("flower", "celery", ["-A", "noetl", "flower", *options]))
    return services
