"""`loop` on a step without tool, `end_loop` on a later one: the steps between them run once for each item.

They become a cycle: the step of the loop evaluates the collection, `<loop>.each` puts an item into ctx and leads into
the brackets, every arc to the step of `end_loop` leads to `<loop>.done`, which keeps the result and goes back or on.
ctx has `iter`, the iterator and `loop_index` as an iteration has them; where the loop stands is in `<loop>_loop`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from noetl.dsl.lowering.rules.drafts import Draft, Onward, Way, names_of
from noetl.dsl.lowering.rules.sequence import copied
from noetl.dsl.lowering.rules.setting import Setting
from noetl.dsl.origins import Moved, Tree
from noetl.dsl.problems import Code, Path, shown


@dataclass(frozen=True, slots=True)
class _Bracket:
    """A loop and where it ends; positions in the workflow as written."""

    begin: int
    end: int
    begin_name: str
    end_name: str
    path: Path
    end_path: Path
    loop: Mapping[str, Any]
    outer: _Bracket | None
    result: Mapping[str, Any]

    @property
    def key(self) -> str:
        return re.sub(r"\W", "_", self.begin_name)

    @property
    def state(self) -> str:
        return f"ctx.{self.key}_loop"

    @property
    def iterator(self) -> str:
        return str(self.loop["iterator"])


def opened(raws: Sequence[Mapping[str, Any]]) -> list[int]:
    """The steps whose loop another one ends, or should: they have no tool, and nothing else that could be repeated
    unless an `end_loop` names them."""
    ended = {raw.get("end_loop") for raw in raws}
    return [
        index
        for index, raw in enumerate(raws)
        if raw.get("loop") is not None
        and not raw.get("tool")
        and (raw.get("step") in ended or all(raw.get(key) is None for key in ("rules", "cases", "run")))
    ]


def bracket_loops(setting: Setting, raws: Sequence[Mapping[str, Any]]) -> None:
    """Rewrites all of them. `raws` are the steps as written."""
    found = list(_brackets(setting, raws))
    inside = {one.begin: _inside(setting, one) for one in found}
    for one in found:
        _Cycle(setting, one, inside[one.begin]).write()


def _brackets(setting: Setting, raws: Sequence[Mapping[str, Any]]) -> Iterator[_Bracket]:
    """Those that are whole, outer ones first; problems for the others."""
    loops = opened(raws)
    ends = {
        begin: end for end in range(len(raws)) if (begin := _begin(setting, raws, end, loops)) is not None
    }
    for begin in loops:
        if all(raw.get("end_loop") != raws[begin].get("step") for raw in raws):
            _never_closed(setting, begin, raws[begin])
    made: list[_Bracket] = []
    for begin, end in sorted(ends.items()):
        crossed = [one for one in made if one.begin < begin < one.end < end]
        if crossed:
            _crossing(setting, crossed[-1], raws[begin])
            continue
        around = [one for one in made if end < one.end]
        bracket = _bracket(setting, raws, begin, end, around[-1] if around else None)
        if bracket is not None:
            made.append(bracket)
            yield bracket


def _begin(
    setting: Setting, raws: Sequence[Mapping[str, Any]], index: int, loops: Sequence[int]
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
            f"the loop of step {shown(name)} has ended before",
            "end it once",
        )
    elif position is None:
        names = [str(raws[i].get("step")) for i in loops]
        code, message = Code.UNKNOWN_STEP, f"there is no step {shown(name)} whose loop could end here"
        hint = setting.report.suggest(name, names, "name the step that has the loop")
    elif position not in loops:
        why = "has no loop" if raws[position].get("loop") is None else "repeats its own tool"
        code, message = Code.MISPLACED, f"step {shown(name)} {why}: nothing ends here"
        hint = "name a step with loop: and without tool:"
    else:
        code, message = Code.MISPLACED, f"the loop of step {shown(name)} begins only further down"
        hint = "put its end behind it"
    setting.report.add(code, ("workflow", index, "end_loop"), message, hint)
    return None


def _never_closed(setting: Setting, index: int, raw: Mapping[str, Any]) -> None:
    setting.report.add(
        Code.MISSING,
        ("workflow", index, "loop"),
        f"the loop of step {shown(raw.get('step'))} repeats nothing: the step has no tool, and no step ends the loop",
        f"add end_loop: {raw.get('step')} to the step behind those that repeat, or give the step a tool",
    )


def _crossing(setting: Setting, outer: _Bracket, raw: Mapping[str, Any]) -> None:
    name = raw.get("step")
    setting.report.add(
        Code.MISPLACED,
        (*outer.end_path, "end_loop"),
        f"the loop of step {shown(outer.begin_name)} ends here, before that of step {shown(name)}, which began in it",
        f"end the loop of {name} first",
    )


def _bracket(
    setting: Setting, raws: Sequence[Mapping[str, Any]], begin: int, end: int, outer: _Bracket | None
) -> _Bracket | None:
    loop = raws[begin]["loop"]
    path: Path = ("workflow", begin)
    report = setting.report
    if loop.get("iterator") is None or "in" not in loop:
        key = "iterator" if loop.get("iterator") is None else "in"
        report.missing((*path, "loop"), key, f"the loop has no {key}", f"add {key}:")
        return None
    made = _Bracket(
        begin,
        end,
        raws[begin]["step"],
        raws[end].get("step") or "",
        path,
        ("workflow", end),
        loop,
        outer,
        names_of(raws[end].get("result")),
    )
    if not _usable_iterator(setting, made):
        return None
    mode = loop.get("mode") or names_of(loop.get("spec")).get("mode")
    if mode == "parallel":
        report.add(
            Code.MISPLACED,
            (*path, "loop"),
            "the steps between a loop and its end run for one item after another",
            "for mode: parallel put the loop on the step that has the tool",
        )
    if raws[begin].get("pass") is not None:
        report.add(
            Code.MISPLACED,
            (*path, "pass"),
            "a loop that is passed cannot end",
            "put pass: on a step before it",
            at_key=True,
        )
    return made


def _usable_iterator(setting: Setting, bracket: _Bracket) -> bool:
    name, at = bracket.iterator, (*bracket.path, "loop", "iterator")
    around = bracket.outer
    while around is not None:
        if around.iterator == name:
            message = f"the loop of step {shown(around.begin_name)} around this one has the iterator {shown(name)} too"
            setting.report.add(Code.NAME, at, message, "give each loop an iterator of its own")
            return False
        around = around.outer
    if name in setting.steps:
        message = f"a step is called {shown(name)} as well, and templates would read that"
        setting.report.add(Code.NAME, at, message, "rename the iterator")
        return False
    if name in ("index", "parent") or re.fullmatch(r"[^\W\d]\w*", name) is None:
        setting.report.add(Code.NAME, at, f"no iterator can be called {shown(name)}", "call it item")
        return False
    return bool(bracket.end_name)


def _inside(setting: Setting, bracket: _Bracket) -> set[str]:
    """The steps in the brackets: those that stand there, and those on a way through them."""
    workflow = setting.workflow
    outside = {bracket.begin_name, bracket.end_name}
    first = workflow.by_name(bracket.begin_name)
    starts = [way.step for way in first.onward.ways if way.step] if first and first.onward else []
    reached = workflow.reached(starts, outside)
    back = {
        name for name in reached if bracket.end_name in _targets_from(setting, name, {bracket.begin_name})
    }
    written = {
        draft.name
        for draft in workflow.drafts
        if len(draft.path) > 1 and bracket.begin < int(draft.path[1]) < bracket.end
    }
    own = {
        draft.name for draft in workflow.drafts if draft.path[:2] == bracket.path and draft.name in reached
    }
    return back | written | own


def _targets_from(setting: Setting, name: str, closed: set[str]) -> set[str]:
    drafts = {draft.name: draft for draft in setting.workflow.drafts}
    found: set[str] = set()
    for step in setting.workflow.reached([name], closed):
        draft = drafts[step]
        found |= {way.step for way in draft.onward.ways if way.step} if draft.onward is not None else set()
    return found


@dataclass(frozen=True, slots=True)
class _Cycle:
    """Writes the steps of one bracket."""

    setting: Setting
    bracket: _Bracket
    inside: set[str]

    def write(self) -> None:
        bracket, workflow = self.bracket, self.setting.workflow
        begin, end = workflow.by_name(bracket.begin_name), workflow.by_name(bracket.end_name)
        if begin is None or end is None:
            return
        each = Draft(
            workflow.fresh(f"{bracket.begin_name}.each"),
            bracket.path,
            {"set": self._item()},
            None,
            (*bracket.path, "step"),
        )
        done = Draft(
            workflow.fresh(f"{bracket.begin_name}.done"),
            bracket.end_path,
            {"set": self._kept()},
            None,
            (*bracket.end_path, "end_loop"),
        )
        first = self._into(begin, each, done)
        self._lead_in(begin, each)
        done.onward = self._turn(each)
        workflow.behind(begin, [each] if first is each else [each, first])
        workflow.drafts.insert(workflow.drafts.index(end), done)
        for draft in [first, *(one for one in workflow.drafts if one.name in self.inside)]:
            self._redirect(draft, done)
        if end.onward is None and "tool" not in end.body:
            end.body["tool"] = {"kind": "noop"}

    def _into(self, begin: Draft, each: Draft, done: Draft) -> Draft:
        """From `each` into the brackets, and to their end: there the token waits until nothing of the iteration is
        left, so that one which ends on its way has no result. The step that says where the loop leads."""
        bracket, gates = self.bracket, self.setting.gates
        path = (*bracket.end_path, "end_loop")
        first, onward = each, copied(begin.onward) or Onward(bracket.path)
        if (
            "tool" in begin.body
            or len(onward.choices) != 1
            or any(way.when is not None for way in onward.ways)
        ):
            name = self.setting.workflow.fresh(f"{bracket.begin_name}.next")
            first = Draft(name, bracket.path, {}, onward, (*bracket.path, "step"))
            if "tool" in begin.body:
                first.body["tool"] = Moved(begin.body.pop("tool"), bracket.path)
            onward = Onward(bracket.path, choices=[[Way(bracket.path, name, bracket.path)]])
        onward.changed()
        onward.choices[0].append(Way(path, done.name, path))
        each.onward = onward
        for number, gate in enumerate(gates):
            if gate.source == begin.name:
                gates[number] = replace(gate, source=first.name)
        return first

    def _lead_in(self, begin: Draft, each: Draft) -> None:
        bracket = self.bracket
        at = (*bracket.path, "loop", "in")
        key = f"{bracket.key}_items"
        own = begin.body.get("input") or {}
        begin.body["input"] = {**own, key: Moved(bracket.loop["in"], at)}
        written = begin.body.get("set") or {}
        begin.body["set"] = {
            **written,
            bracket.state: Moved(
                {
                    "items": f"{{{{ [] if args.{key} is none else (args.{key} if args.{key} is sequence "
                    f"and args.{key} is not string and args.{key} is not mapping else [args.{key}]) }}}}",
                    "index": 0,
                    "outer": "{{ iter if iter.index is defined else iter.parent }}",
                },
                at,
            ),
            f"ctx.{bracket.key}_results": [],
        }
        path = (*bracket.path, "loop")
        begin.onward = Onward(
            path,
            choices=[
                [Way(path, each.name, path, f"{{{{ {bracket.state}.items | length > 0 }}}}", path)],
                [Way(path, bracket.end_name, path, body={"set": self._result()})],
            ],
        )

    def _item(self) -> dict[str, Tree]:
        state, path = self.bracket.state, (*self.bracket.path, "loop")
        item = f"{{{{ {state}.items[{state}.index] }}}}"
        index = f"{{{{ {state}.index }}}}"
        scope = {self.bracket.iterator: item, "index": index, "parent": f"{{{{ {state}.outer }}}}"}
        assigned: dict[str, Tree] = {
            "ctx.iter": scope,
            f"ctx.{self.bracket.iterator}": item,
            "ctx.loop_index": index,
        }
        return {name: Moved(value, path) for name, value in assigned.items()}

    def _kept(self) -> dict[str, Tree]:
        bracket, path = self.bracket, (*self.bracket.end_path, "end_loop")
        handed = f"args.{bracket.key}_result"
        results = f"ctx.{bracket.key}_results"
        return {
            results: Moved(f"{{{{ {results} + [{handed}[0] if {handed} is defined else none] }}}}", path),
            f"{bracket.state}.index": Moved(f"{{{{ {bracket.state}.index + 1 }}}}", path),
        }

    def _turn(self, each: Draft) -> Onward:
        bracket, path = self.bracket, (*self.bracket.end_path, "end_loop")
        stays = f"not {bracket.state}.left"
        more = f"{{{{ {stays} and {bracket.state}.index < {bracket.state}.items | length }}}}"
        return Onward(
            path,
            choices=[
                [Way(path, each.name, path, more, path)],
                [
                    Way(
                        path,
                        bracket.end_name,
                        path,
                        f"{{{{ {stays} }}}}",
                        path,
                        {"set": self._around() | self._result()},
                    )
                ],
            ],
            # Who has left the loop is elsewhere.
            spec={"no_next_is_error": False},
        )

    def _around(self) -> dict[str, Tree]:
        """Back to the names of the loop around this one."""
        path = (*self.bracket.end_path, "end_loop")
        outer = f"{{{{ {self.bracket.state}.outer }}}}" if self.bracket.outer is not None else None
        index = f"{{{{ {self.bracket.state}.outer.index }}}}" if self.bracket.outer is not None else None
        return {"ctx.iter": Moved(outer, path), "ctx.loop_index": Moved(index, path)}

    def _result(self) -> dict[str, Tree]:
        """`result` of the step that ends the loop, mapped into ctx."""
        path = (*self.bracket.end_path, "result")
        return {
            name if name.startswith("ctx.") else f"ctx.{name}": Moved(value, (*path, name))
            for name, value in self.bracket.result.items()
        }

    def _redirect(self, draft: Draft, done: Draft) -> None:
        """Arcs to the end lead to where the iteration ends, and hand over its result; those that lead out of the
        brackets end the loop."""
        for way in draft.onward.ways if draft.onward is not None else ():
            if way.step is None or way.step in self.inside or way.step == done.name:
                continue
            assert draft.onward is not None
            draft.onward.changed()
            if way.step != self.bracket.end_name:
                around = self._around() if self.bracket.outer is not None else {}
                way.assign({f"{self.bracket.state}.left": True} | around)
                continue
            way.step = done.name
            handed: Tree = {f"{self.bracket.key}_result": ["{{ result }}"]}
            own = way.body.get("input")
            way.body["input"] = {**_entries(own), **handed}


def _entries(own: Tree) -> dict[str, Tree]:
    if isinstance(own, Moved):
        return {name: Moved(value, (*own.path, name)) for name, value in names_of(own.value).items()}
    return dict(own or {})
