"""The steps of a net in the order in which a reader follows them."""

from __future__ import annotations

from noetl.net.model import Net, Transition


def followed(net: Net) -> tuple[str, ...]:
    """The steps that a path leads to from the entry: each behind those that lead to it, cycles apart, and one branch
    before the next. The final step is the last."""
    done: list[str] = []
    seen = {net.entry}
    work = [(net.entry, _targets(net.steps[net.entry]))]
    while work:
        step, waiting = work[-1]
        if not waiting:
            done.append(step)
            work.pop()
        elif (target := waiting.pop(0)) not in seen:
            seen.add(target)
            work.append((target, _targets(net.steps[target])))
    order = [step for step in reversed(done) if step != net.final_step]
    return (*order, net.final_step) if net.final_step else tuple(order)


def _targets(step: Transition) -> list[str]:
    # The last branch is left first, and so stands behind the others.
    return list(dict.fromkeys(arc.step for arc in reversed(step.arcs) if arc.step))
