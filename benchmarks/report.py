"""The figures as tables, and `benchmarks/README.md` from them: `python -m benchmarks.report`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.workloads import BY_NAME, REFERENCE, WORKLOADS, Target, Workload

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parent / "README.md"

INTRODUCTION = """# Benchmarks

Made by `python -m benchmarks.report` from [results/latest.json](results/latest.json); edit neither by hand.

    make bench                                   # measure everything, then write this page
    python -m benchmarks.run W1 W5 --reps 5      # some of it
    python -m benchmarks.run --profile W1 W4     # time nothing, say where the time goes (needs py-spy)
    python -m benchmarks.run W1p --dbos PYTHON   # pair W1p with DBOS, where that Python has it
    python -m benchmarks.run onlookers --browsers 200  # do open pages slow starts down?
    python -m benchmarks.run scrolling           # do 10,000 rows scroll smoothly? (needs Chromium)
    python -m benchmarks.run promises            # are the bounds kept that no test holds?
    python -m benchmarks.compare ../before . W1  # two checkouts at once, in turn: shows a few per cent

The run starts its own PostgreSQL, with the durability that PostgreSQL has by default (it refuses another
one), its own Redis, and on them NoETL (one scheduler, one prefork worker with two processes, a sweeper) and a
raw Celery worker with two processes and late acknowledgements. The samples of both take turns after one that
does not count; the times are those a caller sees: from the start of an execution until its row in the
database says that it has ended, looked at every millisecond. Every result is checked. Raw Celery keeps
nothing when Redis goes: it is the floor, not a peer.
"""


def figure(value: float) -> str:
    """Seconds in the unit that reads best."""
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def table(found: dict[str, Any]) -> str:
    """A Markdown table of the workloads, and a line on memory."""
    rows = ["| | NoETL median (min - max) | raw Celery median (min - max) | ratio | steps/s | to reach | |"]
    rows.append("|---|---|---|---|---|---|---|")
    rows += [_row(one, found["workloads"][one.name]) for one in WORKLOADS if one.name in found["workloads"]]
    if "memory" in found:
        rows += ["", _memory(found["memory"])]
    return "\n".join(rows)


def _row(workload: Workload, record: dict[str, Any]) -> str:
    samples = record["samples"]
    ours, theirs = samples["noetl"], samples.get("raw", [])
    ratio = f"{median(ours) / median(theirs):.2f}" if theirs else "-"
    rate = f"{workload.steps / median(ours):.0f}"
    wanted, verdict = _verdict(workload.target, _value(workload, samples))
    return (
        f"| {workload.name} | {_spread(ours)} | {_spread(theirs)} | {ratio} | {rate} | {wanted} | {verdict} |"
    )


def _spread(samples: Sequence[float], tell: Callable[[float], str] = figure) -> str:
    if not samples:
        return "-"
    return f"**{tell(median(samples))}** ({tell(min(samples))} - {tell(max(samples))})"


def _times(value: float) -> str:
    return f"{value:.2f} ×"


def _value(workload: Workload, samples: dict[str, list[float]]) -> float:
    ours = median(samples["noetl"])
    match workload.target.of if workload.target else "":
        case "ratio":
            return ours / median(samples["raw"])
        case "steps/s":
            return workload.steps / ours
        case _:
            return ours


def _verdict(target: Target | None, value: float) -> tuple[str, str]:
    if target is None:
        return "-", ""
    wanted = {
        "ratio": f"≤ {target.limit:g} × raw",
        "seconds": f"≤ {figure(target.limit)}",
        "steps/s": f"≥ {target.limit:g} steps/s",
    }[target.of]
    if target.met(value):
        return wanted, "reached"
    missed = target.limit / value if target.of == "steps/s" else value / target.limit
    return wanted, f"missed by {(missed - 1) * 100:.0f} %"


def _memory(memory: dict[str, Any]) -> str:
    verdict = "reached" if memory["pss_mb"] <= memory["limit_mb"] else "missed"
    return (
        f"Idle memory of `noetl up` with all {len(memory['processes'])} processes (PSS): "
        f"**{memory['pss_mb']:.0f} MB**, to reach: ≤ {memory['limit_mb']:.0f} MB: {verdict}."
    )


# --- the page ------------------------------------------------------------------------------------


def page(found: dict[str, Any]) -> str:
    """README.md as a whole."""
    parts = [INTRODUCTION, "## Figures", table(found), _workloads(found), _references(found)]
    if "starts" in found:
        parts += ["## Starts over HTTP", starts(found["starts"])]
    if "onlookers" in found:
        parts += ["## Onlookers", onlookers(found["onlookers"])]
    if "scrolling" in found:
        parts += ["## Scrolling", scrolling(found["scrolling"])]
    if "rows" in found:
        parts += ["## Rows in bulk", rows(found["rows"])]
    if "language" in found:
        parts += ["## The compiler", language(found["language"])]
    if "quantum" in found:
        parts += ["## Sweeps of circuits", quantum(found["quantum"])]
    if "promises" in found:
        parts += ["## Promises", promises(found["promises"])]
    parts += ["## Where the time goes", profiles(found), "## Weather", _weather(found), _machine(found)]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _workloads(found: dict[str, Any]) -> str:
    return "\n".join(f"- **{name}**: {BY_NAME[name].about}" for name in BY_NAME if name in found["workloads"])


def _references(found: dict[str, Any]) -> str:
    lines = [
        "Reference on a quiet machine of two cores: raw Celery "
        + ", ".join(f"{name} {figure(REFERENCE[name])}" for name in ("W1", "W3", "W4", "W5"))
        + f"; DBOS on PostgreSQL, in process, W1 {figure(REFERENCE['W1p'])} (W1p is to take at most 1.5 "
        "times that)."
    ]
    dbos = found["workloads"].get("W1p", {}).get("samples", {}).get("dbos")
    if dbos:
        ours = median(found["workloads"]["W1p"]["samples"]["noetl"])
        lines.append(
            f"DBOS paired in this run: {_spread(dbos)} for the 40 steps; "
            f"NoETL's W1p takes {ours / median(dbos):.2f} times that."
        )
    elif "W1p" in found["workloads"]:
        lines.append("DBOS was not part of this run: W1p is compared with that reference.")
    return "\n\n".join(lines)


#: Acknowledged starts a second that each way is to reach.
STARTS = {"one connection": None, "eight connections": 250.0, "batches of 1,000": 1000.0}


def starts(found: dict[str, Any]) -> str:
    """The figures of `benchmarks.starts` as Markdown."""
    lines = ["| | acknowledged a second: median (min - max) | to reach | |", "|---|---|---|---|"]
    for name, samples in found["samples"].items():
        middle, target = median(samples), STARTS[name]
        verdict = "" if target is None else "reached" if middle >= target else "missed"
        wanted = "-" if target is None else f"≥ {target:,.0f}"
        spread = f"**{middle:,.0f}** ({min(samples):,.0f} - {max(samples):,.0f})"
        lines.append(f"| {name} | {spread} | {wanted} | {verdict} |")
    return "\n".join(lines)


#: Milliseconds that a page may take to be painted, and of 95 % of the frames while it is scrolled.
PAINT_MS, FRAME_MS = 1000, 50


def scrolling(found: dict[str, Any]) -> str:
    """The figures of `benchmarks.scrolling` as Markdown. The least of all rounds counts: what else
    the machine does is no matter of the page's."""
    frames, paint = found["frame_ms"], min(found["first_paint_ms"])
    half, most = (min(one[share] for one in frames) for share in ("p50", "p95"))
    lines = [
        f"The page of an execution of {found['events']:,} events, and its log scrolled a thousand rows in "
        f"250 frames; the quickest of {len(frames)} rounds.",
        "",
        "| | ms | to reach | |",
        "|---|---|---|---|",
        f"| first paint | **{paint:.0f}** | ≤ {PAINT_MS} | {'reached' if paint <= PAINT_MS else 'missed'} |",
        f"| a frame, median | **{half:.1f}** | - | |",
        f"| a frame, 95 % | **{most:.1f}** | ≤ {FRAME_MS} | {'reached' if most <= FRAME_MS else 'missed'} |",
        "",
        f"Frames without a row in the middle of the window: {min(found['blank_frames'])} of 250.",
    ]
    return "\n".join(lines)


