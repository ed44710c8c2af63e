"""Nets as pictures: Mermaid and Graphviz, and the labels of every picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.net.model import Arc, Net, Repeat, Transition

#: Longer texts are cut: a guard is a label, not a listing.
_MAX_LABEL = 60


def mermaid(net: Net) -> str:
    """A Mermaid flowchart: steps with their kinds and loops, guards on the arcs."""
    lines = ["flowchart TD"]
    nodes = _nodes(net)
    for transition in net.transitions:
        label = "<br/>".join(_mermaid_text(text) for text in label_step(transition))
        opening, closing = ("([", "])") if transition.name == net.entry else ("[", "]")
        lines.append(f'    {nodes[transition.name]}{opening}"{label}"{closing}')
    for arc in net.arcs.values():
        guard = label_arc(arc)
        label = f'|"{_mermaid_text(guard)}"|' if guard else ""
        lines.append(f"    {nodes[arc.source]} {'-.->' if arc.boundary else '-->'}{label} {nodes[arc.step]}")
    for step, word, handler in _handlers(net):
        lines.append(f'    {nodes[step]} -.->|"{word}"| {nodes[handler]}')
    return "\n".join(lines) + "\n"


def dot(net: Net) -> str:
    """A Graphviz digraph with the same content."""
    lines = [f'digraph "{_dot_text(net.name)}" {{', "    node [shape=box, style=rounded];"]
    nodes = _nodes(net)
    for transition in net.transitions:
        label = "\\n".join(_dot_text(text) for text in label_step(transition))
        bold = ', style="rounded,bold"' if transition.name == net.entry else ""
        lines.append(f'    {nodes[transition.name]} [label="{label}"{bold}];')
    for arc in net.arcs.values():
        guard = label_arc(arc)
        attributes = [f'label="{_dot_text(guard)}"'] if guard else []
        attributes += ["style=dashed"] if arc.boundary else []
        suffix = f" [{', '.join(attributes)}]" if attributes else ""
        lines.append(f"    {nodes[arc.source]} -> {nodes[arc.step]}{suffix};")
    for step, word, handler in _handlers(net):
        lines.append(f'    {nodes[step]} -> {nodes[handler]} [label="{word}", style=dotted];')
    return "\n".join([*lines, "}"]) + "\n"


def _handlers(net: Net) -> Iterator[tuple[str, str, str]]:
    """Steps with what is run when they have ended, and its word."""
    for step in net.transitions:
        if step.compensate is not None:
            yield step.name, "undone by", step.compensate.step
        if step.cleanup is not None:
            yield step.name, "finally", step.cleanup


def _nodes(net: Net) -> dict[str, str]:
    """Step → its node. Nodes are numbered: names may hold anything."""
    return {step.name: f"s{index}" for index, step in enumerate(net.transitions)}


def label_step(transition: Transition) -> list[str]:
    """The lines of a node: name, kinds, loop and join where there are any."""
    lines = [transition.name]
    kinds = list(dict.fromkeys(task.kind for task in transition.tasks))
    if kinds:
        lines.append(", ".join(kinds))
    if transition.loop is not None:
        width = transition.loop.max_in_flight
        times = f" ×{_cut(str(width))}" if width is not None and transition.loop.mode != "sequential" else ""
        rows = f", rows of {transition.loop.cursor.kind}" if transition.loop.cursor else ""
        lines.append(f"↻ {transition.loop.iterator} ({transition.loop.mode}{times}{rows})")
    lines += [_calls(task.name, task.repeat) for task in transition.tasks if task.repeat is not None]
    if transition.join.mode != "auto":
        count = f" {transition.join.count}" if transition.join.mode in ("count", "tokens") else ""
        lines.append(f"join: {transition.join.mode}{count}")
    if transition.milestone is not None:
        bounds = {"after": transition.milestone.after, "before": transition.milestone.before}
        lines.append("milestone: " + ", ".join(f"{word} {name}" for word, name in bounds.items() if name))
    if transition.completes:
        lines.append(f"completes: {_cut(', '.join(transition.completes))}")
    if transition.terminate is not None:
        lines.append(f"ends: {transition.terminate}")
    return lines


def _calls(name: str, repeat: Repeat) -> str:
    pages = f" by {repeat.pages.by}" if repeat.pages is not None else ""
    return f"↻ {name} (up to {_cut(str(repeat.max))} {repeat.call}s{pages})"


def label_arc(arc: Arc) -> str:
    """The guard of an arc, and how many tokens it puts down."""
    times = "" if arc.times == 1 else f"×{_cut(str(arc.times))}"
    return " ".join(filter(None, (_guard(arc), times)))


def _guard(arc: Arc) -> str:
    if arc.when is None:
        return ""
    text = str(arc.when).lower() if isinstance(arc.when, bool) else str(arc.when).strip()
    if text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1:
        text = text[2:-2].strip()
    return _cut(" ".join(text.split()))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LABEL else text[: _MAX_LABEL - 1] + "…"


def _escape(text: str, replace: Callable[[str], str]) -> str:
    return "".join(replace(char) for char in text if char.isprintable())


def _mermaid_text(text: str) -> str:
    # Entities are the only escapes that Mermaid knows; `#` opens them.
    return _escape(text, lambda char: f"#{ord(char)};" if char in '#"<>&;{}|`\\[]()' else char)


def _dot_text(text: str) -> str:
    return _escape(text, lambda char: f"\\{char}" if char in '"\\' else char)
