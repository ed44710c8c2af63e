"""Google's processors as `cirq_google` simulates them: their qubits, their gates, and their noise
as it was measured.

It is a simulator in the worker, and needs no account. The machines themselves are not reached from
here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import cirq
from numpy.typing import NDArray

from noetl.errors import ToolError
from noetl.facts.distribution import install_line
from noetl.facts.nearest import did_you_mean
from noetl.quantum.backends.local import DensityMatrix
from noetl.quantum.circuits.figures import reason
from noetl.quantum.config.task import Backend
from noetl.quantum.model import Capabilities, CircuitRun, Samples
from noetl.quantum.simulation.sampling import random_state

#: The processor where none is named.
_PROCESSOR: Final = "willow_pink"


@dataclass(frozen=True)
class Processor:
    """What is known of one. `calibrated_at` is when its noise was measured, ISO 8601 in UTC."""

    device: cirq.Device
    noise: cirq.NoiseModel
    calibrated_at: str
    version: str


class Google(DensityMatrix):
    """`target` is a processor: `rainbow`, `weber` or `willow_pink` (the default)."""

    provider = "google"

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        if backend.auth is not None or backend.host is not None:
            raise ToolError(
                "client_error",
                "The backend google simulates a processor in the worker, and reaches no machine: "
                "leave `auth` and `host` out.",
                type="NotSupported",
            )
        self._processor = processor(backend.target or _PROCESSOR)

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), exact=False, noise=False, gateset="google_cz")

    def sample(self, order: CircuitRun) -> Samples:
        try:
            self._processor.device.validate_circuit(order.circuit)
        except ValueError as error:
            raise ToolError(
                "client_error",
                f"The processor cannot run the circuit of {order.name}: {reason(error)}; use its "
                "`cirq.GridQubit`s, neighbours for gates"
                " on two, and its gates.",
                type="NotOnDevice",
            ) from error
        return super().sample(order)

    def state(
        self,
        circuit: cirq.Circuit,  # noqa: ARG002 - a machine tells no state
        qubits: Sequence[cirq.Qid] | None = None,  # noqa: ARG002
    ) -> NDArray[Any]:
        raise ToolError(
            "client_error",
            "The backend google yields samples only; give `repetitions`, or run on `density_matrix`.",
            type="NotSupported",
        )

    def _simulator(self, seed: int) -> Any:
        return cirq.DensityMatrixSimulator(
            dtype=self._dtype, noise=self._processor.noise, seed=random_state(seed)
        )

    def _versions(self) -> dict[str, str]:
        calibrated = {"calibration": self._processor.calibrated_at}
        return {**super()._versions(), "cirq_google": self._processor.version, **calibrated}


@lru_cache(maxsize=8)
def processor(name: str) -> Processor:
    """The processor of that name, read once: it takes a second. Raises ToolError where there is
    none."""
    try:
        # Imported here: it is an extra, and takes seconds.
        import cirq_google
        from cirq_google.engine import virtual_engine_factory as factory
    except ImportError as error:
        raise ToolError(
            "client_error",
            f"The backend google needs the package cirq-google on the worker: {install_line('google')}.",
            type="NoDriver",
        ) from error
    known = factory.list_virtual_processors()
    if name not in known:
        raise ToolError(
            "client_error",
            f"There is no processor '{name[:100]}' at google; there are "
            f"{', '.join(known)}.{did_you_mean(name, known)}",
            type="UnknownTarget",
        )
    noise = cirq_google.NoiseModelFromGoogleNoiseProperties(factory.load_device_noise_properties(name))
    measured_ms = factory.load_median_device_calibration(name).timestamp
    return Processor(
        factory.create_device_from_processor_id(name),
        noise,
        datetime.fromtimestamp(measured_ms / 1000, UTC).isoformat(timespec="seconds"),
        str(cirq_google.__version__),
    )