#: How many times as long a start may take while others look.
ONLOOKERS = 1.25


def onlookers(found: dict[str, Any]) -> str:
    """The figures of `benchmarks.onlookers` as Markdown."""
    rounds, loads = found["rounds"], ", ".join(str(one["load1"]) for one in found["rounds"])
    seen = [one["with"] for one in rounds]
    lines = [
        f"Starts over HTTP, one each tenth of a second, in rounds of {found['seconds']:g} s without and with "
        f"{found['browsers']} browsers on the same machine; load {loads}. Each figure is the median of the "
        "rounds, ratios are medians of those of each pair.",
        "",
        "| | without | with | ratio | to reach | |",
        "|---|---|---|---|---|---|",
    ]
    for name, said in (("answered", "answered"), ("completed", "execution completed")):
        for key, which in (("median", "median"), ("p90", "ninth decile")):
            pairs = [(one["without"][name][key], one["with"][name][key]) for one in rounds]
            before, after = (figure(median(side)) for side in zip(*pairs, strict=True))
            ratio = median(other / one for one, other in pairs)
            verdict = "reached" if ratio <= ONLOOKERS else "missed"
            lines.append(
                f"| {said}, {which} | {before} | **{after}** | {ratio:.2f} | ≤ {ONLOOKERS} | {verdict} |"
            )
    before, after = (median(one[side]["server_cpu_ms"] for one in rounds) for side in ("without", "with"))
    looks, share = (median(one[key] for one in seen) for key in ("looks_per_s", "browsers_cpu"))
    lines += [
        f"| CPU of the server for each start, looks included | {before:.1f} ms | **{after:.1f} ms** | "
        f"{after / before:.2f} | - | |",
        "",
        f"The browsers were answered **{looks:.1f}** looks a second, each in "
        f"{_decile([one['look'] for one in seen])}, and took {share:.0%} of a core themselves. "
        f"From a commit to the frame that tells of it: {_decile([one['news']['list'] for one in seen])} "
        f"for lists, {_decile([one['news']['run'] for one in seen])} for pages of runs.",
    ]
    return "\n".join(lines)


