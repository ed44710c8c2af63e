"""Loops around several steps become cycles.

The step of the loop evaluates the collection, `<loop>.each` puts an item into ctx and leads into
the region, every arc to the step of `end_loop` leads to `<loop>.done`, which keeps the result and
goes back or on. Where the loop stands is in `ctx.<loop>_loop`, and the scope of its iteration in
`ctx.<loop>_iter`, which its steps name by `iteration`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from noetl.dsl.dialects.parts import reach
from noetl.dsl.dialects.rules.drafts import NextRoutes, RewriteContext, Route, StepDraft, entries_at
from noetl.dsl.dialects.rules.loop_regions import LoopRegion, loop_regions
from noetl.dsl.read.origins import Rewritten, Tree


def close_loops(context: RewriteContext, raws: Sequence[Mapping[str, Any]]) -> None:
    """Rewrites all of them. `raws` are the steps as written."""
    found = list(loop_regions(context, raws))
    inside = {one.begin: _inside(context, one) for one in found}
    for one in found:
        _Cycle(context, one, inside[one.begin]).write()


def _inside(context: RewriteContext, region: LoopRegion) -> set[str]:
    """The steps in the regions: those that stand there, and those on a way through them."""
    workflow = context.workflow
    outside = {region.begin_name, region.end_name}
    targets = workflow.targets()
    reached = reach(targets.get(region.begin_name, ()), targets, lambda name: name not in outside)
    sources: dict[str, list[str]] = {name: [] for name in (*reached, region.end_name)}
    for name in reached:
        for target in targets[name]:
            sources.setdefault(target, []).append(name)
    back = reach(sources[region.end_name], sources)
    written = {draft.name for draft in workflow.drafts if region.begin < draft.place < region.end}
    own = {draft.name for draft in workflow.drafts if draft.place == region.begin and draft.name in reached}
    return {*back, *written, *own}


@dataclass(frozen=True, slots=True)
class _Cycle:
    context: RewriteContext
    region: LoopRegion
    inside: set[str]

    def write(self) -> None:
        region, workflow = self.region, self.context.workflow
        begin, end = workflow.by_name(region.begin_name), workflow.by_name(region.end_name)
        if begin is None or end is None:
            return
        each = StepDraft(
            workflow.names.new(f"{region.begin_name}.each"),
            region.path,
            {"set": self._set_item()},
            None,
            (*region.path, "step"),
        )
        done = StepDraft(
            workflow.names.new(f"{region.begin_name}.done"),
            region.end_path,
            {"set": self._keep_result()},
            None,
            (*region.end_path, "end_loop"),
        )
        first = self._into(begin, each, done)
        self._lead_in(begin, each)
        done.onward = self._turn(each)
        workflow.behind(begin, [each] if first is each else [each, first])
        workflow.drafts.insert(workflow.drafts.index(end), done)
        for draft in [first, *(one for one in workflow.drafts if one.name in self.inside)]:
            self._redirect(draft, done)
            draft.body["iteration"] = Rewritten(region.scope, region.path)
        each.body["iteration"] = Rewritten(region.scope, region.path)
        if region.outer is not None:
            done.body["iteration"] = Rewritten(region.outer.scope, region.path)
        if end.onward is None and "tool" not in end.body:
            end.body["tool"] = {"kind": "noop"}

    def _into(self, begin: StepDraft, each: StepDraft, done: StepDraft) -> StepDraft:
        """From `each` into the region, and to their end: there the token waits until nothing of the
        iteration is left, so that one which ends on its way has no result. The step that says where
        the loop leads."""
        region, gates = self.region, self.context.gates
        path = (*region.end_path, "end_loop")
        first, onward = each, begin.onward.copy() if begin.onward else NextRoutes(region.path)
        if (
            "tool" in begin.body
            or len(onward.choices) != 1
            or any(route.when is not None for route in onward.routes)
        ):
            name = self.context.workflow.names.new(f"{region.begin_name}.next")
            first = StepDraft(name, region.path, {}, onward, (*region.path, "step"))
            if "tool" in begin.body:
                first.body["tool"] = Rewritten(begin.body.pop("tool"), region.path)
            onward = NextRoutes(region.path, choices=[[Route(region.path, name, region.path)]])
        onward.mark_changed()
        onward.choices[0].append(Route(path, done.name, path))
        each.onward = onward
        for number, gate in enumerate(gates):
            if gate.source == begin.name:
                gates[number] = replace(gate, source=first.name)
        return first

    def _lead_in(self, begin: StepDraft, each: StepDraft) -> None:
        region = self.region
        at = (*region.path, "loop", "in")
        key = f"{region.key}_items"
        own = begin.body.get("input") or {}
        begin.body["input"] = {**own, key: Rewritten(region.loop["in"], at)}
        written = begin.body.get("set") or {}
        begin.body["set"] = {
            **written,
            region.state: Rewritten(
                {
                    "items": f"{{{{ [] if args.{key} is none else (args.{key} if args.{key} is sequence "
                    f"and args.{key} is not string and args.{key} is not mapping else [args.{key}]) }}}}",
                    "index": 0,
                    "outer": "{{ (iter if iter.index is defined else iter.parent) | default(none) }}",
                },
                at,
            ),
            f"ctx.{region.key}_results": [],
        }
        path = (*region.path, "loop")
        begin.onward = NextRoutes(
            path,
            choices=[
                [Route(path, each.name, path, f"{{{{ {region.state}.items | length > 0 }}}}", path)],
                [Route(path, region.end_name, path, body={"set": self._result()})],
            ],
        )

    def _set_item(self) -> dict[str, Tree]:
        state, path = self.region.state, (*self.region.path, "loop")
        item = f"{{{{ {state}.items[{state}.index] }}}}"
        index = f"{{{{ {state}.index }}}}"
        own = {self.region.iterator: item, "index": index, "parent": f"{{{{ {state}.outer }}}}"}
        assigned: dict[str, Tree] = {
            self.region.scope: {**self._outer_items(), **own},
            # For steps behind the loop, which are in no iteration.
            f"ctx.{self.region.iterator}": item,
        }
        return {name: Rewritten(value, path) for name, value in assigned.items()}

    def _outer_items(self) -> dict[str, Tree]:
        """What the loops around this one call their items: these are read bare as well."""
        found: dict[str, Tree] = {}
        around = self.region.outer
        while around is not None:
            found[around.iterator] = f"{{{{ {around.scope}.{around.iterator} }}}}"
            around = around.outer
        return found

    def _keep_result(self) -> dict[str, Tree]:
        region, path = self.region, (*self.region.end_path, "end_loop")
        handed = f"args.{region.key}_result"
        results = f"ctx.{region.key}_results"
        return {
            results: Rewritten(f"{{{{ {results} + [{handed}[0] if {handed} is defined else none] }}}}", path),
            f"{region.state}.index": Rewritten(f"{{{{ {region.state}.index + 1 }}}}", path),
        }

    def _turn(self, each: StepDraft) -> NextRoutes:
        region, path = self.region, (*self.region.end_path, "end_loop")
        stays = f"not {region.state}.left"
        more = f"{{{{ {stays} and {region.state}.index < {region.state}.items | length }}}}"
        return NextRoutes(
            path,
            choices=[
                [Route(path, each.name, path, more, path)],
                [
                    Route(
                        path,
                        region.end_name,
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
        path = (*self.region.end_path, "result")
        return {
            name if name.startswith("ctx.") else f"ctx.{name}": Rewritten(value, (*path, name))
            for name, value in self.region.result.items()
        }

    def _redirect(self, draft: StepDraft, done: StepDraft) -> None:
        """Arcs to the end lead to where the iteration ends, and pass its result; those that
        lead out of the regions end the loop."""
        for route in draft.onward.routes if draft.onward is not None else ():
            if route.step is None or route.step in self.inside or route.step == done.name:
                continue
            assert draft.onward is not None
            draft.onward.mark_changed()
            if route.step != self.region.end_name:
                route.body["set"] = {**(route.body.get("set") or {}), f"{self.region.state}.left": True}
                continue
            route.step = done.name
            handed: Tree = {f"{self.region.key}_result": ["{{ result | default(none) }}"]}
            own = route.body.get("input")
            if isinstance(own, Rewritten):
                own = entries_at(own.value, own.path)
            route.body["input"] = {**(own or {}), **handed}
