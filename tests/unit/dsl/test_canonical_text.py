"""The canonical form is printed with everything that was not rewritten as it was written."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping

import pytest

from noetl.dsl import compile_playbook
from noetl.dsl.read.canonical_text import canonical_text
from noetl.errors import PlaybookInvalid
from noetl.net.codec import same_net
from noetl.net.model import KindInfo

Migrate = Callable[[str], str]


@pytest.fixture
def migrated(kinds: Mapping[str, KindInfo]) -> Migrate:
    def run(text: str) -> str:
        before = compile_playbook(text, file="p.yaml", kinds=kinds)
        assert before.net is not None, before.problems
        found = canonical_text(before.source)
        after = compile_playbook(found, file="p.yaml", kinds=kinds)
        assert after.net is not None, after.problems
        assert same_net(before.net, after.net)
        assert not after.source.origins
        assert canonical_text(after.source) == found
        return found

    return run


def test_what_is_canonical_stays_to_the_byte(migrated: Migrate) -> None:
    text = "apiVersion: noetl.io/v2\nkind:   Playbook # odd\nworkflow: [ {step: start} ]\n\n\n"
    assert migrated(text) == text


def test_mappings_of_one_entry_keep_their_braces(migrated: Migrate) -> None:
    written = "workflow: [{step: start, set_ctx: {a: 1}, next: {arcs: [{step: end}]}}, {step: end}]\n"
    assert migrated(written) == written.replace("set_ctx: {a: 1}", "set: {ctx.a: 1}")


def test_keys_that_are_numbers_are_texts_as_elsewhere(migrated: Migrate) -> None:
    written = (
        'workflow: [{step: start, vars: {1: "a", 007: [b], 0x10: c, 1_000: {d: 1}, 1.50: e}, next: '
        "end}, {step: end}]"
    )
    found = migrated(written)
    for said in ('ctx.1: "a"', "ctx.007: [b]", "ctx.0x10: c", "ctx.1_000: {d: 1}", "ctx.1.50: e"):
        assert said in found, found


def test_only_old_spellings_change(migrated: Migrate) -> None:
    text = textwrap.dedent("""\
        # A playbook with old spellings.
        apiVersion: noetl.io/v1   # old
        kind: Playbook

        # what it works on
        workload:
          day: 2026-01-01
          n: 010
          yes: "no"
          long: {list: [1, 2, 3], text: 'a very long line that nobody wants to have folded, not even at one hundred and twenty columns'}

        workflow:
          # first
          - step: start
            desc: >-
              folded
              text
            tool:
              kind: python
              with:            # inputs
                a: "{{ n }}"   # the number
                # the last one
                b: 'x'
              code: |
                # not a comment
                result = a
            # now keep it
            set_ctx:
              total: "{{ result }}"
            next: end   # done
          - step: end
            loop: {in: [1, 2], iterator: i, mode: parallel}
            tool: {kind: noop, set_iter: {x: 1}}
        # behind the end
        """)
    expected = text
    for old, new in (
        ("noetl.io/v1", "noetl.io/v2"),
        ("with:            #", "input:           #"),
        ("set_ctx:", "set:"),
        ("total:", "ctx.total:"),
        ("mode: parallel}", "spec: {mode: parallel}}"),
        ("set_iter: {x: 1}", "set: {iter.x: 1}"),
    ):
        assert old in expected
        expected = expected.replace(old, new)
    assert migrated(text) == expected


def test_anchors_and_merge_keys_stay_where_nothing_changed(migrated: Migrate) -> None:
    text = textwrap.dedent("""\
        apiVersion: noetl.io/v2
        kind: Playbook
        workflow:
        - step: start
          tool: &call {kind: noop, input: {a: 1}}
          next: b
        - step: b
          tool:
            <<: *call
            spec: {timeout: 3}
          next: c
        - step: c
          tool: *call
          set_ctx: {x: 1}
        """)
    found = migrated(text)
    assert found.count("*call") == 2
    assert found.endswith("set: {ctx.x: 1}\n")


def test_of_anchors_with_one_name_an_alias_is_the_last(migrated: Migrate) -> None:
    given = "tool: {kind: noop, input: {a: &one 1, b: *one, c: &one 2, d: *one}}"
    written = f"workflow: [{{step: start, {given}, set_ctx: {{a: 1}}}}]\n"
    assert migrated(written) == written.replace("set_ctx: {a: 1}", "set: {ctx.a: 1}")


def test_what_two_steps_share_stays_shared(migrated: Migrate) -> None:
    text = textwrap.dedent("""\
        apiVersion: noetl.io/v2
        kind: Playbook
        workflow:
        - step: start
          tool: {kind: noop, with: &in {a: {b: 1}}}
          next: b
        - step: b
          tool: {kind: noop, with: *in}
        """)
    assert migrated(text) == text.replace("with:", "input:")


def test_a_comment_whose_place_is_gone_comes_first(migrated: Migrate) -> None:
    text = textwrap.dedent("""\
        apiVersion: noetl.io/v2
        kind: Playbook
        workflow:
        - step: start
          tool: {kind: noop}
          set: {ctx.a: 1}
          set_ctx:
            # nobody needs this
            a: 2  # the newer
          next: end
        - step: end
        """)
    found = migrated(text)
    assert sum(found.count(comment) for comment in ("# nobody needs this", "# the newer")) == 2


def test_comments_whose_place_is_gone_stand_before_their_step(migrated: Migrate) -> None:
    text = textwrap.dedent("""\
        apiVersion: noetl.io/v2
        kind: Playbook
        workflow:
          # the first one
          - step: start
            tool: {kind: noop}
            vars:
              # what is kept
              a: 1
            next: end
          - step: end
        """)
    assert "  # the first one\n  # what is kept\n  - step: start\n" in migrated(text)


def test_lines_end_as_they_did_and_mappings_are_indented_as_they_were(migrated: Migrate) -> None:
    text = textwrap.dedent("""\
        apiVersion: noetl.io/v2
        kind: Playbook
        metadata:
            name: four
        workflow:
            - step: start
              tool:
                  kind: noop
                  with: {a: 1} # given
              next: end
            - step: end
        """)
    wanted = text.replace("with:", "input:")
    assert migrated(text) == wanted
    assert migrated(text.replace("\n", "\r\n")) == wanted.replace("\n", "\r\n")


def test_what_was_one_line_stays_so_unless_comments_come_into_it(migrated: Migrate) -> None:
    text = textwrap.dedent("""\
        apiVersion: noetl.io/v2
        kind: Playbook
        workflow:
        - step: start
          tool: {kind: noop}
          retry:
            # three times
            max_attempts: 3  # all calls
          next: end
        - {step: end, tool: {kind: noop, with: {a: 1}}}
        """)
    found = migrated(text)
    assert "{step: end, tool: {kind: noop, input: {a: 1}}}" in found
    assert "          attempts: 3 # all calls\n" in found.replace("  # all", " # all")
    assert "  # three times\n" in found


def test_older_spellings_inside_of_what_a_dialect_moves_are_rewritten_too(migrated: Migrate) -> None:
    text = textwrap.dedent("""\
        apiVersion: noetl.io/v2
        kind: Playbook
        workflow:
        - step: start
          loop: {in: [1], iterator: n}
          tool: {kind: noop}
          sink: {kind: noop, set_iter: {x: 1}}
        """)
    assert "set: {iter.x: 1}" in migrated(text)


def test_a_yaml_that_cannot_be_printed_with_its_comments_is_refused_by_name(
    kinds: Mapping[str, KindInfo],
) -> None:
    text = "apiVersion: noetl.io/v1\nkind: \tPlaybook\nworkflow: [{step: start}]\n"
    found = compile_playbook(text, file="p.yaml", kinds=kinds)
    assert found.net is not None
    with pytest.raises(PlaybookInvalid, match=r"p\.yaml: this YAML cannot be rewritten"):
        canonical_text(found.source)


@pytest.mark.parametrize("word", ["then", "else"])
def test_a_word_that_means_nothing_in_a_rule_of_case_does_not_become_one_that_means_something(
    migrated: Migrate, word: str
) -> None:
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nworkflow:\n- step: start\n  tool: {kind: noop}\n  case:\n"
        f"  - when: '{{{{ true }}}}'\n    then: {{set: {{ctx.x: 1}}, next: {{step: end, {word}: "
        f"[]}}}}\n- step: end\n"
    )
    assert f"{word}:" not in migrated(text)
