"""What tests must not hold: a clock, a short patience, a port that is not theirs, processes of
others, one look at a page. A busy machine, or a neighbour, would fail them.

Each rule is a function that yields the lines on which it finds something. What it cannot see (a
patience that another module names, a nap that is computed) it leaves to the reader. What may stay
all the same is listed in `exceptions.toml` (see `exceptions.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.house.sources import Source, read

TESTS: Final = Path(__file__).parents[1]
#: It has the one clock of the tests; and this folder speaks of what it looks for.
LEFT_OUT: Final = ("tests/waiting.py", "tests/house/")

#: Seconds: a nap of as many stands for "for ever", a patience of as many is a guard.
FLOOR: Final = 60
#: Playwright counts milliseconds.
FLOOR_MS: Final = 1000 * FLOOR

SLEEPS: Final = {"time.sleep", "asyncio.sleep", "anyio.sleep", "trio.sleep"}
CLOCKS: Final = {
    f"time.{name}{unit}"
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
    for unit in ("", "_ns")
}
PROCESSES: Final = {"psutil.process_iter", "psutil.pids"}
LISTINGS: Final = {"os.listdir", "os.scandir"}
#: Methods whose only argument by position is a patience.
WAITS: Final = {"wait", "join", "result", "communicate", "acquire", "settimeout"}
#: What Playwright's locators say of this moment.
LOOKS: Final = {"count", "input_value", "inner_text", "text_content"}
WAITS_MS: Final = {"set_default_timeout", "set_default_navigation_timeout"}

_NAP: Final = re.compile(r"(?:\b|pg_)sleep[ (]\s*(\d[\d_]*\.?\d*|\.\d+)")
#: What stands before a nap that is a pause between two looks at a condition.
_LOOKING: Final = re.compile(r"\b(?:while|until)\b.*(?::|; do| loop perform) (?:\w+\.)?$")
_PORT: Final = re.compile(r"--port[= ]0*[1-9]\d*")
_LOOK_UP: Final = re.compile(
    r"\b(?:pgrep|pkill|killall)\b|\bps (?:-?a?ux?\w*|-e\w*|-A)\b|/proc/(?:\*|\[0-9\])"
)


class Finding(NamedTuple):
    file: str
    line: int
    rule: str
    text: str


def sleeps(source: Source) -> Iterator[int]:
    """Naps of the test itself, but those that hand on (0) or stand for ever."""
    for call in source.calls:
        name = source.origin(call.func)
        if name in SLEEPS or name.endswith(".wait_for_timeout"):
            number = source.number(call.args[0]) if call.args else None
            floor = FLOOR if name in SLEEPS else FLOOR_MS
            if number is None or _is_short(number, floor):
                yield call.lineno


def clocks(source: Source) -> Iterator[int]:
    """Looks at a clock of the machine, whatever is done with them."""
    for call in source.calls:
        if source.origin(call.func) in CLOCKS:
            yield call.lineno


def timeouts(source: Source) -> Iterator[int]:
    """`timeout=` below the floor. That of a function of NoETL is a parameter of what is tested."""
    in_ms = any(origin.startswith("playwright.") for origin in source.origins.values())
    for call in source.calls:
        name = source.origin(call.func)
        if name.startswith("noetl."):
            continue
        is_known = name.split(".")[0] in source.origins.values() or name.split(".")[-1] in WAITS
        floor = FLOOR_MS if in_ms and not is_known else FLOOR
        for keyword in call.keywords:
            if keyword.arg == "timeout" and _is_short(source.number(keyword.value), floor):
                yield keyword.value.lineno


def waits(source: Source) -> Iterator[int]:
    """A number below the floor as the only argument of something that waits."""
    for call in source.calls:
        match call:
            case ast.Call(func=ast.Attribute(attr=name), args=[patience]):
                floor = FLOOR if name in WAITS else FLOOR_MS if name in WAITS_MS else 0
                if _is_short(source.number(patience), floor):
                    yield call.lineno
            case ast.Call(args=[_, _, _, patience]) if source.origin(call.func) == "select.select":
                if _is_short(source.number(patience)):
                    yield call.lineno


def naps(source: Source) -> Iterator[int]:
    """Naps in the code of playbooks and of processes that a test starts, but those in a loop that
    looks at a condition."""
    for line, match, before in source.search(_NAP):
        if _is_short(float(match[1])) and not _LOOKING.search(before):
            yield line
    for line, first, second in source.pairs:
        if first == "sleep" and re.fullmatch(r"[\d.]+", second) and _is_short(float(second)):
            yield line


def ports(source: Source) -> Iterator[int]:
    """Ports that are written down."""
    for call in source.calls:
        if source.origin(call.func).endswith(".bind"):
            match call.args:
                case [ast.Tuple(elts=[_, port, *_])] if source.number(port):
                    yield call.lineno
        for keyword in call.keywords:
            if keyword.arg == "port" and source.number(keyword.value):
                yield keyword.value.lineno
    yield from (line for line, _, _ in source.search(_PORT))
    for line, first, second in source.pairs:
        if first == "--port" and second.isdigit() and int(second):
            yield line


def look_ups(source: Source) -> Iterator[int]:
    """Looks at all processes of the machine."""
    for call in source.calls:
        match call:
            case ast.Call(args=[ast.Constant(value="/proc")]) if source.origin(call.func) in LISTINGS:
                yield call.lineno
            case ast.Call(func=ast.Attribute(attr=name, value=ast.Call(args=[ast.Constant(value="/proc")]))):
                if name in ("iterdir", "glob", "rglob"):
                    yield call.lineno
            case _ if source.origin(call.func) in PROCESSES:
                yield call.lineno
    yield from (line for line, _, _ in source.search(_LOOK_UP))
    for line, first, second in source.pairs:
        if _LOOK_UP.fullmatch(f"{first} {second}"):
            yield line


def looks(source: Source) -> Iterator[int]:
    """Elements of a page that are counted or read once, where the page may still be on its way."""
    for node in source.nodes:
        match node:
            case ast.Assert(
                test=ast.Compare(left=ast.Call(func=ast.Attribute(attr=name), args=[]), ops=[ast.Eq()])
            ):
                if name in LOOKS:
                    yield node.lineno


def _is_short(number: float | None, floor: float = FLOOR) -> bool:
    """Whether it is below the floor. Zero is a look, and waits for nothing."""
    return number is not None and 0 < number < floor


#: Each rule, and what to do instead.
RULES: Final[Mapping[Callable[[Source], Iterator[int]], str]] = {
    sleeps: "wait for what the program shows: until(...) of tests/waiting.py, or a Gate of tests/gates.py",
    clocks: "count work (tests/effort.py), wait with until(...) of tests/waiting.py; speed belongs to `make bench`",
    timeouts: f"leave the patience out, or give GUARD_S of tests/waiting.py; {FLOOR} s is the least",
    waits: f"leave the patience out, or give GUARD_S of tests/waiting.py; {FLOOR} s is the least",
    naps: "let the code come to a Gate of tests/gates.py; what stands for ever sleeps 600 s and is ended",
    ports: "take free_port() of tests/ports.py, or listen on 0 and read the port",
    looks: "let Playwright wait for it: expect(...).to_have_count(...), to_have_value(...), to_have_text(...)",
    look_ups: "know processes by their pid, or by a mark of the test's own",
}
ADVICE: Final = {rule.__name__: advice for rule, advice in RULES.items()}


def findings(file: str, content: str) -> Iterator[Finding]:
    """What all rules find in one file, in the order of its lines for each rule."""
    source = read(file, content)
    for rule in RULES:
        for line in sorted(rule(source)):
            yield Finding(file, line, rule.__name__, source.lines[line - 1].strip())


def find() -> Iterator[Finding]:
    """What all rules find in all tests."""
    for path in sorted([*TESTS.rglob("*.py"), *TESTS.rglob("*.yaml")]):
        file = path.relative_to(TESTS.parent).as_posix()
        if not file.startswith(LEFT_OUT):
            yield from findings(file, path.read_text(encoding="utf-8"))
