"""`make` chooses the build of PyTorch: tried with the real pip, and with small wheels that only have the name torch."""

import contextlib
import functools
import os
import re
import socket
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.functional.machine import ROOT
from tests.tools.tiers import first_is_fast

(VERSION,) = re.findall(r"^TORCH_VERSION := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

pytestmark = pytest.mark.slow


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def index(folder: Path, version: str) -> Iterator[str]:
    """Serve a package index with one wheel of torch, and yield its address."""
    page, info = folder / "torch", f"torch-{version}.dist-info"
    page.mkdir(parents=True)
    name = f"torch-{version}-py3-none-any.whl"
    with zipfile.ZipFile(page / name, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    (page / "index.html").write_text(f'<!DOCTYPE html><a href="{name.replace("+", "%2B")}">{name}</a>')
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def cpu_index(tmp_path: Path) -> Iterator[str]:
    with index(tmp_path / "cpu", f"{VERSION}+cpu") as address:
        yield address


@pytest.fixture
def usual_index(tmp_path: Path) -> Iterator[str]:
    with index(tmp_path / "usual", VERSION) as address:
        yield address


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("make") / "venv"


@pytest.fixture
def silent_address() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed_address() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def programs(folder: Path, *, gpu: bool) -> str:
    """Return a PATH on which nvidia-smi finds a GPU or does not."""
    folder.mkdir()
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\nexit {0 if gpu else 9}\n")
    (folder / "nvidia-smi").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def make_torch(venv: Path, usual: str, cpu: str, *words: str, path: str = os.environ["PATH"]) -> tuple[str, str]:
    """Install torch with make into `venv`. Return the installed version and what make printed."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("PIP_", "TORCH", "MAKE"))}
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": usual, "PIP_NO_CACHE_DIR": "1", "PATH": path}
    env = inherited | settings | {"TORCH_CPU_INDEX": cpu, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    pip = [venv / "bin" / "python", "-m", "pip"]
    if venv.exists():
        subprocess.run([*pip, "uninstall", "--yes", "--quiet", "torch"], env=env, capture_output=True, check=True)
    make = ["make", "--no-print-directory", f"VENV={venv}", *words, "torch"]
    done = subprocess.run(make, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    code = "import importlib.metadata as m; print(m.version('torch'))"
    version = subprocess.run([venv / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    return version.stdout.strip(), done.stdout + done.stderr


def test_without_a_gpu_the_cpu_build_is_installed(venv: Path, usual_index: str, cpu_index: str, tmp_path: Path) -> None:
    version, printed = make_torch(venv, usual_index, cpu_index, path=programs(tmp_path / "bin", gpu=False))
    assert version == (VERSION if Path("/dev/nvidiactl").exists() else f"{VERSION}+cpu")
    assert "cannot be reached" not in printed


def test_with_a_gpu_the_usual_index_is_used(venv: Path, usual_index: str, cpu_index: str, tmp_path: Path) -> None:
    version, printed = make_torch(venv, usual_index, cpu_index, path=programs(tmp_path / "bin", gpu=True))
    assert (version, "cannot be reached" in printed) == (VERSION, False)


@pytest.mark.parametrize(("word", "version"), first_is_fast([("TORCH=cpu", f"{VERSION}+cpu"), ("TORCH=cuda", VERSION)]))
def test_a_variable_chooses_the_build(venv: Path, usual_index: str, cpu_index: str, word: str, version: str) -> None:
    assert make_torch(venv, usual_index, cpu_index, word)[0] == version


@pytest.mark.parametrize("address", first_is_fast(["closed_address", "silent_address"]))
def test_without_pytorchs_index_the_usual_one_is_used(
    venv: Path, usual_index: str, address: str, request: pytest.FixtureRequest
) -> None:
    absent = request.getfixturevalue(address)
    version, printed = make_torch(venv, usual_index, absent, "TORCH=cpu")
    assert version == VERSION
    sentence = f"{absent} cannot be reached, so PyTorch comes from pip's usual index (its build for CUDA takes several "
    assert printed == f"{sentence}gigabytes)\n"
