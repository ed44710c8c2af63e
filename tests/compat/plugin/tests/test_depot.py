"""The tools of the depot, tested as `noetl.testing` says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from depot_noetl.courier import Courier
from depot_noetl.digest import Digest, DigestConfig, is_ours
from depot_noetl.errand import Errand, ErrandConfig
from depot_noetl.press import Press

from noetl.errors import (
    BadRequest,
    ConfigError,
    Conflict,
    LimitExceeded,
    NoetlError,
    NotFound,
    PlaybookInvalid,
    TemplateError,
    TemplateLimit,
    TemplateSecurity,
    ToolError,
    Unavailable,
    VersionConflict,
)
from noetl.facts.outcome import Outcome, failed, succeeded
from noetl.pipeline.model import Call, Later, Where
from noetl.testing import (
    KINDS,
    START,
    Given,
    Mailbox,
    Message,
    Scripted,
    ScriptedTools,
    Simulation,
    StillLeases,
    When,
    default_tools,
    given,
)
from noetl.tools.base import Services

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: depot, path: depot/test}\n"
OURS = {tool.kind: tool.info() for tool in (Digest, Press, Errand, Courier)}
EVERY = {**KINDS, **OURS}


def called(kind: str, config: dict[str, object], **more: object) -> Call:
    """A call that nobody's playbook made."""
    return Call(
        kind=kind,
        config=config,
        args={},
        spec={},
        where=Where("1", "start#1", "start"),
        task="task_0",
        attempt=1,
        idempotency_key="1/start#1/task_0",
        **more,
    )


def alone(tool: Digest) -> Scripted:
    """The tool, for a simulation."""
    return lambda call: tool.run(call, DigestConfig(**call.config))


def test_a_tool_can_be_called_without_anything_around_it() -> None:
    digest = Digest(Services())
    outcome = digest.run(called("digest", {}), DigestConfig(text="hello"))
    assert isinstance(outcome, Outcome)
    assert outcome.ok
    assert outcome.result["hex"].startswith("2cf24dba5fb0a30e26e83b2ac5b9e29e")
    assert outcome.result["call"]["deadline"] == 3600.0
    assert outcome.as_json()["digest"] == {"bytes": 5}
    assert outcome.as_json()["data"] == outcome.as_json()["result"]
    digest.interrupt(called("digest", {}))
    digest.close()


def test_services_are_what_they_were() -> None:
    services = Services(credential=lambda name: {"key": name}, default_deadline_s=5.0, memory_mb=64)
    digest = Digest(services)
    signed = DigestConfig(text="hello", signer={"credential": "k"})
    assert digest.run(called("digest", {}), signed).result["hex"].startswith("a9434286c3c29c62")
    assert digest.deadline(called("digest", {})) == 5.0
    assert digest.deadline(called("digest", {}, deadline_s=2.0)) == 2.0
    with pytest.raises(ToolError, match="no credential store") as caught:
        Services().credential("k")
    assert caught.value.kind == "auth"


def test_what_is_raised_has_the_fields_that_an_outcome_has() -> None:
    with pytest.raises(ToolError) as caught:
        Digest(Services()).run(called("digest", {}), DigestConfig(text="hello", expect="x"))
    error = caught.value
    assert (error.kind, error.type, error.retryable, error.line) == ("client_error", "Mismatch", False, None)
    assert error.extras["status"] == 409
    assert is_ours(error)
    assert not is_ours(ValueError())


def test_errors_form_one_tree() -> None:
    tree = {
        PlaybookInvalid: NoetlError,
        TemplateError: NoetlError,
        TemplateLimit: TemplateError,
        TemplateSecurity: TemplateError,
        NotFound: NoetlError,
        Conflict: NoetlError,
        VersionConflict: Conflict,
        BadRequest: NoetlError,
        LimitExceeded: BadRequest,
        ToolError: NoetlError,
        Unavailable: NoetlError,
        ConfigError: NoetlError,
    }
    assert all(issubclass(error, base) for error, base in tree.items())
    assert NoetlError("It broke.").message == str(NoetlError("It broke.")) == "It broke."