def _decile(middles: Sequence[dict[str, float] | None]) -> str:
    """Median and ninth decile of what was seen in several rounds."""
    found = [one for one in middles if one is not None]
    if not found:
        return "none"
    middle, p90 = (figure(median(one[key] for one in found)) for key in ("median", "p90"))
    return f"**{middle}** (nine of ten within {p90})"


def rows(found: dict[str, Any]) -> str:
    """The figures of `benchmarks.rows` as Markdown."""
    hand, ours = (found["samples"][name] for name in ("by_hand", "noetl"))
    ratio = median(one["seconds"] for one in ours) / median(one["seconds"] for one in hand)
    peak = max(one["peak_mb"] for one in ours)
    lines = [
        f"`{found['command']}`, {found['at']}: {found['rows']:,} rows from PostgreSQL through a "
        "reference into DuckDB and "
        "Parquet with `noetl run`, in turn with a script by hand (psycopg2's COPY into a file, which "
        "DuckDB reads); load " + ", ".join(f"{load:.1f}" for load in found["load1"]) + ".",
        "",
        "| | median (min - max) | peak memory (PSS, with children) |",
        "|---|---|---|",
    ]
    for name, samples in (("by hand", hand), ("NoETL", ours)):
        spread = _spread([one["seconds"] for one in samples])
        lines.append(f"| {name} | {spread} | {max(one['peak_mb'] for one in samples):.0f} MB |")
    reached = "reached" if ratio <= 2.0 else "missed"
    small = "reached" if peak <= 400.0 else "missed"
    lines += [
        "",
        f"Ratio **{ratio:.2f}**, to reach: ≤ 2: {reached}. Memory **{peak:.0f} MB**, to reach: ≤ 400 MB: "
        f"{small}.",
    ]
    return "\n".join(lines)


def language(found: dict[str, Any]) -> str:
    """The figures of `benchmarks.language` as Markdown."""
    slow = median(found["slowness"])
    lines = [
        f"`{found['command']}`, {found['at']}: a playbook of {found['steps']:,} steps and "
        f"{found['bytes']:,} bytes, none of whose "
        f"templates occurs twice. The machine was {slow:.1f} times slower than the reference (two "
        "million additions, before "
        "each sample), so the bounds are compared with the time divided by that.",
        "",
        "| | median (min - max) | on the reference | to reach | |",
        "|---|---|---|---|---|",
    ]
    for name, key, bound in (("compile", "compile_s", 1.0), ("`noetl validate`", "validate_s", 2.0)):
        scaled = median(found[key]) / slow
        verdict = "reached" if scaled <= bound else "missed"
        lines.append(f"| {name} | {_spread(found[key])} | {scaled:.2f} s | ≤ {bound:g} s | {verdict} |")
    return "\n".join(lines)


def quantum(found: dict[str, Any]) -> str:
    """The figures of `benchmarks.quantum` as Markdown."""
    samples, loads = found["samples"], ", ".join(map(str, found["load1"]))
    lines = [
        f"`{found['command']}`, {found['at']}: {found['points']:,} points of a circuit of "
        f"{median(found['circuit_ms']):.1f} ms, each in "
        f"a process from its start to its end, in turn; load {loads}. Ratios are medians of those of "
        "each turn.",
        "",
        "| | median (min - max) | ratio | CPU ratio | to reach | |",
        "|---|---|---|---|---|---|",
    ]
    for name, said in (
        ("by_hand", "plain Cirq"),
        ("sweep", "one task"),
        ("loop", "a parallel loop of tasks"),
    ):
        ratio, cpu = (_paired(samples, name, key) for key in ("seconds", "cpu_s"))
        bound = ("-", "") if name == "by_hand" else ("≤ 1.3", "reached" if ratio <= 1.3 else "missed")
        spread = _spread([one["seconds"] for one in samples[name]])
        lines.append(f"| {said} | {spread} | {ratio:.2f} | {cpu:.2f} | {bound[0]} | {bound[1]} |")
    return "\n".join(lines)


