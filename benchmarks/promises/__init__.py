"""What is promised of speed in numbers: no test holds it, since a slow machine is no defect.

`inside` has what one process does, `commands` what is typed, `live` what needs servers. Each
promise is measured as a user meets it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from benchmarks import machine
from benchmarks.promises import commands, inside, live
from benchmarks.promises.model import Promise


def measure(reps: int) -> dict[str, Any]:
    """`reps` repetitions of each promise. Raises services.Missing and NotDurable."""
    found = _measured((*inside.PROMISES, *commands.PROMISES), reps)
    with live.promises() as those:
        found += _measured(those, reps)
    return {"promises": found, "load1": machine.load()}


def _measured(promises: Iterable[Promise], reps: int) -> list[dict[str, Any]]:
    found = []
    for one in promises:
        slowness = round(machine.slowness(), 2)
        # What others have left is not to be collected meanwhile.
        gc.collect()
        samples = [round(sample, 5) for _ in range(reps) for sample in one.measure()]
        print(f"promises: {one.name} measured, load {machine.load()}", flush=True)
        about = {"name": one.name, "sentence": one.sentence, "bound": one.bound, "unit": one.unit}
        found.append({**about, "samples": samples, "slowness": slowness})
    return found
