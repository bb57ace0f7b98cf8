"""What the machine is doing while a run goes on: CPU, memory and, where there is a driver, the GPU."""

import contextlib
from typing import Any

import psutil


class Telemetry:
    """Samples of the worker's processes and of the GPU that the run uses."""

    def __init__(self, device: str | None) -> None:
        self._gpu = _gpu_handle(device)
        self._processes: dict[int, psutil.Process] = {}
        psutil.cpu_percent()

    def sample(self, pids: list[int]) -> dict[str, Any]:
        """CPU in percent of one core, memory in bytes, over the processes `pids`; GPU readings where there are any."""
        self._processes = {pid: self._processes.get(pid) or process for pid in pids if (process := _process(pid))}
        cpu, memory = 0.0, 0
        for process in self._processes.values():
            with contextlib.suppress(psutil.Error):
                cpu += process.cpu_percent()
                memory += process.memory_info().rss
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


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def _gpu_handle(device: str | None) -> Any:
    if device is None or not device.startswith("cuda"):
        return None
    import pynvml

    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByIndex(int(device.partition(":")[2] or 0))
    except (pynvml.NVMLError, ValueError):
        return None