def test_what_a_kind_says_of_itself_is_what_its_class_says() -> None:
    digest, press, errand = OURS["digest"], OURS["press"], OURS["errand"]
    assert (digest.kind, digest.queue, digest.effects) == ("digest", "depot", "none")
    assert digest.schema["properties"]["text"]["description"] == "What the digest is of."
    assert digest.schema["additionalProperties"] is False
    assert (digest.required, digest.defaults) == ((("text",),), {"timeout": 30, "seal": "wax"})
    assert (digest.sections, digest.credentials) == (("digest",), ("signer.credential",))
    assert (press.verbatim, press.verbatim_with_params) == (("pattern", "code"), ("statement",))
    assert (press.quoted, press.python_keys, press.source_files) == (("command",), ("code",), ("script",))
    assert (press.by_reference, press.sections, press.credentials) == (("rows",), (), ("auth",))
    assert (errand.suspends, errand.abandons, errand.sections) == (True, True, None)
    assert (digest.suspends, digest.abandons) == (False, False)
    assert Digest.touches({"algorithm": "blake2b"}) == ("a seal by blake2b",)
    assert Press.touches({}) == ()


DIGESTS = f"""{HEAD}
workload: {{texts: [hello, world]}}
workflow:
  - step: start
    loop: {{in: "{{{{ workload.texts }}}}", iterator: text, spec: {{mode: parallel, max_in_flight: 2}}}}
    tool: {{kind: digest, text: "{{{{ text }}}}", args: {{of: "{{{{ text }}}}"}}}}
    next: end
  - step: end
    tool: {{kind: noop, input: {{all: "{{{{ start.results }}}}"}}}}
"""


def test_a_simulation_runs_the_tool_itself() -> None:
    sim = Simulation(DIGESTS, {"digest": alone(Digest(Services()))}, kinds=EVERY)
    report = sim.run()
    assert report.row.status == "completed", report.error
    first, second = report.result["all"]
    assert first["hex"].startswith("2cf24d")
    assert second["hex"].startswith("486ea4")
    seen = first["call"]
    assert (seen["args"], seen["seal"], seen["deadline"]) == ({"of": "hello"}, "wax", 30.0)
    assert (seen["step"], seen["iteration"], seen["has_event"], seen["has_key"]) == ("start", 0, True, True)
    assert {call.kind for call in sim.tools.calls} == {"digest", "noop"}
    assert sim.types(report.row.execution_id)[-1] == "playbook.processed"
    assert sim.rt.clock() == START == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_payload_takes_the_place_of_the_workload() -> None:
    sim = Simulation(DIGESTS, {"digest": lambda call: call.config["text"]}, kinds=EVERY)
    assert sim.run({"texts": ["a", "b", "c"]}).result == {"all": ["a", "b", "c"]}
    assert sim.run(texts=["d"]).result == {"all": ["d"]}


ONE = f"""{HEAD}
workflow:
  - step: start
    tool: {{kind: digest, text: hello, spec: {{policy: {{rules: [
      {{when: "{{{{ outcome.status == 'error' }}}}", then: {{do: retry, attempts: 3, delay: 5}}}},
      {{else: {{then: {{do: continue}}}}}}]}}}}}}
    next: {{arcs: [{{step: end, args: {{hex: "{{{{ start.hex }}}}"}}}}]}}
  - step: end
    tool: {{kind: noop, input: {{hex: "{{{{ hex }}}}"}}}}
"""


def test_every_message_is_in_the_hands_of_the_test() -> None:
    tries = []

    def flaky(call: Call) -> object:
        tries.append(call.attempt)
        if call.attempt == 1:
            raise ToolError("server_error", "Busy.", retryable=True)
        return {"hex": "abc"} if call.attempt == 3 else failed_softly()

    def failed_softly() -> Outcome:
        soft = Digest(Services()).run(called("digest", {}), DigestConfig(text="hello", soft=True))
        assert soft == failed(soft.error, {"stdout": "cold\n"}, digest=soft.extras["digest"])
        return soft

    sim = Simulation(ONE, {"digest": flaky}, kinds=EVERY)
    run = sim.start()
    assert sim.mailbox.messages == [Message()]
    sim.deliver()
    assert [message.command.purpose for message in sim.mailbox.messages] == ["pipeline"]
    sim.mailbox.messages.clear()
    sim.pass_time(3600)
    assert len(sim.mailbox.messages) >= 1, "a message that got lost is sent again"
    sim.settle()
    for _ in range(3):
        sim.pass_time(6)
        sim.settle()
    report = sim.report(run)
    assert (report.row.status, report.result, tries) == ("completed", {"hex": "abc"}, [1, 2, 3])
    assert [event.fact.type for event in sim.events(run)] == sim.types(run)


