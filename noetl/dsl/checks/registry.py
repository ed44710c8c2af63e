"""The list of checks. A new one is a function in a file of this room, and a line here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from noetl.dsl.checks import (
    calls,
    claims,
    code,
    code_templates,
    config_values,
    flow,
    inputs,
    keys,
    loops,
    plain_secrets,
    policies,
    root,
    specs,
    templates,
    workload,
)
from noetl.dsl.checks.subject import Check, Subject
from noetl.dsl.problems import Finding

#: What the document itself shows. These are asked first: what they find explains what compiling
#: misses.
OF_DOCUMENTS: Final[Sequence[Check]] = (
    keys.check_keys,
    keys.check_keys_of_tools_at_steps,
    root.check_header,
    root.check_requirements,
    keys.check_outputs,
    keys.check_policies_beside_kinds,
    loops.check_frames,
    loops.check_reducers,
    loops.check_loops_of_tasks,
)
#: What is known once it is compiled, whether that gave a net or not.
OF_NETS: Final[Sequence[Check]] = (
    specs.check_timeouts,
    specs.check_keys_of_policies,
    specs.check_keys_of_specs,
    specs.check_after_around_tasks,
    calls.check_keys_of_tools,
    calls.check_required_keys,
    code.check_files,
    code.check_sql,
    code.check_python,
    code_templates.check_templates_in_code,
    code_templates.check_rendered_code,
    code_templates.check_interpolated_sql,
    config_values.check_values,
    policies.check_errors_covered,
    policies.check_retries,
    policies.check_jumps,
    claims.check_claims,
    templates.check_syntax,
    templates.check_guards,
    templates.check_names,
    workload.check_circles,
    plain_secrets.check_plain_secrets,
    flow.check_reached,
    flow.check_cycles,
    flow.check_shadowed_arcs,
    flow.check_joins,
    inputs.check_inputs,
    code.check_names_of_code,
)


def findings(subject: Subject, checks: Sequence[Check]) -> Iterator[Finding]:
    """What `checks` find, in their order."""
    for check in checks:
        yield from check(subject)
