"""Tests hold no clock, no short patience, no port of their choice; and the rules that see to it
find what they should, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.house import exceptions
from tests.house.clocks import ADVICE, Finding, find, findings
from tests.house.exceptions import Allowed, complaints

BAD = {
    "sleeps": [
        "import time; time.sleep(0.3)",
        "import time as t; t.sleep(nap)",
        "from time import sleep; sleep(59)",
        "from time import sleep as nap\ndef wait(): nap(0.1)",
        "import asyncio; asyncio.sleep(1)",
        "page.wait_for_timeout(700)",
    ],
    "clocks": [
        "import time; ends = time.monotonic() + 5",
        "from time import perf_counter as now; now()",
        "import time\ndef spent(): return time.process_time_ns()",
        "import time; time.time()",
    ],
    "timeouts": [
        "requests.get(url, timeout=5)",
        "process.wait(timeout=0.5)",
        "queue.get(timeout=5)",
        "requests.get(url, timeout=(3, 90))",
        "PATIENCE: float = 20.0\nsubprocess.run(words, timeout=PATIENCE)",
        "from playwright.sync_api import expect; expect(row).to_be_visible(timeout=20_000)",
        "import requests; from playwright.sync_api import expect; requests.get(url, timeout=30)",
    ],
    "waits": [
        "event.wait(5)",
        "thread.join(0.1)",
        "LONG = 20\nfuture.result(LONG)",
        "lock.acquire(3)",
        "connection.settimeout(2)",
        "context.set_default_timeout(20_000)",
        "import select; select.select([stream], [], [], 0.2)",
    ],
    "naps": [
        'CODE = "import time; time.sleep(0.3)"',
        'run(f"time.sleep(0.3); {code}")',
        'CODE = """\nfor n in range(3):\n    time.sleep(.1)\n"""',
        'ask("select pg_sleep(2)")',
        'shell("echo a; sleep 0.5")',
        'run(["sleep", "20"])',
        'run("sleep", "1")',
    ],
    "ports": [
        'listening.bind(("127.0.0.1", 8080))',
        'serve(host="127.0.0.1", port=8080)',
        'run(["noetl", "server", "--port", "8642"])',
        'run("noetl server --port=8642")',
    ],
    "looks": [
        'assert page.locator("tr").count() == 100',
        "shown = page.rows\nassert shown.count() == 0",
        'assert page.get_by_label("Reason").input_value() == "because"',
    ],
    "look_ups": [
        "import psutil; psutil.process_iter()",
        "from psutil import pids; pids()",
        'run(["pgrep", "-f", "noetl"])',
        'run("pkill -f noetl")',
        'run(["ps", "aux"])',
        'run("ps -ef | grep noetl")',
        'import os; os.listdir("/proc")',
        'Path("/proc").iterdir()',
        'Path("/proc").glob("[0-9]*")',
        'glob.glob("/proc/*/cmdline")',
    ],
}
GOOD = {
    "sleeps": [
        "import asyncio; asyncio.sleep(0)",
        "import time; time.sleep(600)",
        "clock.sleep(1)",
        "page.wait_for_timeout(60_000)",
    ],
    "clocks": ["import datetime; datetime.time()", "clock.monotonic()", "import time; run(clock=time.monotonic)"],
    "timeouts": [
        "from tests.waiting import GUARD_S; requests.get(url, timeout=GUARD_S)",
        "process.wait(timeout=60)",
        "queue.get(timeout=0)",
        "thread.join(timeout=None)",
        "from noetl.client import Client; Client(url, timeout=0.1)",
        "from playwright.sync_api import expect; expect(row).to_be_visible(timeout=60_000)",
        "import requests; from playwright.sync_api import expect; requests.get(url, timeout=60)",
    ],
    "waits": ["event.wait()", "ON = True\nlock.acquire(ON)", "thread.join(300)", 'wait(5); ", ".join(words)', "lock.acquire(False)", "limits.acquire(3, key)"],
    "naps": [
        '"""Not as `time.sleep(0.3)` would."""',
        'CODE = "import time; time.sleep(600)"',
        'shell("sleep 3600")',
        'shell("while [ ! -e go ]; do sleep 0.05; done")',
        'CODE = f"while not {go}.exists(): time.sleep(0.01)"',
        'ask("while new.n > gate loop perform pg_sleep(0.01); end loop;")',
        'CODE = f"time.sleep({nap})"',
        'run(["sleep", "600"])',
    ],
    "ports": [
        'listening.bind(("127.0.0.1", 0))',
        'listening.bind(("127.0.0.1", free_port()))',
        "serve(port=0)",
        "serve(port=free_port())",
        'run(["noetl", "server", "--port", "0"])',
        'run(["noetl", "server", "--port", str(port)])',
    ],
    "looks": [
        'assert text.count("a") == 2',
        'expect(page.locator("tr")).to_have_count(100)',
        "assert 100 < rows.count() < 200",
    ],
    "look_ups": ["import psutil; psutil.Process(pid)", 'Path("/proc/self").iterdir()', 'run(["ps", "-p", pid])', 'say("https ends")'],
}  # fmt: skip


def rules(content: str, file: str = "tests/test_it.py") -> list[str]:
    return [one.rule for one in findings(file, content)]


@pytest.mark.parametrize("rule", ADVICE)
def test_each_rule_finds_what_it_is_there_for(rule: str, subtests: pytest.Subtests) -> None:
    for line in BAD[rule]:
        with subtests.test(line):
            assert rules(line) == [rule]


@pytest.mark.parametrize("rule", ADVICE)
def test_each_rule_leaves_alone_what_holds_no_time_and_nothing_of_others(
    rule: str, subtests: pytest.Subtests
) -> None:
    for line in GOOD[rule]:
        with subtests.test(line):
            assert rules(line) == []


def test_a_finding_says_where_it_is_and_what_stands_there() -> None:
    code = 'CODE = """\nimport time\n\nfor n in range(3):\n    time.sleep(0.1)\n"""\n'
    assert list(findings("tests/test_it.py", code)) == [
        Finding("tests/test_it.py", 5, "naps", "time.sleep(0.1)")
    ]


def test_playbooks_in_files_are_looked_at_as_well() -> None:
    code = "workflow:\n- step: start\n  tool: {kind: shell, command: sleep 20}\n"
    assert [one.line for one in findings("tests/playbooks/it.yaml", code)] == [3]


NAP, LATER = (Finding("tests/test_it.py", line, "sleeps", "time.sleep(1)") for line in (7, 9))
LISTED = Allowed("tests/test_it.py", "sleeps", 1, "it is asked for")


def test_what_is_listed_with_a_reason_may_stay() -> None:
    assert list(complaints([NAP], [LISTED], 1)) == []


def test_what_is_not_listed_is_named_with_its_place_and_what_to_do_instead() -> None:
    (said,) = complaints([NAP], [], 0)
    assert said.startswith("tests/test_it.py:7: sleeps: `time.sleep(1)`: wait for what the program shows")


def test_more_than_are_listed_are_all_named() -> None:
    first, second, counted = complaints([NAP, LATER], [LISTED], 1)
    assert "py:7:" in first
    assert "py:9:" in second
    assert counted == "tests/test_it.py: sleeps: exceptions.toml allows 1 of these 2"


@pytest.mark.parametrize(
    ("found", "allowed", "ceiling", "said"),
    [
        ([NAP], replace(LISTED, count=2), 2, "exceptions.toml allows 2, and there are 1: lower the number to 1"),
        ([], LISTED, 1, "exceptions.toml allows 1, and there are 0: take the entry out"),
        ([NAP], replace(LISTED, reason=" "), 1, "an exception needs a reason"),
        ([NAP], LISTED, 0, "exceptions.toml lists 1 exceptions, and their number may not rise above 0"),
        ([NAP], LISTED, 2, "exceptions.toml lists 1 exceptions: lower its ceiling from 2 to 1"),
        ([], Allowed("tests/test_it.py", "naptime", 0, "none"), 0, "there is no such rule"),
    ],
)  # fmt: skip
def test_a_list_that_does_not_fit_is_refused(
    found: list[Finding], allowed: Allowed, ceiling: int, said: str
) -> None:
    (complaint,) = complaints(found, [allowed], ceiling)
    assert said in complaint


def test_an_exception_stands_once() -> None:
    said = list(complaints([NAP], [LISTED, LISTED], 2))
    assert said == ["tests/test_it.py: sleeps: stands 2 times in exceptions.toml"]


def test_who_writes_the_list_keeps_its_reasons_and_raises_no_ceiling() -> None:
    first = exceptions.write([NAP], None)
    assert exceptions.read(first) == (1, [replace(LISTED, reason=exceptions.PENDING)])
    given = first.replace(exceptions.PENDING, "it is “asked for”")
    ceiling, allowed = exceptions.read(exceptions.write([NAP, LATER], given))
    assert (ceiling, allowed) == (1, [replace(LISTED, count=2, reason="it is “asked for”")])


def test_tests_hold_no_clock_no_short_patience_no_port_and_no_process_of_others() -> None:
    ceiling, allowed = exceptions.read(exceptions.FILE.read_text(encoding="utf-8"))
    wrong = list(complaints(list(find()), allowed, ceiling))
    assert not wrong, "\n".join(wrong)