class Gone(BaseException):
    """The worker dies."""


def test_a_worker_that_dies_loses_nothing() -> None:
    deaths = iter([True])

    def mortal(call: Call) -> object:
        if next(deaths, False):
            raise Gone
        return {"hex": "abc"}

    sim = Simulation(ONE, {"digest": mortal}, kinds=EVERY)
    assert isinstance(sim.leases, StillLeases)
    assert isinstance(sim.mailbox, Mailbox)
    assert isinstance(sim.tools, ScriptedTools)
    run = sim.start()
    with pytest.raises(Gone):
        sim.settle()
    sim.pass_time(31)
    sim.settle()
    assert sim.report(run).result == {"hex": "abc"}
    assert [call.idempotency_key for call in sim.tools.calls if call.kind == "digest"] == [
        next(call.idempotency_key for call in sim.tools.calls)
    ] * 2


def test_a_mailbox_that_is_away_loses_nothing_either() -> None:
    sim = Simulation(ONE, {"digest": lambda call: {"hex": "abc"}}, kinds=EVERY)
    sim.mailbox.away = True
    run = sim.start()
    sim.mailbox.away = False
    sim.pass_time(3600)
    sim.settle()
    assert sim.report(run).row.status == "completed"


ERRAND = f"""{HEAD}
workflow:
  - step: start
    tool: {{kind: errand, folder: FOLDER, rounds: 2, every: 30}}
"""


def test_what_waits_is_called_again_with_its_checkpoint(tmp_path) -> None:
    errand = Errand(Services())
    tools = {"errand": lambda call: errand.run(call, ErrandConfig(**call.config))}
    sim = Simulation(ERRAND.replace("FOLDER", str(tmp_path)), tools, kinds=EVERY)
    run = sim.start()
    sim.settle()
    assert len(list(tmp_path.iterdir())) == 1
    assert sim.report(run).row.status == "running"
    for _ in range(3):
        sim.pass_time(31)
        sim.settle()
    assert sim.report(run).result == {"rounds": 2, "name": "task_0"}
    rounds = [(call.checkpoint or {}).get("round") for call in sim.tools.calls]
    assert rounds == [None, 0, 1, 2]
    assert list(tmp_path.iterdir()) == []


def test_what_was_begun_elsewhere_is_ended_where_nobody_waits_for_it(tmp_path) -> None:
    errand = Errand(Services())
    call = called("errand", {"folder": str(tmp_path)})
    config = ErrandConfig(folder=str(tmp_path))
    later = errand.run(call, config)
    assert isinstance(later, Later)
    assert later == Later(0.02, later.checkpoint)
    with pytest.raises(ToolError, match="called off") as caught:
        errand.run(replace(call, checkpoint=later.checkpoint, abandoned=True), config)
    assert caught.value.kind == "cancelled"
    assert list(tmp_path.iterdir()) == []


def test_scripted_tools_make_outcomes_of_what_functions_yield() -> None:
    def broken(_call: Call) -> object:
        raise ToolError("auth", "Who are you?", type="Stranger", retryable=True)

    tools = ScriptedTools({**default_tools(), "broken": broken, "late": lambda _: Later(1, {"n": 1})})
    assert tools.run(called("noop", {"result": 7})) == succeeded(7)
    assert tools.run(called("python", {"code": "result = 6 * 7"})) == succeeded(42)
    assert tools.run(called("late", {})) == Later(1, {"n": 1})
    error = tools.run(called("broken", {})).error
    assert (error.kind, error.message, error.type, error.retryable) == (
        "auth",
        "Who are you?",
        "Stranger",
        True,
    )
    tools.interrupt(called("noop", {}))
    assert [call.kind for call in tools.calls] == ["noop", "python", "late", "broken"]


def test_given_makes_what_can_be_decided_on() -> None:
    assert callable(given)
    assert {*Given.__dataclass_fields__} == {"plan", "state", "inputs"}
    assert {*When.__dataclass_fields__} == {"drafts", "state"}
