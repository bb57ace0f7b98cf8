"""The load of the machine during a run: CPU, memory and the GPUs of the run."""

import contextlib
from collections.abc import Iterable
from typing import Any

import psutil


class Telemetry:
    """Samples the workers' processes and the GPUs that the run uses."""

    def __init__(self, gpu_uuids: Iterable[str]) -> None:
        """`gpu_uuids` are the run's GPUs that NVML knows."""
        self._gpus = [handle for uuid in gpu_uuids if (handle := _gpu_handle(uuid)) is not None]
        self._processes: dict[int, psutil.Process] = {}
        psutil.cpu_percent()

    def sample(self, pids: list[int]) -> dict[str, Any]:
        """Return the CPU in percent of one core and the memory in bytes of the processes `pids`, and GPU readings."""
        processes: dict[int, psutil.Process] = {}
        cpu, memory = 0.0, 0
        for pid in pids:
            with contextlib.suppress(psutil.Error):
                # psutil measures the load since the last call on the same object.
                process = processes[pid] = self._processes.get(pid) or psutil.Process(pid)
                cpu += process.cpu_percent()
                memory += process.memory_info().rss
        self._processes = processes
        machine = {"cpu": cpu, "memory": memory, "machine_cpu": psutil.cpu_percent()}
        machine["machine_memory_free"] = psutil.virtual_memory().available
        return machine | self._gpu_sample()

    def _gpu_sample(self) -> dict[str, Any]:
        """Return the mean load, the memory and power of all GPUs together, and the highest temperature."""
        if not self._gpus:
            return {}
        import pynvml

        sample: dict[str, Any] = {}
        with contextlib.suppress(pynvml.NVMLError):
            loads = [pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in self._gpus]
            sample["gpu"] = round(sum(loads) / len(loads))
            sample["gpu_memory"] = sum(int(pynvml.nvmlDeviceGetMemoryInfo(gpu).used) for gpu in self._gpus)
            sample["gpu_power"] = sum(pynvml.nvmlDeviceGetPowerUsage(gpu) for gpu in self._gpus) / 1000
            sample["gpu_temperature"] = max(
                pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU) for gpu in self._gpus
            )
        return sample


def _gpu_handle(uuid: str) -> Any:
    """Return NVML's handle of the GPU, or None if NVML does not know it."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError:
        return None
