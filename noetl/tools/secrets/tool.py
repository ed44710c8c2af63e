"""kind: secrets - finds a secret, and yields a reference to it: other tasks hand it on, and their
tools open it."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, field_validator

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.facts.secret import SECRET_REF, STORE
from noetl.pipeline.model import Call
from noetl.tools.kit import call_secrets, effects
from noetl.tools.kit.base import Tool
from noetl.tools.kit.declaration import ToolConfig, ToolDeclaration
from noetl.tools.secrets.sources import unknown_provider


class SecretsConfig(ToolConfig):
    """Configuration of a secrets task."""

    provider: str = Field(
        default=STORE, min_length=1, description="Who keeps it: store (the credentials), env, file, vault."
    )
    path: str | None = Field(
        default=None, description="Its name there: of a credential, a variable, a file; mount/path in vault."
    )
    name: str | None = Field(
        default=None, description="The same as `path`, where it may be the name of the task as well."
    )
    version: str | int | None = Field(
        default=None, description="Its version, where the provider keeps versions; the newest by default."
    )

    @field_validator("provider")
    @classmethod
    def _is_there(cls, provider: str) -> str:
        if "{{" not in provider and (fault := unknown_provider(provider)):
            raise ValueError(fault)
        return provider


class Secrets(Tool):
    """Finds a secret and yields a reference to it; the secret itself is opened by the tool that a
    later task hands the reference to. For names that only a run knows; what is known before belongs
    into the [keychain](../reference/secrets.md)."""

    declaration = ToolDeclaration(
        kind="secrets",
        # It is quick; every deployment serves this queue.
        queue="python",
        sections=(),
        effects="none",
        description="Finds a secret and yields a reference to it, which only tools open.",
        result="""
            `{kind: secret_ref, execution, provider, name, version, seal}`, of the version that was found.
            `<step>.<field>` is a reference to a field of it.
        """,
        errors="A secret that is not there, and a provider that is turned off, are errors of kind `auth`.",
        example="""
            - step: find
              tool: {kind: secrets, path: "{{ workload.customer }}"}
              next: call
            - step: call
              tool:
                kind: http
                url: "{{ workload.base_url }}/orders"
                headers: {authorization: "Bearer {{ find.token }}"}
              next: end
            - step: end
              tool: {kind: noop, input: {status: "{{ call.status_code }}"}}
        """,
        config_model=SecretsConfig,
        required=(("path", "name"),),
    )

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        name = effects.one_line(effects.first(config, "path", "name"))
        return (f"secret {name} of {effects.one_line(config.get('provider') or STORE)}",)

    def run(self, call: Call, config: SecretsConfig) -> Outcome:
        safe = self.services.safe
        if safe is None:
            raise ToolError("auth", "A secret is wanted, and this process opens none.", type="NoSecrets")
        wanted = None if config.version is None else str(config.version)
        name = config.path or config.name or ""
        found = call_secrets.find_secret(safe, config.provider, name, wanted)
        reference: dict[str, Json] = {
            "kind": SECRET_REF,
            "execution": call.where.execution_id,
            "provider": config.provider,
            "name": name,
        }
        if found.version is not None:
            # From now on it is this one, whatever the provider has by then.
            reference["version"] = found.version
        return succeeded(dict(self.services.seal(reference)))
