"""The devices that a run computes on, and their locks: one run at a time, released by the kernel when the holder dies.

CUDA_VISIBLE_DEVICES hides and reorders GPUs, so an index means nothing outside a process. The lock, the telemetry and
the worker's environment all use the UUID of a GPU.
"""

import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.core import paths
from harness.core.files import try_lock
from harness.core.hardware import query_gpus


@dataclass(frozen=True)
class Device:
    """One device. `name` is cpu or cuda:INDEX, `uuid` identifies a GPU ("" if unknown), `model` is its product name."""

    name: str
    uuid: str = ""
    model: str = ""

    @property
    def lock_file(self) -> Path:
        # A UUID is unique; "cpu" is not, and the home may be shared by several hosts.
        key = self.uuid or f"{platform.node()}-{self.name}"
        return paths.locks_home() / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', key)}.lock"


def worker_names(devices: Sequence[Device]) -> tuple[str, ...]:
    """Return the names of a worker's devices inside the worker, which sees only these GPUs."""
    return tuple(f"cuda:{number}" if device.uuid else device.name for number, device in enumerate(devices))


def worker_environment(devices: Sequence[Device]) -> dict[str, str]:
    """Return the environment variables that show a worker only its own GPUs, in their order."""
    uuids = [device.uuid for device in devices if device.uuid]
    return {"CUDA_VISIBLE_DEVICES": ",".join(uuids)} if uuids else {}


def matching_devices(requested: str) -> list[Device]:
    """Return the devices that `requested` allows: `cuda` any visible GPU, `cuda:N` visible GPU N, else that device."""
    if not requested.startswith("cuda"):
        return [Device(requested)]
    # Without NVML the GPU is known by its index alone.
    gpus = [gpu for gpu in visible_gpus() if requested in ("cuda", gpu.name)]
    return gpus or [Device("cuda:0" if requested == "cuda" else requested)]


def visible_gpus() -> list[Device]:
    """Return the visible GPUs in CUDA's order; none if there is no NVIDIA driver."""
    gpus = query_gpus(lambda nvml, gpu: (str(nvml.nvmlDeviceGetUUID(gpu)), str(nvml.nvmlDeviceGetName(gpu))))
    indices = visible_indices(os.environ.get("CUDA_VISIBLE_DEVICES"), [uuid for uuid, _ in gpus])
    return [Device(f"cuda:{number}", *gpus[index]) for number, index in enumerate(indices)]


def visible_indices(variable: str | None, uuids: list[str]) -> list[int]:
    """Return which of the machine's GPUs CUDA_VISIBLE_DEVICES leaves visible, in its order.

    `variable` lists indices or unique beginnings of UUIDs. As in CUDA, the list ends at the first invalid entry (CUDA C
    Programming Guide, "CUDA Environment Variables"). None leaves all visible.
    """
    if variable is None:
        return list(range(len(uuids)))
    indices: list[int] = []
    for entry in filter(None, (part.strip() for part in variable.split(","))):
        if entry.lstrip("-").isdigit():
            matches = [int(entry)] if 0 <= int(entry) < len(uuids) else []
        else:
            matches = [index for index, uuid in enumerate(uuids) if uuid.startswith(entry)]
        if len(matches) != 1 or matches[0] in indices:
            break
        indices += matches
    return indices


class DeviceLock:
    """The locks of a run's devices. The first line of a lock file names the run that holds it."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._files: list[IO[bytes]] = []

    def try_acquire(self, devices: Iterable[Device]) -> Device | None:
        """Lock the first free one of `devices` and return it; None if all are taken."""
        for device in devices:
            device.lock_file.parent.mkdir(parents=True, exist_ok=True)
            file = try_lock(device.lock_file, patience=0.0)
            if file is not None:
                # One write, so that no reader finds the file empty. The end of a longer id may follow the newline.
                file.write(f"{self._run_id}\n".encode())
                file.flush()
                self._files.append(file)
                return device
        return None

    def try_acquire_all(self, choices: Iterable[Sequence[Device]]) -> list[Device] | None:
        """Lock one device of each choice and return them in this order; None, and lock nothing, if one is taken."""
        held: list[Device] = []
        for devices in choices:
            device = self.try_acquire(device for device in devices if device not in held)
            if device is None:
                self.release()
                return None
            held.append(device)
        return held

    def release(self) -> None:
        """Release the devices."""
        for file in self._files:
            file.close()
        self._files.clear()
