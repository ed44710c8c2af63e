"""Who descends from whom, and who goes with whom: real processes."""

from __future__ import annotations

import os

from noetl.processes import die_with_parent


def test_a_process_whose_parent_was_gone_before_it_could_ask_ends_all_the_same() -> None:
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            _die_behind_the_end_of_its_parent(writing)
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(middle, 0)
    with open(reading, "rb") as said:
        assert said.read() == b""


def _die_behind_the_end_of_its_parent(writing: int) -> None:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            os.sched_yield()
        die_with_parent(parent)
        os.write(writing, b"it lives")
