import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest

from harness.core import hardware


def _fake_torch(monkeypatch, tmp_path, version_py: str | None) -> None:
    if version_py is not None:
        (tmp_path / "version.py").write_text(version_py)
    spec = None if version_py is None else ModuleSpec("torch", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(hardware, "find_spec", lambda name: spec)


def test_resolving_a_device_does_not_load_torch():
    code = (
        "import sys, harness.core.hardware as hardware; print(hardware.resolve_device('auto'), 'torch' in sys.modules)"
    )
    device, is_loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    import torch

    assert device == ("cuda" if torch.cuda.is_available() else "cpu")
    assert is_loaded == "False"


@pytest.mark.parametrize(
    ("version_py", "gpus", "device"),
    [
        ("cuda: Optional[str] = '13.0'\n", 1, "cuda"),
        ("cuda = '13.0'\n", 2, "cuda"),
        ("cuda: Optional[str] = '13.0'\n", 0, "cpu"),
        ("cuda: Optional[str] = None\n", 1, "cpu"),
        ("hip = None\n", 1, "cpu"),
        ("cuda = (", 1, "cpu"),
        (None, 1, "cpu"),
    ],
)
def test_auto_is_a_gpu_if_torch_and_machine_have_cuda(monkeypatch, tmp_path, version_py, gpus, device):
    _fake_torch(monkeypatch, tmp_path, version_py)
    monkeypatch.setattr(hardware, "_visible_gpus", lambda: gpus)
    assert hardware.resolve_device("auto") == device


@pytest.mark.parametrize("visible", ["", "-1", "-1,0"])
def test_hidden_gpus_do_not_count(monkeypatch, visible):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware._visible_gpus() == 0


def test_named_devices_are_kept():
    names = ("cpu", "cuda", "cuda:3")
    assert [hardware.resolve_device(name) for name in names] == ["cpu", "cuda", "cuda:3"]
