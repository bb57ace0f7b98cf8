"""The load of the machine during a run: CPU, memory and the GPU of the run."""

import contextlib
from typing import Any

import psutil


class Telemetry:
    """Samples the worker's processes and the GPU that the run uses."""

    def __init__(self, gpu_uuid: str) -> None:
        """`gpu_uuid` is empty if the run uses no GPU that NVML knows."""
        self._gpu = _gpu_handle(gpu_uuid) if gpu_uuid else None
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
        if self._gpu is None:
            return {}
        import pynvml

        sample: dict[str, Any] = {}
        with contextlib.suppress(pynvml.NVMLError):
            sample["gpu"] = pynvml.nvmlDeviceGetUtilizationRates(self._gpu).gpu
            sample["gpu_memory"] = int(pynvml.nvmlDeviceGetMemoryInfo(self._gpu).used)
            sample["gpu_power"] = pynvml.nvmlDeviceGetPowerUsage(self._gpu) / 1000
            sample["gpu_temperature"] = pynvml.nvmlDeviceGetTemperature(self._gpu, pynvml.NVML_TEMPERATURE_GPU)
        return sample


def _gpu_handle(uuid: str) -> Any:
    """Return NVML's handle of the GPU, or None if NVML does not know it."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError:
        return None
