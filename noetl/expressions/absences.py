"""What is said of templates that came out undefined: in events, and in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.expressions.evaluate import Absence, evaluate, shorten
from noetl.expressions.grammar import Path, texts
from noetl.facts.json import Json
from noetl.facts.reference import Load
from noetl.facts.warnings import Warned


def evaluate_at(
    place: str,
    template: Json,
    names: Mapping[str, Any],
    warnings: list[Warned],
    *,
    load: Load | None = None,
) -> Json:
    """`evaluate`, with every template in it that became null, or has a hole in its text, added to
    `warnings`; `place` is where it stands."""
    absent: list[Absence] = []
    value = evaluate(template, names, load=load, warn=absent.append)
    if absent:
        sources = {one.source: one for one in absent}
        warnings += [
            _warning(sources[text], _place_text(place, path))
            for path, text in texts(template)
            if text in sources
        ]
    return value


def _warning(absence: Absence, place: str) -> Warned:
    said = {"absent": ", ".join(absence.parts), "why": absence.why}
    known = {key: value for key, value in said.items() if value}
    return {"template": shorten(absence.source), "place": place, **known}


def _place_text(place: str, path: Path) -> str:
    below = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"{place}{below}" if place else below.removeprefix(".")


def sentence(absence: Absence) -> str:
    """What is to be said of it where nothing is known of its place."""
    return describe_absence(shorten(absence.source), ", ".join(absence.parts), absence.why)


def describe_absence(template: str, absent: str, why: str, place: str = "") -> str:
    """What is to be said of a template that is undefined, or in which `absent` is, and that stands
    at `place`."""
    end = f": {why}." if why else "."
    which = f"The template `{template}`" + (f" of `{place}`" if place else "")
    if absent:
        return f"{which} puts nothing into its text for `{absent}`, which is undefined{end}"
    return f"{which} is undefined and became null{end}"
