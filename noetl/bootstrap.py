"""The composition root: which adapter serves which port, in one place."""

from __future__ import annotations

import logging
import random
import secrets
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from noetl.config import Settings
from noetl.dispatch.deployer import celery_settings
from noetl.dispatch.json_lines import JsonLines
from noetl.dispatch.local import LocalDispatcher
from noetl.dispatch.log_lines import LogLines
from noetl.dispatch.null import NullDispatcher
from noetl.errors import Conflict, Unavailable
from noetl.facts.json import JsonMap
from noetl.results import open_results
from noetl.store import exists, open_store
from noetl.store.file_lock import LockState, hold_lock, is_held
from noetl.store.library import FileLibrary
from noetl.store.migrate import upgrade
from noetl.tools.code.quoting import CommandLine
from noetl.tools.kit import call_secrets
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.kit.registry import Registry
from noetl.tools.kit.scripts import digest_of_file
from noetl.tools.secrets.sources import Providers, SourceSettings, TokenSource
from noetl.tools.secrets.vault import KeySource
from noetl.usecases.directories import Directories
from noetl.usecases.health import Reachable
from noetl.usecases.log_writer import LogWriter
from noetl.usecases.ports import Dispatcher, Results, Store, Transaction
from noetl.usecases.runtime import Runtime, RuntimeLimits
from noetl.usecases.safe import Safe
from noetl.usecases.secrets import Sources
from noetl.usecases.sweep import LATEST, end_leases


def now() -> datetime:
    """This machine's own clock: UTC. What others compare is written by that of their store."""
    return datetime.now(UTC)


def open_log(settings: Settings, level: str | int | None = None, *, is_brief: bool = False) -> None:
    """Sends what a service logs to standard error, unless a handler takes it elsewhere already.
    `level` wins over that of the settings; lines that are `is_brief` have no tracebacks."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if settings.log_json else LogLines(is_brief=is_brief))
    logging.basicConfig(level=settings.log_level if level is None else level, handlers=[handler])
    # Otherwise Python writes warnings of libraries between the lines, each over several.
    logging.captureWarnings(settings.log_json)


def dispatcher_of(settings: Settings) -> Dispatcher:
    """Through the broker of the settings. Without one nothing leaves: what was asked for is in the
    tables, and a sweeper that shares the database takes it up."""
    if not settings.broker_url:
        return NullDispatcher()
    from noetl.dispatch.celery import CeleryDispatcher, make_app  # Celery takes a second to import

    return CeleryDispatcher(make_app(settings.broker_url, settings.backend, settings.task_timeout_s))


def ping_broker(settings: Settings) -> None:
    """Raises Unavailable where the broker of the settings does not answer, ConfigError where they
    contradict Celery's."""
    dispatcher = dispatcher_of(settings)
    if isinstance(dispatcher, Reachable):
        dispatcher.ping()


def check_celery(settings: Settings) -> None:
    """Raises ConfigError where a deployer's `celeryconfig.py` contradicts what NoETL promises.
    Celery is not imported where there is no such file."""
    celery_settings(settings.broker_url, settings.backend, settings.task_timeout_s)


def keys(settings: Settings) -> KeySource:
    """The keys that credentials are encrypted with: from the settings, a command, or a file. The
    one in the home is made where it is missing; another one that is missing was not mounted."""
    return KeySource(
        given=settings.secret_key,
        command=settings.secret_key_command,
        file=settings.key_file,
        make=settings.secret_key_file is None,
    )


def providers(settings: Settings) -> Providers:
    """Where secrets are kept besides the store."""
    return Providers(
        SourceSettings(
            variables=settings.secret_variables(),
            prefix=settings.secrets_env_prefix,
            directory=settings.secrets_dir,
            vault_addr=settings.vault_addr,
            vault_token=settings.vault_token,
            vault_token_file=settings.vault_token_file,
            vault_ca=settings.vault_ca,
        )
    )


def open_database(settings: Settings, shard: str = "") -> Store:
    """The settings' database, for the executions of `shard`; see `open_store`."""
    # A process of a shard of its own hears of each change itself.
    watch_s = 0.0 if shard else settings.watch_s
    return open_store(settings.database, shard, watch_s, settings.database_schema)


@contextmanager
def read_database(settings: Settings) -> Iterator[Transaction | None]:
    """A transaction that reads the settings' database as it is. None: there is none yet, and none
    is made. Raises what the database raises."""
    if not exists(settings.database):
        yield None
        return
    store = open_database(settings)
    try:
        with store.read() as tx:
            yield tx
    finally:
        store.close()


