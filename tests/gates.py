"""Gates that tasks of playbooks come to and wait at, so that a test decides what happens meanwhile.

    gate = Gate(tmp_path / "gate")
    run(f"... tool: {{kind: python, code: {json.dumps(gate.python())}}}")
    until(lambda: gate.arrived() == 2, "two tasks at the gate")
    gate.open()

A gate is a folder: it works across processes, and who was killed at it has still arrived.
"""

from __future__ import annotations

from pathlib import Path

#: What stands between two looks of whoever waits, in a task's own process.
_PAUSE_S = 0.01


class Gate:
    """Closed until it is opened; whoever came leaves a file named after its process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def python(self, name: str = "") -> str:
        """Lines of Python that wait at this gate; `name` is an expression for who comes."""
        who = name or "os.getpid()"
        return (
            "import os, pathlib, time\n"
            f"_gate = pathlib.Path({str(self._folder)!r})\n"
            f"(_gate / ('came-' + str({who}))).touch()\n"
            f"while not (_gate / 'open').exists(): time.sleep({_PAUSE_S})\n"
        )

    def shell(self, name: str = "$$") -> str:
        """The same as a command of a shell."""
        return (
            f"touch '{self._folder}/came-'{name}; "
            f"while [ ! -e '{self._folder}/open' ]; do sleep {_PAUSE_S}; done"
        )

    def arrived(self) -> int:
        """How many have come so far."""
        return len(self.names())

    def names(self) -> set[str]:
        """Who has come so far: process identifiers, or what `name` says."""
        return {path.name.removeprefix("came-") for path in self._folder.glob("came-*")}

    def open(self) -> None:
        """Lets pass whoever waits, and whoever comes."""
        (self._folder / "open").touch()
