"""`loop` on a step without tool, `end_loop` on a later one: which of them belong together, and what
is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noetl.dsl.dialects.parts import NewNames
from noetl.dsl.dialects.rules.drafts import RULES, RewriteContext, names_of
from noetl.dsl.problems import Code, Path, quote_value


@dataclass(frozen=True, slots=True)
class LoopRegion:
    """A loop and where it ends; positions in the workflow as written."""

    begin: int
    end: int
    begin_name: str
    end_name: str
    path: Path
    end_path: Path
    loop: Mapping[str, Any]
    outer: LoopRegion | None
    result: Mapping[str, Any]
    #: What its names in ctx begin with.
    key: str

    @property
    def state(self) -> str:
        """Where the loop stands: its items, and the index."""
        return f"ctx.{self.key}_loop"

    @property
    def scope(self) -> str:
        """What an iteration of it has as `iter`."""
        return f"ctx.{self.key}_iter"

    @property
    def iterator(self) -> str:
        return str(self.loop["iterator"])


def open_loops(raws: Sequence[Mapping[str, Any]]) -> list[int]:
    """The steps whose loop another one ends, or should: they have no tool, and nothing else that
    could be repeated unless an `end_loop` names them."""
    ended = {raw.get("end_loop") for raw in raws}
    return [
        index
        for index, raw in enumerate(raws)
        if raw.get("loop") is not None
        and not raw.get("tool")
        and (raw.get("step") in ended or not any(raw.get(key) for key in (*RULES, "run")))
    ]


def loop_regions(context: RewriteContext, raws: Sequence[Mapping[str, Any]]) -> Iterator[LoopRegion]:
    """Those that are whole, outer ones first; problems for the others."""
    loops = open_loops(raws)
    ends = {
        begin: end for end in range(len(raws)) if (begin := _begin(context, raws, end, loops)) is not None
    }
    for begin in loops:
        if all(raw.get("end_loop") != raws[begin].get("step") for raw in raws):
            repeats_nothing(context, begin, raws[begin])
    made: list[LoopRegion] = []
    for begin, end in sorted(ends.items()):
        crossed = [one for one in made if one.begin < begin < one.end < end]
        if crossed:
            outer, inner = crossed[-1], raws[begin].get("step")
            message = (
                f"the loop of step {quote_value(outer.begin_name)} ends here, before that of step "
                f"{quote_value(inner)}, which began in it"
            )
            at = (*outer.end_path, "end_loop")
            context.report.add(Code.MISPLACED, at, message, f"end the loop of {inner} first")
            continue
        around = [one for one in made if end < one.end]
        name = str(raws[begin].get("step"))
        # A loop that can be read by its own name is.
        others = {str(raws[other].get("step")) for other in loops} - {name}
        taken = NewNames(others | {one.key for one in made})
        key = taken.new(re.sub(r"\W", "_", name))
        region = _bracket(context, raws, begin, end, around[-1] if around else None, key)
        if region is not None:
            made.append(region)
            yield region


def _begin(
    context: RewriteContext, raws: Sequence[Mapping[str, Any]], index: int, loops: Sequence[int]
) -> int | None:
    """The step that the `end_loop` of a step names; None where it has none, or a faulty one."""
    name = raws[index].get("end_loop")
    if name is None:
        return None
    position = next((i for i, raw in enumerate(raws) if raw.get("step") == name), None)
    if position is not None and position in loops and position < index:
        if all(raw.get("end_loop") != name for raw in raws[:index]):
            return position
        code, message, hint = (
            Code.DUPLICATE_NAME,
            f"the loop of step {quote_value(name)} has ended before",
            "end it once",
        )
    elif position is None:
        names = [str(raws[i].get("step")) for i in loops]
        code, message = Code.UNKNOWN_STEP, f"there is no step {quote_value(name)} whose loop could end here"
        hint = context.report.suggest(name, names, "name the step that has the loop")
    elif position not in loops:
        why = "has no loop" if raws[position].get("loop") is None else "repeats its own tool"
        code, message = Code.MISPLACED, f"step {quote_value(name)} {why}: nothing ends here"
        hint = "name a step with loop: and without tool:"
    else:
        code, message = Code.MISPLACED, f"the loop of step {quote_value(name)} begins only further down"
        hint = "put its end behind it"
    context.report.add(code, ("workflow", index, "end_loop"), message, hint)
    return None


def repeats_nothing(context: RewriteContext, index: int, raw: Mapping[str, Any]) -> None:
    """The loop of the step at `index` is neither around a tool nor around other steps."""
    context.report.add(
        Code.MISSING,
        ("workflow", index, "loop"),
        f"the loop of step {quote_value(raw.get('step'))} repeats nothing: the step has no tool, and no step "
        "ends the loop",
        f"add end_loop: {raw.get('step')} to the step behind those that repeat, or give the step a tool",
    )


def _bracket(
    context: RewriteContext,
    raws: Sequence[Mapping[str, Any]],
    begin: int,
    end: int,
    outer: LoopRegion | None,
    key: str,
) -> LoopRegion | None:
    loop = raws[begin]["loop"]
    path: Path = ("workflow", begin)
    report = context.report
    if loop.get("iterator") is None or "in" not in loop:
        key = "iterator" if loop.get("iterator") is None else "in"
        report.missing((*path, "loop"), key, f"the loop has no {key}", f"add {key}:")
        return None
    made = LoopRegion(
        begin,
        end,
        raws[begin]["step"],
        raws[end].get("step") or "",
        path,
        ("workflow", end),
        loop,
        outer,
        names_of(raws[end].get("result")),
        key,
    )
    if not _usable_iterator(context, made):
        return None
    mode = loop.get("mode") or names_of(loop.get("spec")).get("mode")
    if mode == "parallel":
        report.add(
            Code.MISPLACED,
            (*path, "loop"),
            "the steps between a loop and its end run for one item after another",
            "for mode: parallel put the loop on the step that has the tool",
        )
    for at in _find_keys_of_one_step(loop):
        report.add(
            Code.MISPLACED,
            (*path, "loop", *at),
            f"`{at[-1]}` is for the loop of one step, and this one runs several",
            "put the loop on the step that has the tool",
            at_key=True,
        )
    for key in ("pass", "when"):
        if raws[begin].get(key) is not None:
            report.add(
                Code.MISPLACED,
                (*path, key),
                "a loop that is passed cannot end",
                f"put {key}: on a step before it",
                at_key=True,
            )
    return made


def _find_keys_of_one_step(loop: Mapping[str, Any]) -> Iterator[Path]:
    """What a loop around several steps cannot do."""
    yield from ((key,) for key in ("enough", "grow", "close") if key in loop)
    yield from (("spec", key) for key in ("sync",) if key in names_of(loop.get("spec")))


def _usable_iterator(context: RewriteContext, region: LoopRegion) -> bool:
    name, at = region.iterator, (*region.path, "loop", "iterator")
    around = region.outer
    while around is not None:
        if around.iterator == name:
            message = (
                f"the loop of step {quote_value(around.begin_name)} around this one has the iterator "
                f"{quote_value(name)} too"
            )
            context.report.add(Code.NAME, at, message, "give each loop another iterator")
            return False
        around = around.outer
    if name in context.steps:
        message = f"a step is called {quote_value(name)} as well, and templates would read that"
        context.report.add(Code.NAME, at, message, "rename the iterator")
        return False
    if name in ("index", "parent") or re.fullmatch(r"[^\W\d]\w*", name) is None:
        context.report.add(Code.NAME, at, f"no iterator can be called {quote_value(name)}", "call it item")
        return False
    return bool(region.end_name)
