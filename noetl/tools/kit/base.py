"""What a tool is: a class for each kind, found through the entry-point group `noetl.tools`.

A new kind is a file with a `Tool` and one line in `setup.cfg`. Modules of tools import no heavy
driver at their top: the compiler reads `info()` of every kind before it knows which are used.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, ClassVar, Literal

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome
from noetl.facts.secret import Seal, omit_seal
from noetl.net.model import Effects, KindInfo
from noetl.pipeline.model import Call, Suspension
from noetl.tools.kit.declaration import ToolDeclaration, declaration_of, faults
from noetl.tools.kit.files import FilePolicy
from noetl.usecases.ports import Results
from noetl.usecases.safe import Safe


def no_credentials(name: str) -> Mapping[str, Json]:
    """The credential source of a process that has none. Raises ToolError for every name."""
    raise ToolError("auth", f"Credential '{name}' does not exist: this process has no credential store.")


def no_directories(_execution_id: str) -> tuple[Path, ...]:
    """The directories of executions in a process that knows of none."""
    return ()


@dataclass(frozen=True)
class Services:
    """What tools may reach. Sizes are bytes, times seconds."""

    #: The data of a credential by name, for the call that the thread is in. Raises
    #: ToolError(kind="auth") that names the nearest one.
    credential: Callable[[str], Mapping[str, Json]] = no_credentials
    #: Opens references to secrets. None: this process opens none.
    safe: Safe | None = None
    #: Seals the references that a tool makes.
    seal: Seal = omit_seal
    #: Where large results are kept; None: there is no such place, and whatever a tool yields is
    #: held in memory.
    results: Results | None = None
    #: Rows of an answer with more text than this go to `results`, where that is.
    inline_bytes: int = 64 * 1024
    #: Largest table that is kept there, as text.
    table_limit: int = 16 * 1024 * 1024 * 1024
    #: Whether tools may connect to loopback, link-local and private addresses.
    allow_private_networks: bool = False
    #: Networks that tools may connect to although private ones are not allowed.
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    #: Where user code runs unless its task asks for more. `process`: a child with limits.
    #: `sandbox`: the same inside bubblewrap.
    python_isolation: Literal["process", "sandbox"] = "process"
    #: Whether tasks may run python code in the worker's own process.
    python_inline: bool = False
    #: Variables of the worker's environment that user code sees beside the usual ones.
    python_env: tuple[str, ...] = ()
    #: Directories that a sandbox never shows.
    private: tuple[Path, ...] = ()
    #: Where temporary files go.
    scratch: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    #: Which files tools may name.
    files: FilePolicy = field(default_factory=FilePolicy)
    #: Where relative names of an execution's files start, as it was started.
    directories: Callable[[str], tuple[Path, ...]] = no_directories
    #: Where artifacts are kept, as an fsspec URL; empty: there is no such place.
    artifacts_url: str = ""
    #: Address space of a child that runs user code.
    memory_mb: int = 2048
    #: Largest file that user code may write.
    file_mb: int = 512
    #: How much of stdout and of stderr is kept.
    output_limit: int = 64 * 1024
    #: Deadline of calls whose `spec.timeout` says nothing.
    default_deadline_s: float = 3600.0
    #: The clock by which instants are written that other processes read.
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    #: How long a command that was cancelled may take to end by itself.
    stop_grace_s: float = 5.0
    #: Largest result, as JSON text.
    result_limit: int = 64 * 1024 * 1024

    @property
    def base_dir(self) -> Path | None:
        """The first directory that relative names start from. Packages of 46fb24c read it;
        `files_of` knows the one of each call."""
        return self.files.start

    @property
    def file_roots(self) -> tuple[Path, ...]:
        """Directories that files must lie below. Packages of 46fb24c read it, as they do
        `base_dir`."""
        return self.files.roots

    def files_of(self, call: Call) -> FilePolicy:
        """The rule for files, for one call: relative names start where its execution was
        started."""
        return self.files_in(call.where.execution_id)

    def files_in(self, execution_id: str) -> FilePolicy:
        """The rule for files, for the calls of one execution."""
        if self.files.directories or not self.files.as_user:
            return self.files
        return replace(self.files, directories=self.directories(execution_id))


class Tool(ABC):
    """One instance serves all threads of a worker process.

    The docstring of a kind's class is its page (see `noetl.tools.kit.manual`): Markdown, for those
    who use it."""

    #: What the kind is; of a class without one, what its class variables say (see
    #: `declaration_of`).
    declaration: ClassVar[ToolDeclaration]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "declaration" not in vars(cls) and (declared := declaration_of(cls)) is not None:
            cls.declaration = declared

    def __init__(self, services: Services) -> None:
        self.services = services

    # `config` is an instance of the declaration's `config_model`; `Any` lets each tool name its own
    # class.
    @abstractmethod
    def run(self, call: Call, config: Any) -> Outcome | Suspension:
        """Runs one attempt. Raises ToolError where the call failed."""

    def deadline(self, call: Call) -> float:
        """Seconds that this call may take."""
        return self.services.default_deadline_s if call.deadline_s is None else call.deadline_s

    def interrupt(self, call: Call) -> None:  # noqa: B027 - what is quick need not be stopped
        """Ends `call`, the very object, if it runs: its `run` then raises ToolError of kind
        `cancelled`."""

    def close(self) -> None:  # noqa: B027 - most tools hold nothing
        """Gives back what the instance holds. Called once, when no call runs."""

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:  # noqa: ARG003 - for those that override it
        """What a call reaches outside of NoETL, in a few words each: an address, a command, a file.
        For `noetl plan`.

        Nothing is checked yet: in `config` any key may be missing or of another type, and templates
        are left wherever a value is known only then. Never tells a password, and raises nothing."""
        return ()

    @classmethod
    def parse(cls, text: str, with_params: bool) -> tuple[int, str] | None:  # noqa: ARG003 - see `touches`
        """Where and why `text` is not SQL that the kind could run, as its parser says; None where
        it is, or where that is unknown.

        `with_params`: `:name` in it is bound.
        """
        return None

    @classmethod
    def effects_of(cls, config: Mapping[str, Json]) -> Effects | None:  # noqa: ARG003 - see `touches`
        """What a call changes, where `config` tells: nothing, nothing when it is made once more, or
        something outside of NoETL. None where only the declaration knows.

        Nothing is checked yet, as in `touches`: what a template will say is not known. Raises
        nothing."""
        return None

    @classmethod
    def info(cls) -> KindInfo:
        """What the compiler needs to know of this kind."""
        declared = cls.declaration
        return replace(
            declared,
            schema=declared.config_model.model_json_schema(),
            faults=partial(faults, declared),
            parse=cls.parse,
            effects_of=cls.effects_of,
        )
