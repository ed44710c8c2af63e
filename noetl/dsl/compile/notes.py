"""What compiling notes for the checks: every template, call and arc, and where each stands in the
document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noetl.dsl.problems import Path
from noetl.net.model import Demand, KindInfo, Task, Template

#: In the place of a step: a workbook task by itself, whose callers decide which names it sees.
WORKBOOK = ""
#: The keychain, whose templates see less than those of the workload. No step can be called so.
KEYCHAIN = "#keychain"


@dataclass(frozen=True, slots=True)
class Use:
    """A template and where it stands: in a step, the WORKBOOK, the KEYCHAIN, or (None) the
    workload."""

    path: Path
    template: Template
    step: str | None
    guard: bool = False


@dataclass(frozen=True, slots=True)
class Expecting:
    """A task that expects inputs. `given` are those that it says itself, and whether with a value
    or as null; `own` are those among them that the workbook does not know."""

    path: Path
    step: str
    expects: tuple[Demand, ...]
    given: Mapping[str, bool]
    own: frozenset[str]


@dataclass(frozen=True, slots=True)
class CompiledCall:
    """A task of a step (or of the WORKBOOK) that was compiled, in the pipeline at `pipeline`.
    `parts` are where its mappings stand, the outermost first; `paths` where each key of its
    configuration does; `rules` where its policy does, if it is the document's."""

    step: str
    pipeline: Path
    path: Path
    kind: KindInfo
    task: Task
    parts: tuple[Path, ...]
    paths: Mapping[str, Path]
    rules: Path | None = None
    #: Whether it claims the rows of a loop.
    claims: bool = False


@dataclass(slots=True)
class Notes:
    """All that compiling one document notes. `is_whole`: no step and no arc was left out because of
    an error, so that the net says what follows what."""

    uses: list[Use] = field(default_factory=list)
    calls: list[CompiledCall] = field(default_factory=list)
    expecting: list[Expecting] = field(default_factory=list)
    #: Where each arc stands, by its id.
    arcs: dict[str, Path] = field(default_factory=dict)
    is_whole: bool = True
