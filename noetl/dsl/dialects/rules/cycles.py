"""Loops around several steps become cycles.

The step of the loop evaluates the collection, `<loop>.each` puts an item into ctx and leads into the brackets, every arc to
the step of `end_loop` leads to `<loop>.done`, which keeps the result and goes back or on. Where the loop stands is in
`ctx.<loop>_loop`, and the scope of its iteration in `ctx.<loop>_iter`, which its steps name by `iteration`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from noetl.dsl.dialects.rules.brackets import Bracket, brackets
from noetl.dsl.dialects.rules.drafts import Draft, Onward, Way, names_of
from noetl.dsl.dialects.rules.sequence import copied
from noetl.dsl.dialects.rules.setting import Setting
from noetl.dsl.read.origins import Moved, Tree


def bracket_loops(setting: Setting, raws: Sequence[Mapping[str, Any]]) -> None:
    """Rewrites all of them. `raws` are the steps as written."""
    found = list(brackets(setting, raws))
    inside = {one.begin: _inside(setting, one) for one in found}
    for one in found:
        _Cycle(setting, one, inside[one.begin]).write()


def _inside(setting: Setting, bracket: Bracket) -> set[str]:
    """The steps in the brackets: those that stand there, and those on a way through them."""
    workflow = setting.workflow
    outside = {bracket.begin_name, bracket.end_name}
    first = workflow.by_name(bracket.begin_name)
    starts = [way.step for way in first.onward.ways if way.step] if first and first.onward else []
    reached = workflow.reached(starts, outside)
    back = _leading_to(setting, bracket.end_name, reached)
    written = {draft.name for draft in workflow.drafts if bracket.begin < draft.place < bracket.end}
    own = {draft.name for draft in workflow.drafts if draft.place == bracket.begin and draft.name in reached}
    return back | written | own


def _leading_to(setting: Setting, name: str, among: Sequence[str]) -> set[str]:
    """Those of the steps `among` from which a way through them leads to the step `name`."""
    before: dict[str, list[str]] = {}
    inside = set(among)
    for draft in setting.workflow.drafts:
        if draft.name in inside and draft.onward is not None:
            for way in draft.onward.ways:
                before.setdefault(way.step or "", []).append(draft.name)
    found: set[str] = set()
    waiting = list(before.get(name, ()))
    while waiting:
        step = waiting.pop()
        if step not in found:
            found.add(step)
            waiting.extend(before.get(step, ()))
    return found


@dataclass(frozen=True, slots=True)
class _Cycle:
    """Writes the steps of one bracket."""

    setting: Setting
    bracket: Bracket
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
            draft.body["iteration"] = Moved(bracket.scope, bracket.path)
        each.body["iteration"] = Moved(bracket.scope, bracket.path)
        if bracket.outer is not None:
            done.body["iteration"] = Moved(bracket.outer.scope, bracket.path)
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
        own = {self.bracket.iterator: item, "index": index, "parent": f"{{{{ {state}.outer }}}}"}
        assigned: dict[str, Tree] = {
            self.bracket.scope: {**self._outer_items(), **own},
            # For steps behind the loop, which are in no iteration.
            f"ctx.{self.bracket.iterator}": item,
        }
        return {name: Moved(value, path) for name, value in assigned.items()}

    def _outer_items(self) -> dict[str, Tree]:
        """What the loops around this one call their items: these are read bare as well."""
        found: dict[str, Tree] = {}
        around = self.bracket.outer
        while around is not None:
            found[around.iterator] = f"{{{{ {around.scope}.{around.iterator} }}}}"
            around = around.outer
        return found

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
                        {"set": self._result()},
                    )
                ],
            ],
            # Who has left the loop is elsewhere.
            spec={"no_next_is_error": False},
        )

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
                way.assign({f"{self.bracket.state}.left": True})
                continue
            way.step = done.name
            handed: Tree = {f"{self.bracket.key}_result": ["{{ result }}"]}
            own = way.body.get("input")
            way.body["input"] = {**_entries(own), **handed}


def _entries(own: Tree) -> dict[str, Tree]:
    if isinstance(own, Moved):
        return {name: Moved(value, (*own.path, name)) for name, value in names_of(own.value).items()}
    return dict(own or {})
