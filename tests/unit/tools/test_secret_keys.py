"""Keys come from a setting, a command or a file, and can be added while processes run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from noetl.errors import ConfigError
from noetl.tools.secrets.vault import FernetVault, KeySource, generate_key


def printing(text: str, status: int = 0) -> str:
    code = f"import sys; sys.stdout.write({text!r}); sys.exit({status})"
    return shlex.join([sys.executable, "-c", code])


def test_a_setting_wins_over_a_command_and_a_command_over_a_file(tmp_path: Path) -> None:
    given, printed = generate_key(), generate_key()
    token = FernetVault(given).encrypt({"a": 1})

    both = KeySource(given=given, command=printing(printed), file=tmp_path / "k")
    assert both.vault().decrypt(token) == {"a": 1}
    by_command = KeySource(command=printing(f"{printed},{given}\n"), file=tmp_path / "k")
    assert by_command.vault().decrypt(token) == {"a": 1}
    assert not (tmp_path / "k").exists()


def test_what_a_command_printed_is_used_for_a_while(tmp_path: Path) -> None:
    count, now = tmp_path / "count", [0.0]
    line = f"open({str(count)!r}, 'a').write('x'); print({generate_key()!r})"
    keys = KeySource(command=shlex.join([sys.executable, "-c", line]), clock=lambda: now[0])

    keys.vault()
    keys.vault()
    assert count.read_text() == "x"
    now[0] = 1000.0
    keys.vault()
    assert count.read_text() == "xx"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (printing("s3cret-key", 3), "exit status 3"),
        (printing(""), "printed no key"),
        ("/nowhere/at/all", "cannot be run"),
        ("'", "cannot be run"),
        (printing("s3cret-key"), "Key 1 for credentials is not 32 bytes"),
        ("echo $(cat key)", "Key 1"),
    ],
)
def test_a_command_that_gives_no_key_is_one_clear_error(command: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("(", r"\(")) as caught:
        KeySource(command=command).vault()
    assert "s3cret" not in str(caught.value)


def test_a_new_key_stands_in_front_and_a_running_process_sees_it(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    running, operator = KeySource(file=file), KeySource(file=file)
    old = running.vault().encrypt({"a": 1})
    sealed = running.vault().seal({"kind": "secret_ref"})

    operator.add()
    new = operator.vault().encrypt({"a": 2})

    assert running.vault().decrypt(new) == {"a": 2}
    assert operator.vault().decrypt(old) == {"a": 1}
    assert operator.vault().has_sealed(sealed)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_text().split(",")) == 2


def test_a_file_that_was_named_and_is_missing_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"key file .* cannot be used: No such file"):
        KeySource(file=tmp_path / "mounted", make=False).vault()
    with pytest.raises(ConfigError, match="come from NOETL_SECRET_KEY; put the new key in front"):
        KeySource(given=generate_key()).add()
