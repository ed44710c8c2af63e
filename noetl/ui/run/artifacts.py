"""What an execution has kept outside of its log: files of artifact tasks, and results by
reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, assert_never

from noetl.ui.json_text import make_visible
from noetl.ui.kept import KeptArtifact, KeptParts, KeptPosition, KeptReference, KeptThing
from noetl.ui.pictures import artifact_address
from noetl.ui.references import PICTURES, ReferenceFacts, read_reference, say_kind, say_size
from noetl.ui.run.look import RunLook
from noetl.ui.shapes import ShownPicture, ValuePages
from noetl.ui.site import here
from noetl.ui.values import read_page
from noetl.usecases.runtime import Runtime

#: Things of one page: of each the store is asked whether it is there.
PAGE: Final = 25


@dataclass(frozen=True, slots=True)
class ShownKept:
    """One of them. `links` are addresses by what is said of them; `gone` says why it is not there
    any more, empty: it is."""

    place: KeptPosition
    name: str
    kind: str
    size: str
    expires_at: str
    links: Mapping[str, str]
    picture: ShownPicture | None = None
    gone: str = ""


def gather(look: RunLook) -> Mapping[str, Any]:
    """`kept`, newest first, one page of it; as of the version that is looked at."""
    things = here().kept.find(look.visitor.rt, look.row).things.values()
    found = [one for one in things if one.place.version <= look.version][::-1]
    pages = ValuePages.of(
        len(found), read_page(look.asked.get("page")), PAGE, lambda number: look.here(page=number or None)
    )
    return {"kept": [_show(look.visitor.rt, one) for one in pages.cut(found)], "kept_pages": pages}


def _show(rt: Runtime, one: KeptThing) -> ShownKept:
    match one:
        case KeptArtifact():
            return _show_artifact(one)
        case KeptReference():
            return _show_result(rt, one)
        case KeptParts():
            count = "a list" if one.count is None else f"a list of {one.count:,}"
            parts = f"{one.parts:,} part{'s' if one.parts != 1 else ''}"
            return ShownKept(one.place, f"{count}, in {parts}", "", "", "", {})
        case _:
            assert_never(one)


def _show_artifact(one: KeptArtifact) -> ShownKept:
    address = artifact_address(one.uri, one.key)
    name = make_visible(one.key or one.uri)
    picture = ShownPicture(address, name, "") if address and one.content_type in PICTURES else None
    size = "" if one.size is None else say_size(one.size)
    links = {"file": address} if address else {}
    return ShownKept(one.place, name, say_kind(make_visible(one.content_type)), size, "", links, picture)


def _show_result(rt: Runtime, one: KeptReference) -> ShownKept:
    facts = read_reference(one.reference)
    gone = _find_why_gone(rt, one, facts)
    places = {"JSON": facts.whole, "file": facts.file}
    picture = ShownPicture(facts.picture, facts.about, "") if facts.picture and not gone else None
    return ShownKept(
        one.place,
        _name(one, facts),
        say_kind(facts.content_type) or "JSON",
        "" if facts.size is None else say_size(facts.size),
        facts.expires_at,
        {} if gone else {name: address for name, address in places.items() if address},
        picture,
        gone,
    )


def _name(one: KeptReference, facts: ReferenceFacts) -> str:
    """Results have none: the beginning of their hash tells them apart."""
    return facts.name.rpartition("/")[2][:12] or make_visible(one.name[:80])


def _find_why_gone(rt: Runtime, one: KeptReference, facts: ReferenceFacts) -> str:
    if rt.holds(one.reference):
        return ""
    return "expired" if _is_over(facts.expires_at, rt.clock()) else "removed"


def _is_over(expires_at: str, now: datetime) -> bool:
    try:
        return bool(expires_at) and datetime.fromisoformat(expires_at) <= now
    except (ValueError, TypeError):
        return False