def _paired(samples: dict[str, list[dict[str, float]]], name: str, key: str) -> float:
    pairs = zip(samples[name], samples["by_hand"], strict=True)
    return median([one[key] / other[key] for one, other in pairs])


def promises(found: dict[str, Any]) -> str:
    """The figures of `benchmarks.promises` as Markdown."""
    slow = median(one["slowness"] for one in found["promises"])
    lines = [
        f"`{found['command']}`, {found['at']}: what is promised of speed in numbers, and no test holds. A "
        "promise is kept where the median is within its bound, as measured; the machine was "
        f"{slow:.1f} times slower than the reference (two million additions before each, the median).",
        "",
        "| | median (min - max) | to keep | |",
        "|---|---|---|---|",
    ]
    for one in found["promises"]:
        tell = figure if one["unit"] == "s" else _times
        over = median(one["samples"]) / one["bound"]
        verdict = "kept" if over <= 1 else f"missed by {(over - 1) * 100:.0f} %"
        lines.append(
            f"| {one['name']} | {_spread(one['samples'], tell)} | ≤ {tell(one['bound'])} | {verdict} |"
        )
    return "\n".join([*lines, "", *(f"- **{one['name']}**: {one['sentence']}" for one in found["promises"])])


def profiles(found: dict[str, Any]) -> str:
    """CPU per step and the layers of each profiled workload, as Markdown."""
    if "profile" not in found:
        return "Not looked at yet; `--profile` does it."
    profiled = found["profile"]["workloads"]
    lines = [
        f"`{found['profile']['command']}`, {found['profile']['at']}. CPU milliseconds per step of every "
        "process. "
        "Starting the executions and looking at their results is part of it, the caller itself is not:",
        "",
        *_cpu_table(profiled),
        "",
        "How long each process had something to do, and what its main thread did then (py-spy's samples; "
        "what "
        "takes less than 4 % is left out):",
        "",
        "| | process | busy | |",
        "|---|---|---|---|",
    ]
    for name, one in profiled.items():
        for process, layers in one["layers"].items():
            told = ", ".join(f"{layer} {share:.0%}" for layer, share in layers.items() if share >= 0.04)
            lines.append(f"| {name} | {process} | {one['busy'][process]:.0%} | {told} |")
    return "\n".join(lines)


def _cpu_table(profiled: dict[str, Any]) -> list[str]:
    processes = list(next(iter(profiled.values()))["cpu_ms_per_step"])
    lines = ["| | " + " | ".join(processes) + " | together |", "|---|" + "---|" * (len(processes) + 1)]
    for name, one in profiled.items():
        spent = [one["cpu_ms_per_step"][process] for process in processes]
        lines.append(f"| {name} | " + " | ".join(f"{ms:.2f}" for ms in (*spent, sum(spent))) + " |")
    return lines


def _weather(found: dict[str, Any]) -> str:
    lines = [
        "Others use this machine too. `load` is the load average of the last minute before each sample, "
        "`others` the "
        "share of all cores in use just before it, while the benchmark itself stood still.",
        "",
        "| | load | others | samples that never ended | commands sent again |",
        "|---|---|---|---|---|",
    ]
    for name, one in found["workloads"].items():
        loads = " ".join(f"{sample['load1']:.1f}" for sample in one["weather"])
        others = " ".join(f"{sample['others'] * 100:.0f} %" for sample in one["weather"])
        lost = ", ".join(one.get("lost", [])) or "none"
        lines.append(f"| {name} | {loads} | {others} | {lost} | {one.get('resent', 0)} |")
    return "\n".join(lines)


def _machine(found: dict[str, Any]) -> str:
    about = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    server = ", ".join(f"{name} = {value}" for name, value in found.get("postgresql", {}).items())
    return (
        f"`{found['command']}`, {found['at']}: {about['cores']} cores ({about['cpu']}), "
        f"{about['memory_gb']} GB, "
        f"{about['system']}, Python {about['python']}; {versions}. PostgreSQL: {server}."
    )


def main() -> int:
    latest = RESULTS / "latest.json"
    if not latest.exists():
        print("There are no results yet: python -m benchmarks.run", file=sys.stderr)
        return 1
    README.write_text(page(json.loads(latest.read_text())))
    print(f"{README} written.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
