"""Labels on the command line: `--label` of runs and lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl.client import Client
from noetl.config import Settings
from tests.integration.client.conftest import served

from .conftest import Cli


def _ran(cli: Cli, *more: str) -> str:
    ended = cli("run", "sum.yaml", "--json", *more)
    assert ended.code == 0, ended.err
    return str(json.loads(ended.out)["execution_id"])


def _listed(cli: Cli, *more: str) -> list[str]:
    return [one["execution_id"] for one in json.loads(cli("execution", "list", "--json", *more).out)]


@pytest.fixture(autouse=True)
def labelled() -> None:
    """The playbook has the label `team`."""
    file = Path("sum.yaml")
    text = file.read_text()
    assert "metadata: {" in text
    file.write_text(text.replace("metadata: {", "metadata: {labels: {team: data}, "))


def test_labels_are_given_shown_and_listed(cli: Cli) -> None:
    plain = _ran(cli)
    run = _ran(cli, "--label", "team=ops", "--label", "env=a=b")
    wanted = {"team": "ops", "env": "a=b"}
    (one, _) = json.loads(cli("execution", "list", "--json").out)
    assert (one["execution_id"], one["labels"]) == (run, wanted)
    assert json.loads(cli("execution", "show", run, "--json").out)["labels"] == wanted
    assert "labels team=ops, env=a=b" in cli("execution", "show", run).out.splitlines()
    assert "labels team=data" in cli("execution", "show", plain).out.splitlines()


def test_lists_have_those_with_all_of_the_labels(cli: Cli) -> None:
    plain, run = _ran(cli), _ran(cli, "--label", "env=prod")
    assert _listed(cli, "--label", "team=data") == [run, plain]
    assert _listed(cli, "--label", "team=data", "--label", "env=prod") == [run]
    assert _listed(cli, "--label", "team=ops", "--label", "env=prod") == []
    assert _listed(cli, "--label", "team=data", "--where", "label.env is null") == [plain]


def test_one_without_labels_shows_none(cli: Cli) -> None:
    run = str(json.loads(cli("run", "gated.yaml", "--no-wait", "--json").out)["execution_id"])
    assert json.loads(cli("execution", "show", run, "--json").out)["labels"] == {}
    assert "labels" not in cli("execution", "show", run).out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("team", "--label 'team' has no value: write NAME=VALUE."),
        ("=x", "The labels of --label have the name ''"),
        ("my team=x", "The labels of --label have the name 'my team'"),
        (f"team={'x' * 201}", "The labels of --label have 201 characters as 'team', more than 200"),
    ],
)
@pytest.mark.parametrize("command", [("run", "sum.yaml"), ("execution", "list")])
def test_what_is_no_label_is_answered(cli: Cli, command: tuple[str, ...], given: str, told: str) -> None:
    ended = cli(*command, "--label", given)
    assert (ended.code, told in ended.err) == (2, True), ended.err


def test_labels_that_cannot_be_used_are_warned_of(cli: Cli) -> None:
    file = Path("sum.yaml")
    file.write_text(file.read_text().replace("{team: data}", "[team]"))
    ended = cli("run", "sum.yaml", "-q")
    assert ended.code == 0
    assert "sum.yaml:3:" in ended.err
    assert "`labels` has no effect: it is no mapping" in ended.err


def test_a_server_is_sent_them(cli: Cli, tmp_path: Path) -> None:
    with served(Settings(home=tmp_path / "there")) as url, Client(url) as client:
        run = _ran(cli, "--server", url, "--label", "env=prod", "--label", "tier=1")
        assert client.report(run)["labels"] == {"team": "data", "env": "prod", "tier": "1"}
        refused = cli("run", "sum.yaml", "--server", url, *(f"--label=l{n}={n}" for n in range(50)))
    assert (refused.code, "The labels are 51, more than 50." in refused.err) == (2, True), refused.err
