"""What quantum tasks of an execution have yielded: what ran, so that it can be run again, and what
was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from noetl.errors import BadRequest, NotFound, Unavailable
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Lazy, Load, is_reference, load_value
from noetl.ui.charts import say_span
from noetl.ui.histograms import MOST as MOST_LABELS
from noetl.ui.histograms import Histogram, is_counts, make_histogram
from noetl.ui.json_text import make_visible, make_visible_in_columns
from noetl.ui.kept import KeptPosition
from noetl.ui.run.look import RunLook
from noetl.ui.shapes import ValuePages
from noetl.ui.site import here
from noetl.ui.values import ShownValue, read_page, show_value
from noetl.usecases import inspect

#: Task runs of one page, and points of a sweep that are shown of each.
PAGE: Final = 10
MOST_POINTS: Final = 50
#: Labels of a sweep that have a column of their own.
_MOST_COLUMNS: Final = 16
_SHORT_HASH: Final = 16
#: Characters of a diagram.
_MOST_DRAWN: Final = 64 * 1024
#: Seconds that are said as a duration.
_LONGEST_S: Final = 1e9

#: What is said of where a result comes from, and where that stands in it.
_STORY: Final[Mapping[str, str]] = {
    "provider": "Provider",
    "target": "Target",
    "calibration": "Calibration",
    "repetitions": "Repetitions",
    "seed": "Seed",
    "precision": "Precision",
    "estimator": "Estimator",
    "mitigation": "Mitigation",
    "split": "Split",
    "observables": "Observables",
    "compiler": "Compiler",
    "options": "Options",
    "versions": "Versions",
    "resolved_sha256": "Circuit",
    "compiled_sha256": "Sent",
    "sweep_sha256": "Sweep",
    "noise_sha256": "Noise",
}
#: The same of the jobs of machines elsewhere; what is 0 or unknown is not said.
_JOB: Final[Mapping[str, str]] = {
    "id": "Job",
    "ids": "Jobs",
    "status": "Status",
    "queue_s": "In the queue",
    "run_s": "Ran for",
    "cost": "Cost",
    "currency": "Currency",
}


@dataclass(frozen=True, slots=True)
class ShownDiagram:
    """A circuit as a diagram of text. `about` says how large the circuit is; `none` why there is no
    diagram where `text` is empty."""

    about: str
    text: str
    none: str = ""


@dataclass(frozen=True, slots=True)
class ShownQuantumRun:
    """One task run. `story` and `job` are names and values, `chart` the histogram of its only
    point, `points` the table of a sweep, `gone` why its result cannot be read."""

    place: KeptPosition
    kind: str
    story: list[tuple[str, ShownValue]]
    job: list[tuple[str, ShownValue]]
    chart: Histogram | None
    more_labels: int
    means: ShownValue | None
    points: ShownValue | None
    more_points: int
    diagram: ShownDiagram | None
    circuit: ShownValue | None
    whole: ShownValue | None = None
    gone: str = ""


def is_there(look: RunLook) -> bool:
    """Whether the playbook has quantum tasks."""
    net = inspect.net_of(look.visitor.rt, look.execution_id)
    return any(task.kind == "quantum" for step in net.steps.values() for task in step.tasks)


def gather(look: RunLook) -> Mapping[str, Any]:
    """`quantum_runs`, newest first, one page of them; as of the version that is looked at."""
    things = here().kept.find(look.visitor.rt, look.row).quantum
    found = [one for one in things if one.version <= look.version][::-1]
    pages = ValuePages.of(
        len(found), read_page(look.asked.get("page")), PAGE, lambda number: look.here(page=number or None)
    )
    return {"quantum_runs": [_show(look, one) for one in pages.cut(found)], "quantum_pages": pages}


def _show(look: RunLook, place: KeptPosition) -> ShownQuantumRun:
    rt = look.visitor.rt
    (event,) = inspect.events(rt, look.execution_id, place.version - 1, 1)
    try:
        return _show_result(place, getattr(event.fact, "result", None), rt.load)
    except (NotFound, BadRequest, Unavailable) as error:
        return _nothing(place, gone=make_visible(error.message))


def _nothing(place: KeptPosition, whole: ShownValue | None = None, gone: str = "") -> ShownQuantumRun:
    return ShownQuantumRun(place, "", [], [], None, 0, None, None, 0, None, None, whole, gone)


def _show_result(place: KeptPosition, result: Json, load: Load) -> ShownQuantumRun:
    """Raises what `load` raises."""
    found = _open(result, load)
    story = _map(_open(found.get("provenance"), load)) if isinstance(found, Mapping) else {}
    if not story:
        # Of jobs that were only submitted or asked after, say, or of an estimate.
        return _nothing(place, whole=show_value(found, load))
    points, count = _read_points(found.get("points"), load)
    chart, more = _find_chart(found.get("histogram"))
    task = _map(_open(story.get("task"), load))
    source = _map(story.get("source")).get("form")
    return ShownQuantumRun(
        place,
        make_visible(source) if isinstance(source, str) else "",
        list(_name(story, _STORY)),
        list(_name(_map(found.get("job")), _JOB)),
        chart,
        more,
        show_value(found.get("expectation"), load) if found.get("expectation") else None,
        show_value(_make_rows(points)) if count > 1 else None,
        count - len(points),
        _show_diagram(_map(_open(story.get("diagram"), load)), load),
        _show_circuit(task.get("circuit"), load),
    )


def _open(value: Json, load: Load) -> Json:
    return load_value(value, load) if is_reference(value) else value


def _map(value: Json) -> JsonMap:
    return value if isinstance(value, Mapping) else {}


def _name(values: JsonMap, names: Mapping[str, str]) -> Iterator[tuple[str, ShownValue]]:
    """Those that say something, with their names."""
    for key, name in names.items():
        value = _plain(key, values.get(key))
        is_again = key == "compiled_sha256" and value == _plain(key, values.get("resolved_sha256"))
        if value and not is_again:
            yield name, show_value(value)


def _plain(key: str, value: Json) -> Json:
    """A value as it is said; empty for one that says nothing."""
    match value:
        case str() if key.endswith("sha256"):
            return f"{value[:_SHORT_HASH]}…"
        case int() | float() if key.endswith("_s") and 0 < value < _LONGEST_S:
            return say_span(value)
        case Mapping() if key == "compiler":
            return {name: one for name, one in value.items() if one}
        case _:
            return _join(value)


def _join(value: Json) -> Json:
    """Versions, say, on one line."""
    if isinstance(value, Mapping) and value and all(isinstance(one, str) for one in value.values()):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return value


def _read_points(points: Json, load: Load) -> tuple[list[JsonMap], int]:
    """The first ones, and how many there are."""
    found = _open(points, load)
    if not isinstance(found, list | Lazy):
        return [], 0
    return [_map(_open(one, load)) for one in found[:MOST_POINTS]], len(found)


def _find_chart(histogram: Json) -> tuple[Histogram | None, int]:
    """The chart of a histogram, in the order of its labels, and how many labels it leaves out:
    those that were measured least."""
    counts = _map(histogram)
    frequent = sorted(counts, key=lambda label: _weight(counts[label]), reverse=True)[:MOST_LABELS]
    shown = {label: counts[label] for label in sorted(frequent)}
    # One label is no chart elsewhere; here it says that all was the same.
    if not is_counts({**shown, "": 0} if len(shown) == 1 else shown):
        return None, 0
    return make_histogram(shown), len(counts) - len(shown)


def _weight(count: Json) -> float:
    return count if isinstance(count, int | float) else 0


def _make_rows(points: list[JsonMap]) -> list[JsonMap]:
    """A row for each point: its parameters, its means, and how often each label was measured, where
    there are few of them."""
    labels = sorted({label for one in points for label in _map(one.get("histogram"))})
    counted = labels if len(labels) <= _MOST_COLUMNS else []
    return [_make_row(one, counted) for one in points]


def _make_row(point: JsonMap, labels: list[str]) -> JsonMap:
    counts = _map(point.get("histogram"))
    return {
        "point": point.get("index"),
        **_map(point.get("params")),
        **_map(point.get("means")),
        **{f"|{label}⟩": counts.get(label, 0) for label in labels},
    }


def _show_circuit(circuit: Json, load: Load) -> ShownValue | None:
    if circuit is None:
        return None
    return show_value(circuit, load)


def _show_diagram(diagram: JsonMap, load: Load) -> ShownDiagram | None:
    """None where nothing is known of one: results of earlier versions have none, nor has what Cirq
    cannot draw."""
    match diagram:
        case {"qubits": int(qubits), "operations": int(operations), "depth": int(depth)}:
            about = f"{_count(qubits, 'qubit')}, {_count(operations, 'operation')}, depth {depth:,}"
        case _:
            return None
    try:
        text = _open(diagram.get("text"), load)
    except (NotFound, BadRequest, Unavailable) as error:
        return ShownDiagram(about, "", make_visible(error.message))
    if not isinstance(text, str) or len(text) > _MOST_DRAWN:
        return ShownDiagram(about, "", "The circuit is too large for a diagram.")
    return ShownDiagram(about, make_visible_in_columns(text))


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
