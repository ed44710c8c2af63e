"""What the tests of one process share: the real tools, and where they find files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from noetl.config import Settings
from noetl.net.model import KindInfo
from noetl.results import open_results
from noetl.tools.kit.base import Services
from noetl.tools.kit.registry import Registry
from noetl.usecases.ports import Results


@dataclass(slots=True)
class TrialStage:
    """`directories` are those of the playbook that is tested now: relative names start there."""

    tools: Registry
    results: Results
    directories: tuple[Path, ...] = ()

    @property
    def kinds(self) -> Mapping[str, KindInfo]:
        """The installed kinds."""
        return self.tools.kinds()


@contextmanager
def open_stage(settings: Settings | None = None) -> Iterator[TrialStage]:
    """Tools as `noetl run` has them, for as long as the block runs; they open no secrets."""
    settings = settings or Settings.from_env()
    results = open_results(f"memory://{uuid4().hex}")
    services = Services(
        results=results,
        inline_bytes=settings.inline_bytes,
        allow_private_networks=settings.allow_private_networks,
        allowed_networks=settings.allowed_networks,
        files=settings.file_policy(started_by_user=True),
        directories=lambda _: stage.directories,
        python_isolation=settings.python_isolation,
        python_inline=settings.python_inline,
        python_env=settings.python_env_allow,
        private=(settings.home_dir,),
        memory_mb=settings.python_memory_mb,
        default_deadline_s=settings.task_timeout_s,
    )
    stage = TrialStage(Registry(services), results)
    try:
        yield stage
    finally:
        stage.tools.close()
