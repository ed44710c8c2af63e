"""What a tool is: a class for each kind, found through the entry-point group `noetl.tools`.

A new kind is a file with a `Tool` and one line in `setup.cfg`. Modules of tools import no heavy
driver at their top: the compiler reads `info()` of every kind before it knows which are used.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome
from noetl.facts.secret import Seal, unsealed
from noetl.net.model import KindInfo, Spelling
from noetl.pipeline.model import Call, Suspension
from noetl.tools.kit.files import FilePolicy
from noetl.usecases.ports import Results
from noetl.usecases.secrets import Safe

Effects = Literal["none", "internal", "external"]


def no_credentials(name: str) -> Mapping[str, Json]:
    """The credential source of a process that has none."""
    raise ToolError("auth", f"Credential '{name}' does not exist: this process has no credential store.")


def no_directories(_execution_id: str) -> tuple[Path, ...]:
    """The directories of executions in a process that knows of none."""
    return ()


@dataclass(frozen=True)
class Services:
    """What tools may reach. Sizes are bytes, times seconds."""

    #: The data of a credential by name, for the call that the thread is in. Raises ToolError(kind="auth") that names
    #: the nearest one.
    credential: Callable[[str], Mapping[str, Json]] = no_credentials
    #: Opens references to secrets. None: this process opens none.
    safe: Safe | None = None
    #: Seals the references that a tool makes.
    seal: Seal = unsealed
    #: Where large results are kept; None: there is no such place, and whatever a tool yields is held in memory.
    results: Results | None = None
    #: Rows of an answer with more text than this go to `results`, where that is.
    inline_bytes: int = 64 * 1024
    #: Largest table that is kept there, as text.
    table_limit: int = 16 * 1024 * 1024 * 1024
    #: Whether tools may connect to loopback, link-local and private addresses.
    allow_private_networks: bool = False
    #: Networks that tools may connect to although private ones are not allowed.
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    #: Where user code runs unless its task asks for more. `process`: a child with limits. `sandbox`: the same inside
    #: bubblewrap.
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
    #: Where relative names of an execution's files start, as whoever started it said.
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
    #: Largest result, as JSON text.
    result_limit: int = 64 * 1024 * 1024

    def files_of(self, call: Call) -> FilePolicy:
        """The rule for files, for one call: relative names start where its execution was started."""
        if self.files.directories or not self.files.as_user:
            return self.files
        return replace(self.files, directories=self.directories(call.where.execution_id))


class ToolConfig(BaseModel):
    """Base of configurations: unknown keys are errors; every field carries a description.

    Validators look at nothing but the values: the compiler runs them too, with templates where values are not known.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


class Tool(ABC):
    """One instance serves all threads of a worker process.

    The docstring of a kind's class is its page (see `noetl.tools.kit.manual`): Markdown, for those who use it.
    """

    kind: ClassVar[str]
    queue: ClassVar[str]
    #: What a call may change outside: decides how often a loop's iterations are committed.
    effects: ClassVar[Effects] = "external"
    #: Error kind of results that are no JSON (see `noetl.facts.outcome.ErrorKind`).
    error_kind: ClassVar[str] = "internal"
    #: One sentence, for lists.
    description: ClassVar[str]
    #: What a call yields, which errors it ends with, and a list of steps that runs as it stands: Markdown, YAML.
    result: ClassVar[str] = ""
    errors: ClassVar[str] = ""
    example: ClassVar[str] = ""
    config_model: ClassVar[type[ToolConfig]]
    #: What the compiler checks besides: names and needs that only the call itself would find at fault. Of its keys those
    #: that `config_model` has nothing to say of are told.
    written_model: ClassVar[type[BaseModel] | None] = None
    #: Groups of keys of which one must be there (see `KindInfo`; so for the fields below).
    required: ClassVar[tuple[tuple[str, ...], ...]] = ()
    verbatim: ClassVar[tuple[str, ...]] = ()
    verbatim_with_params: ClassVar[tuple[str, ...]] = ()
    quoted: ClassVar[tuple[str, ...]] = ()
    python_keys: ClassVar[tuple[str, ...]] = ()
    source_files: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[JsonMap] = {}
    #: Whether references to secrets stay closed: the tool only hands them on.
    hands_on: ClassVar[bool] = False
    #: Whether `run` may yield a Suspension.
    suspends: ClassVar[bool] = False
    #: Called once more with `Call.abandoned`, it ends what earlier calls of the task began elsewhere.
    abandons: ClassVar[bool] = False
    #: Keys of the configuration (`*`: the args) in which references to results come unopened.
    by_reference: ClassVar[tuple[str, ...]] = ()
    #: What outcomes of its calls have besides what all have (see `Outcome`), such as `pg`; None where that is not told.
    sections: ClassVar[tuple[str, ...] | None] = None
    #: Where its configuration names credentials: dotted, `*` for any key.
    credentials: ClassVar[tuple[str, ...]] = ("auth",)
    #: Other ways to write its keys; `credential`, `timeout` and `timeout_seconds` are known of every kind.
    spellings: ClassVar[Mapping[str, Spelling]] = {}

    def __init__(self, services: Services) -> None:
        self.services = services

    # `config` is an instance of `config_model`; `Any` lets each tool name its own class.
    @abstractmethod
    def run(self, call: Call, config: Any) -> Outcome | Suspension:
        """Runs one attempt. Raises ToolError where the call failed."""

    def deadline(self, call: Call) -> float:
        """Seconds that this call may take."""
        return self.services.default_deadline_s if call.deadline_s is None else call.deadline_s

    def interrupt(self, call: Call) -> None:  # noqa: B027 - what is quick need not be stopped
        """Ends `call`, the very object, if it runs: its `run` then raises ToolError of kind `cancelled`."""

    def close(self) -> None:  # noqa: B027 - most tools hold nothing
        """Gives back what the instance holds. Called once, when no call runs."""

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:  # noqa: ARG003 - for those that override it
        """What a call reaches outside of NoETL, in a few words each: an address, a command, a file. For `noetl plan`.

        Nothing is checked yet: in `config` any key may be missing or of another type, and templates are left wherever
        a value is known only then. Never tells a password, and raises nothing.
        """
        return ()

    @classmethod
    def parse(cls, text: str, with_params: bool) -> tuple[int, str] | None:  # noqa: ARG003 - see `touches`
        """Where and why `text` is no SQL that the kind could run, as its parser says; None where it is, or nobody knows.

        `with_params`: `:name` in it is bound.
        """
        return None

    @classmethod
    def info(cls) -> KindInfo:
        """What the compiler needs to know of this kind."""
        return KindInfo(
            kind=cls.kind,
            queue=cls.queue,
            effects=cls.effects,
            description=cls.description,
            schema=cls.config_model.model_json_schema(),
            required=cls.required,
            verbatim=cls.verbatim,
            verbatim_with_params=cls.verbatim_with_params,
            quoted=cls.quoted,
            python_keys=cls.python_keys,
            source_files=cls.source_files,
            defaults=cls.defaults,
            suspends=cls.suspends,
            abandons=cls.abandons,
            by_reference=cls.by_reference,
            sections=cls.sections,
            credentials=cls.credentials,
            spellings=cls.spellings,
            parse=cls.parse,
        )
