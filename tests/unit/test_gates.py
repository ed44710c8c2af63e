"""Gates that tasks wait at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.gates import Gate
from tests.waiting import until


def test_who_comes_is_seen_and_waits_until_the_gate_opens(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    commands = ([sys.executable, "-c", gate.python("'one'")], ["sh", "-c", gate.shell("two")])
    waiting = [subprocess.Popen(command) for command in commands]
    until(lambda: gate.names() == {"one", "two"}, "both to come")
    assert [process.poll() for process in waiting] == [None, None]
    gate.open()
    assert [process.wait() for process in waiting] == [0, 0]
