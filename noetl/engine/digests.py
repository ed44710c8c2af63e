"""What a run depends on, in short texts that are compared with those of another execution: what its
tasks do, and what they read.

Names that differ between executions though nothing has changed (`execution_id`, the attempt) are
no part of it; nor are those that a pipeline gives itself, which follow from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from noetl.expressions import value_at
from noetl.facts import json
from noetl.facts.fingerprint import digest, fingerprint
from noetl.facts.json import Json, JsonMap
from noetl.net.callbacks import tasks_with_address
from noetl.net.codec import meaning
from noetl.net.model import Net, Task, Transition

#: `ctx.rows.id`, name by name.
Path: TypeAlias = tuple[str, ...]

#: Names that say nothing of what a run depends on.
_OWN: Final = frozenset(
    {"execution_id", "job", "_attempt", "_task", "_prev", "_worker", "_run", "step", "event", "now"}
    | {"outcome", "output", "result", "response", "error", "loop_index"}
)
#: Names under which all inputs are read at once; which of them count is another question.
_INPUTS: Final = frozenset({"args", "input"})
#: What the fingerprints of files are called.
_OF_FILES: Final = "file "
#: Keys of `spec` that say how long or where a task runs, and not what comes of it.
_OF_NO_RESULT: Final = frozenset({"timeout", "queue"})


@dataclass(frozen=True, slots=True)
class TaskReads:
    """What a task reads: the chains of its templates; of its inputs those called `inputs` (None:
    all); `everything` where its code names `context`; the text of `file`, where that is its
    code."""

    chains: tuple[Path, ...]
    inputs: tuple[str, ...] | None
    everything: bool
    file: str = ""

    @property
    def index(self) -> bool:
        """Whether it reads which iteration of a loop it runs in."""
        return any(chain[0] == "loop_index" or chain in _INDEX for chain in self.chains)


_INDEX: Final = (("iter",), ("iter", "index"))


def code_of(task: Task) -> str:
    """Digest of what a task does, wherever it stands in its file."""
    said = meaning(task)
    # What the task is known to change, and whether another's result will do; it does the same.
    del said["effects"], said["cache"]
    said["spec"] = {key: value for key, value in said["spec"].items() if key not in _OF_NO_RESULT}
    return digest(json.dumps(said, sort_keys=True, default=str))


def read_names(
    net: Net, step: Transition, reads: TaskReads, args: JsonMap, names: Mapping[str, Any]
) -> Iterator[tuple[str, Json]]:
    """What a task of `step` reads from outside of its pipeline, by dotted name; `args` are those of
    the run, `names` what its templates see when it is scheduled. The item of its loop is no part of
    it."""
    # Code mentions names of its own as well: what was not given is not read.
    for name in args if reads.inputs is None else (one for one in reads.inputs if one in args):
        yield f"args.{name}", args[name]
    for chain in (*reads.chains, *(_whole(net) if reads.everything else ())):
        match chain:
            case ("iter", "parent", *rest) if step.loop is not None:
                yield ".".join(chain), value_at(("iter", *rest), names)
            case (head, *_) if head in _OWN or (head in _INPUTS and len(chain) == 1):
                pass
            case (head, *_) if step.loop is not None and head in ("iter", step.loop.iterator):
                pass
            case ("callback", *_) if tasks_with_address(step):
                pass
            case ("keychain", *rest):
                yield ".".join(chain[:2]), _entry(net, rest)
            case _:
                yield ".".join(chain), value_at(chain, names)


def _whole(net: Net) -> Iterator[Path]:
    yield from (("workload",), ("ctx",))
    yield from ((step.name,) for step in net.transitions)


def _entry(net: Net, rest: list[str]) -> Json:
    """What the playbook says of an entry of the keychain: secrets are compared by their names."""
    return next((entry for entry in net.keychain if rest and entry.get("name") == rest[0]), None)


def read_fingerprints(
    net: Net,
    step: Transition,
    tasks: Mapping[str, TaskReads],
    args: JsonMap,
    names: Mapping[str, Any],
    own_id: str,
    file_digest: Callable[[str], str | None],
) -> dict[str, str]:
    """The fingerprints of all that the `tasks` of `step` read, by dotted name, and of their
    files."""
    found: dict[str, str] = {}
    for reads in tasks.values():
        if reads.file:
            found[_OF_FILES + reads.file] = f"#{file_digest(reads.file)}"
        for place, value in read_names(net, step, reads, args, names):
            if place not in found:
                found[place] = fingerprint(value, own_id)
    return found


def names_read(net: Net, step: Transition, reads: TaskReads, recorded: JsonMap) -> Iterator[str]:
    """Which of the names in `recorded` a task of `step` reads."""
    args = {name.removeprefix("args."): None for name in recorded if name.startswith("args.")}
    if reads.file:
        yield _OF_FILES + reads.file
    yield from (place for place, _ in read_names(net, step, reads, args, {}))
