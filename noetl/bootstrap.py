"""The composition root: which adapter serves which port, in one place."""

from __future__ import annotations

import json
import logging
import random
import secrets
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from noetl.config import Settings
from noetl.dispatch.local import LocalDispatcher
from noetl.dispatch.silent import SilentDispatcher
from noetl.facts.json import Json
from noetl.results import open_results
from noetl.store import open_store
from noetl.store.library import Files
from noetl.store.migrate import upgrade
from noetl.tools.base import Services
from noetl.tools.registry import Registry
from noetl.tools.vault import Vault, load_or_create_key
from noetl.usecases.credentials import reveal
from noetl.usecases.ports import Dispatcher, Store
from noetl.usecases.runtime import Limits, Runtime


def now() -> datetime:
    """The clock of all processes: UTC."""
    return datetime.now(UTC)


LINE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One JSON object a line: `{at, level, logger, message, process}`, and `error` where there is a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False)


def open_log(settings: Settings) -> None:
    """Sends what a service logs to standard error, unless somebody already takes it elsewhere."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if settings.log_json else logging.Formatter(LINE))
    logging.basicConfig(level=settings.log_level, handlers=[handler])


def dispatcher_of(settings: Settings) -> Dispatcher:
    """Through the broker of the settings. Without one nothing leaves: what was asked for is in the tables, and a
    sweeper that shares the database takes it up."""
    if not settings.broker_url:
        return SilentDispatcher()
    from noetl.dispatch.celery import CeleryDispatcher, make_app  # Celery takes a second to import

    return CeleryDispatcher(make_app(settings.broker_url, settings.backend))


def limits(settings: Settings) -> Limits:
    return Limits(
        lease_s=settings.lease_s,
        heartbeat_s=settings.heartbeat_s,
        resend_s=settings.resend_s,
        max_deliveries=settings.max_deliveries,
        cancel_grace_s=settings.cancel_grace_s,
        inline_bytes=settings.inline_bytes,
        results_keep_s=settings.results_keep_s,
        max_in_flight=settings.loop_max_in_flight,
        max_items=settings.loop_max_items,
        report_wake=settings.report_wake,
    )


def vault(settings: Settings) -> Vault:
    """The keys that credentials are encrypted with: from the settings, else a file in the home."""
    return Vault(settings.secret_key or load_or_create_key(settings.key_file))


def runtime(
    settings: Settings,
    dispatcher: Dispatcher,
    *,
    store: Store | None = None,
    base_dir: Path | None = None,
) -> Runtime:
    """Ports wired for one process. Creates or upgrades an SQLite database; others must be up to date."""
    settings.make_home()
    opened = store or open_store(settings.database)
    scratch = settings.home_dir / "scratch"
    results = open_results(settings.results, scratch)

    def credential(name: str) -> Mapping[str, Json]:
        return reveal(opened, vault(settings).decrypt, name)

    services = Services(
        credential=credential,
        results=results,
        inline_bytes=settings.inline_bytes,
        allow_private_networks=settings.allow_private_networks,
        allowed_networks=settings.allowed_networks,
        scratch=scratch,
        base_dir=base_dir,
        memory_mb=settings.python_memory_mb,
        default_deadline_s=settings.task_timeout_s,
    )
    tools = Registry(services)
    return Runtime(
        store=opened,
        dispatcher=dispatcher,
        results=results,
        tools=tools,
        kinds=tools.kinds(),
        clock=now,
        entropy=lambda: secrets.randbits(22),
        random=random.random,
        limits=limits(settings),
        env=settings.environment(),
    )


@contextmanager
def local(
    settings: Settings, base_dir: Path | None = None, threads: int = 8, shard: str | None = None
) -> Iterator[Runtime]:
    """An engine inside this process: threads instead of a broker, for as long as the block runs.

    Its executions are its own: no other process that shares the database takes their turns. `shard` goes
    on with the executions of another such process.
    """
    settings.make_home()
    upgrade(settings.database)
    store = open_store(settings.database, shard=shard or f"local-{uuid.uuid4().hex[:12]}")
    dispatcher = LocalDispatcher(threads)
    rt = runtime(settings, dispatcher, store=store, base_dir=base_dir)
    # Messages inside of a process are not lost, nothing needs to be sent twice; and whoever presses Ctrl-C
    # waits for the next heartbeat.
    rt = replace(
        rt,
        limits=replace(rt.limits, resend_s=86_400.0, heartbeat_s=0.5),
        library=None if base_dir is None else Files(base_dir),
    )
    dispatcher.start(rt)
    try:
        yield rt
    finally:
        dispatcher.stop()
        close(rt)


def close(rt: Runtime) -> None:
    """Ends the tools' children and the store's connections."""
    tools = rt.tools
    if isinstance(tools, Registry):
        tools.close()
    rt.store.close()
