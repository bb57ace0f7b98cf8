"""The common part of sweeps and tunings: where their runs are computed."""

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.output import sanitize, say
from harness.cli.resolving import current_weights
from harness.core.hardware import usable_cores
from harness.core.run_request import DeviceOptions
from harness.runs.folder import RunFolder
from harness.runs.machine import hardware
from harness.runs.status import Status
from harness.runs.status_line import failure_text
from harness.runs.summary import run_summary
from harness.sweeps.running import Executor, LocalExecutor

_LOCAL, _NO_RAY = "local", "none"

_HELP = "Ray cluster: HOST:PORT, auto, local (this machine), or none (one run after the other)."
RayAddress = Annotated[
    str | None, typer.Option("--ray", metavar="ADDRESS", help=f"{_HELP}  [default: local if Ray is installed]")
]
RayOfTuning = Annotated[str, typer.Option("--ray", metavar="ADDRESS", help=_HELP)]


def cluster_address(ray: str | None) -> str | None:
    """Return the address of the cluster that `--ray` names, `local` by default; None for one run after the other."""
    if ray is None:
        return _LOCAL if find_spec("ray") is not None else None
    return None if ray == _NO_RAY else ray


def cluster_slots(address: str, compute: DeviceOptions) -> int:
    """Return how many runs the cluster at `address` computes at the same time.

    Raises HarnessError if it does not answer.
    """
    threads = compute.threads or 1
    if address == _LOCAL:
        # No cluster has to be started to know this.
        gpus = 0 if compute.device == "cpu" else len(hardware()["gpus"])
        return min(gpus or usable_cores(), usable_cores() // threads)
    from harness.cluster.executor import connected, slots_of

    with connected(address) as ray:
        return slots_of(ray, threads=threads, uses_gpus=compute.device != "cpu")


def executor_at(address: str | None, compute: DeviceOptions, *, journal_file: Path) -> AbstractContextManager[Executor]:
    """Return the cluster at `address` as a context manager, or this machine for None.

    `journal_file` remembers which node has which run.
    """
    if address is None:
        return nullcontext(LocalExecutor(current_weights))
    from harness.cluster.executor import RayExecutor

    return RayExecutor(
        address,
        journal_file=journal_file,
        device=compute.device,
        threads=compute.threads or 1,
        on_message=lambda text: say(sanitize(text)),
    )


def failure_of(run: str) -> str | None:
    """Return why a run crashed or was lost; None if it did not."""
    summary = run_summary(RunFolder.of(run))
    return failure_text(summary) if summary.status in (Status.CRASHED, Status.LOST) else None
