"""Values in command lines, as a real bash reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noetl.errors import TemplateError
from noetl.expressions import NoQuoting, QuotedText, evaluate
from noetl.tools.code.quoting import CommandLine
from tests.waiting import GUARD_S

BASH = shutil.which("bash")
NASTY = "a'b\"c $(touch pwned) `touch pwned` ; touch pwned\n${HOME} \\ #x"

pytestmark = pytest.mark.skipif(BASH is None, reason="There is no bash on PATH.")


def rendered(command: str, /, **names: Any) -> str:
    found = evaluate(QuotedText(command, CommandLine), names)
    assert isinstance(found, str)
    return found


def printed(command: str, /, **names: Any) -> str:
    """What bash prints when it runs the rendered command."""
    argv = [str(BASH), "-c", rendered(command, **names)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=True,
            env={"PATH": os.defpath},
            cwd=folder,
        )
        assert list(Path(folder).iterdir()) == []
    return done.stdout


#: A command → what it prints before the value, and behind it (`V`: the value again).
PLACES = {
    "printf %s {{ v }}": ("", ""),
    'printf %s "{{ v }}"': ("", ""),
    "printf %s '{{ v }}'": ("", ""),
    "printf %s a{{ v }}b": ("a", "b"),
    "printf %s \"a {{ v }} b\"'c'": ("a ", " bc"),
    "printf %s 'it'\\''s {{ v }}'": ("it's ", ""),
    'x="$(printf %s "{{ v }}."; echo)"; printf %s "${x}"': ("", "."),
    'x=$(printf %s {{ v }}.); printf %s "$x"': ("", "."),
    "(printf '%s' {{ v }}) # it's": ("", ""),
    'f() { printf %s "$1"; }\nf {{ v }}': ("", ""),
    "printf '%s' \\\n  {{ v }}": ("", ""),
    "case x in x) printf %s {{ v }} ;; esac": ("", ""),
    "[[ a =~ (a|b) ]] && printf %s {{ v }}": ("", ""),
    "echo $(( (1 + 2) * 3 )) >&2; printf %s {{ v }}": ("", ""),
    'echo `echo \\`echo \'x\\`` >&2 || :; printf %s "{{ v }}"': ("", ""),
    "cat <<EOF\n<{{ v }}>\nEOF\nprintf %s {{ v }}": ("<", ">\nV"),
    "cat <<'EOF'\n<{{ v }}>\nEOF": ("<", ">\n"),
    "cat <<-EOF\n\tit's\n\t<{{ v }}>\n\tEOF": ("it's\n<", ">\n"),
    "cat <<EOF\n\\$(it's) \\`: {{ v }}\n{{ v }}\nEOF\nprintf '' {{ v }}": ("$(it's) `: ", "\nV\n"),
    "cat <<< {{ v }}": ("", "\n"),
    "printf %s $'a\\'b'{{ v }}": ("a'b", ""),
    "printf %s $$ >&2; printf %s $#{{ v }}": ("0", ""),
}


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=4, deadline=None)
@given(v=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
@example(v=NASTY)
@example(v="")
@example(v="'")
@example(v="\\")
@example(v="-5")
def test_a_value_is_what_the_command_gets(place: str, v: str) -> None:
    before, after = PLACES[place]
    v = v.replace("\r", "")
    assert printed(place, v=v) == before + v + after.replace("V", v)


@pytest.mark.parametrize(
    "place",
    [
        "echo ${{ v }}",
        'echo "${{ v }}"',
        "echo \\{{ v }}",
        "echo `echo {{ v }}`",
        "echo ${HOME:-{{ v }}}",
        "echo \"${HOME:-'{{ v }}'}\"",
        "echo $(( {{ v }} ))",
        "echo $'{{ v }}'",
        "echo $(case x in x) echo {{ v }};; esac)",
        "cat <<EOF\n$(echo {{ v }})\nEOF",
        "cat <<EOF\nEOF\\\nEOF\n{{ v }}\nEOF",
        "cat <<EOF\n${{ v }}\nEOF",
        "cat <<E'O'F\n{{ v }}\nEOF",
    ],
)
def test_where_it_cannot_be_sure_a_value_that_could_be_code_is_refused(place: str) -> None:
    with pytest.raises(TemplateError, match=r"read it as code .* Hand the value over with env:"):
        rendered(place, v="$(id)")
    if "((" not in place:
        assert "ab-1.txt" in rendered(place, v="ab-1.txt")


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("cat <<EOF\n{{ v }}\nEOF\ntouch x", {"v": "a\nEOF\nb"}),
        ("cat <<EOF\n{{ v }}\ntouch x\nEOF", {"v": "EOF"}),
        ("cat <<'EOF'\n{{ v }}{{ w }}\ntouch x\nEOF", {"v": "E", "w": "OF"}),
    ],
)
def test_no_value_ends_a_here_document(command: str, names: dict[str, str]) -> None:
    with pytest.raises(TemplateError, match="would end it"):
        rendered(command, **names)


@pytest.mark.parametrize(
    "place",
    ["echo ${{ v }}(echo {{ w }})", 'echo "${{ v }}(echo {{ w }})"', "cat <<E\n${{ v }}(echo {{ w }})\nE"],
)
def test_an_empty_value_joins_nothing(place: str) -> None:
    with pytest.raises(TemplateError, match="read it as code"):
        rendered(place, v="", w="; id")


def test_arithmetic_takes_numbers_and_nothing_else() -> None:
    assert printed("echo $(( {{ n }} + 1 ))", n=41) == "42\n"
    with pytest.raises(TemplateError):
        rendered("echo $(( {{ n }} + 1 ))", n="HOME")


def test_numbers_stand_bare_and_name_no_file() -> None:
    assert rendered("seq {{ n }}", n=2) == "seq 2"
    assert printed("for i in {1..{{ n }}}; do echo $i; done", n=2) == "1\n2\n"
    assert printed("echo {{ n }}>/dev/stdout", n=7) == "7\n"
    assert printed("echo '{{ n }}>'", n=7) == "7>\n"


def test_null_and_undefined_are_no_word_and_an_empty_text_is_one() -> None:
    command = "printf '[%s]' a {{ v }} b"
    assert printed(command, v=None) == printed(command) == "[a][b]"
    assert printed(command, v="") == "[a][][b]"


def test_what_the_template_says_itself_is_not_quoted() -> None:
    command = "printf '[%s]' {% for one in many %}{{ one }} {% endfor %}{% if many %}$(echo x){% endif %}"
    assert printed(command, many=["a b", "c"]) == "[a b][c][x]"


def test_safe_says_that_a_value_is_a_part_of_the_command() -> None:
    assert rendered("ls {{ options | safe }} {{ file }}", options="-l -a", file="a b") == "ls -l -a 'a b'"


def test_a_command_that_is_one_expression_is_used_as_it_is() -> None:
    assert rendered("{{ command }}", command="echo $HOME") == "echo $HOME"


def test_what_a_template_collects_first_is_one_value() -> None:
    assert rendered("echo {% set x %}a {{ v }}{% endset %}{{ x }}", v="'") == "echo 'a '\"'\"''"
    assert rendered("echo {% filter upper %}a {{ v }}{% endfilter %}", v="b") == "echo 'A B'"


def test_where_nobody_quotes_a_command_has_no_values() -> None:
    assert evaluate(QuotedText("echo {{ v | safe }}", NoQuoting), {"v": "a b"}) == "echo a b"
    with pytest.raises(TemplateError, match="does not know how to quote it"):
        evaluate(QuotedText("echo {{ v }}", NoQuoting), {"v": 1})


def test_other_texts_are_not_quoted() -> None:
    assert evaluate("echo {{ v }}", {"v": "a b"}) == "echo a b"
