"""The list of checks. A new one is a function in a file of this room, and a line here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from noetl.dsl.checks import (
    boundaries,
    caching,
    callbacks,
    changed,
    code,
    code_names,
    code_results,
    ends,
    flow,
    hidden_inputs,
    key,
    keychain,
    limits,
    repeat,
    scopes,
    soundness,
    structure,
    templates,
    tools,
    trials,
    values,
)
from noetl.dsl.checks.subject import Check, Subject
from noetl.dsl.problems import Finding

#: What the document itself shows. These are asked first: what they find explains what compiling
#: misses.
OF_DOCUMENTS: Final[Sequence[Check]] = (
    structure.check_keys,
    structure.check_keys_of_tools_at_steps,
    structure.check_header,
    structure.check_requirements,
    structure.check_outputs,
    structure.check_policies_beside_kinds,
    structure.check_frames,
    structure.check_reducers,
    structure.check_loops_of_tasks,
    limits.check_limits,
)
#: What is known once it is compiled, whether that gave a net or not.
OF_NETS: Final[Sequence[Check]] = (
    keychain.check_entry_names,
    keychain.check_entries,
    keychain.check_circles_of_entries,
    key.check_secrets,
    tools.check_timeouts,
    tools.check_deadlines,
    tools.check_keys_of_policies,
    tools.check_keys_of_specs,
    tools.check_after_around_tasks,
    tools.check_keys_of_tools,
    tools.check_required_keys,
    repeat.check_repeats,
    caching.check_caches,
    code.check_files,
    code.check_sql,
    code.check_python,
    code.check_templates_in_code,
    code.check_rendered_code,
    code.check_interpolated_sql,
    tools.check_values,
    values.check_parallel_writes,
    changed.check_unmatched_errors,
    changed.check_retries,
    flow.check_retries,
    flow.check_places_of_retries,
    flow.check_jumps,
    flow.check_order_of_tasks,
    code.check_keys_beside_claims,
    code.check_claims,
    templates.check_syntax,
    templates.check_guards,
    templates.check_names,
    boundaries.check_event_names,
    hidden_inputs.check_hidden_inputs,
    callbacks.check_addresses,
    values.check_circles,
    values.check_plain_secrets,
    scopes.check_handlers,
    flow.check_reachability,
    flow.check_cycles,
    flow.check_shadowed_arcs,
    flow.check_joins,
    ends.check_arcs_behind_ends,
    soundness.check_soundness,
    values.check_inputs,
    code_names.check_names_of_code,
    code_results.check_results_of_code,
    trials.check_tests,
)


def findings(subject: Subject, checks: Sequence[Check]) -> Iterator[Finding]:
    """What `checks` find, in their order."""
    for check in checks:
        yield from check(subject)