def runtime(
    settings: Settings,
    dispatcher: Dispatcher,
    *,
    store: Store | None = None,
    files: FilePolicy | None = None,
) -> Runtime:
    """Ports wired for one process. Creates or upgrades an SQLite database; others must be up to
    date. `files` is the rule of a process that the user started for their files."""
    settings.make_home()
    store = store or open_database(settings)
    results = open_results(settings.results, settings.home_dir / "scratch")
    key_source = keys(settings)
    tokens = TokenSource(allow_private=settings.allow_private_networks, networks=settings.allowed_networks)
    safe = Safe(store, key_source.vault, Sources(providers(settings), tokens), server_url=settings.outer_url)

    def seal(reference: JsonMap) -> JsonMap:
        return key_source.vault().seal(reference)

    call_secrets.mask_log()
    services = _services(settings, store, safe, results, files, seal)
    tools = Registry(services)
    return Runtime(
        store=store,
        dispatcher=dispatcher,
        results=results,
        tools=tools,
        kinds=tools.kinds(),
        clock=store.clock,
        machine_clock=now,
        entropy=lambda: secrets.randbits(22),
        random=random.random,
        limits=_limits(settings),
        env=settings.environment(),
        seal=seal,
        read_token=lambda token: key_source.vault().read_token(token),
        encrypt=lambda data: key_source.vault().encrypt(data),
        logs=LogWriter(store, results, store.clock),
        file_digest=lambda execution_id, name: digest_of_file(services.files_in(execution_id), name),
        quoting=CommandLine,
    )


def _services(
    settings: Settings,
    store: Store,
    safe: Safe,
    results: Results,
    files: FilePolicy | None,
    seal: Callable[[JsonMap], JsonMap],
) -> Services:
    """What tools are given of the process."""
    return Services(
        credential=partial(call_secrets.credential, safe),
        safe=safe,
        seal=seal,
        results=results,
        inline_bytes=settings.inline_bytes,
        allow_private_networks=settings.allow_private_networks,
        allowed_networks=settings.allowed_networks,
        scratch=settings.home_dir / "scratch",
        files=files or settings.file_policy(),
        directories=Directories(store).of,
        artifacts_url=settings.artifacts,
        python_isolation=settings.python_isolation,
        python_inline=settings.python_inline,
        python_env=settings.python_env_allow,
        private=(settings.home_dir,),
        memory_mb=settings.python_memory_mb,
        default_deadline_s=settings.task_timeout_s,
        clock=store.clock,
        stop_grace_s=min(Services.stop_grace_s, settings.cancel_grace_s),
    )


def _limits(settings: Settings) -> RuntimeLimits:
    return RuntimeLimits(
        lease_s=settings.lease_s,
        heartbeat_s=settings.heartbeat_s,
        resend_s=settings.resend_s,
        max_deliveries=settings.max_deliveries,
        cancel_grace_s=settings.cancel_grace_s,
        inline_bytes=settings.inline_bytes,
        results_keep_s=settings.results_keep_s,
        max_in_flight=settings.loop_max_in_flight,
        max_items=settings.loop_max_items,
        queue_limits=dict(settings.queue_limits),
        report_wake=settings.report_wake,
    )


@contextmanager
def local(
    settings: Settings, base_dir: Path | None = None, threads: int = 8, shard: str | None = None
) -> Iterator[Runtime]:
    """An engine inside this process: threads instead of a broker, for as long as the block runs.

    Its executions are its own: no other process that shares the database takes their turns. `shard`
    goes on with the executions of another such process: raises Conflict where that one lives.
    `base_dir` is the playbook's directory.
    """
    settings.make_home()
    upgrade(settings.database, settings.database_schema)
    shard = shard or f"local-{uuid.uuid4().hex[:12]}"
    with hold_lock(_lock_of(settings, shard)) as lock:
        if lock.found is LockState.BUSY:
            raise Conflict(
                "The process that these executions run in is at work, or another one resumed them already."
            )
        dispatcher = LocalDispatcher(threads)
        rt = _local_runtime(settings, base_dir, dispatcher, shard)
        try:
            if lock.found is LockState.LEFT:
                # Its process is gone: what that held is free now, and not when its leases run out.
                end_leases(rt)
            dispatcher.start(rt)
            try:
                yield rt
            finally:
                dispatcher.stop()
                lock.leave = _holds_commands(rt)
        finally:
            close(rt)


def is_at_work(settings: Settings, shard: str) -> bool:
    """Whether a process of this machine runs the executions of that shard, as `local` does."""
    return is_held(_lock_of(settings, shard))


def _lock_of(settings: Settings, shard: str) -> Path:
    return settings.home_dir / "locks" / shard


def _local_runtime(settings: Settings, base_dir: Path | None, dispatcher: Dispatcher, shard: str) -> Runtime:
    store = open_database(settings, shard)
    files = settings.file_policy(() if base_dir is None else (base_dir, Path.cwd()), started_by_user=True)
    rt = runtime(settings, dispatcher, store=store, files=files)
    # Messages inside of a process are not lost, nothing needs to be sent twice; and Ctrl-C takes
    # effect at the next heartbeat.
    return replace(
        rt,
        limits=replace(rt.limits, resend_s=86_400.0, heartbeat_s=0.5),
        library=None if base_dir is None else FileLibrary(base_dir),
    )


def _holds_commands(rt: Runtime) -> bool:
    """Whether work was left half done, as by a second Ctrl-C: the next process is not to wait for
    it."""
    try:
        with rt.store.read() as tx:
            return bool(tx.commands.expired(LATEST, 1))
    except Unavailable:
        return True


def close(rt: Runtime) -> None:
    """Ends the tools' children and the store's connections."""
    if isinstance(rt.tools, Registry):
        rt.tools.close()
    if rt.logs is not None:
        rt.logs.close()
    rt.store.close()
