"""Set up signals and a cache for all tests, and skip tests whose tools are missing on this machine.

With HARNESS_REQUIRE_TOOLS=1 such tests fail instead.
"""

import contextlib
import functools
import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.sandbox.backends import BACKENDS, is_available

# Thousands of tests and the modules that they load are never garbage, and searching them takes a sixth of the time.
gc.set_threshold(100_000)

# Most tests of the engine run on machines without hypothesis.
with contextlib.suppress(ImportError):
    from hypothesis import HealthCheck, settings

    # A busy machine may take long for any example.
    on_any_machine = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("quick", on_any_machine, max_examples=30, derandomize=True)
    settings.register_profile("whole", on_any_machine, max_examples=100, derandomize=True)
    settings.register_profile("thorough", on_any_machine, max_examples=200)
    # `make check` tries more examples than `make test`, and each run of `make test-long` tries new ones.
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_configure() -> None:
    """Let processes that tests start receive SIGINT and SIGHUP.

    A shell that starts pytest in the background makes it ignore SIGINT, and nohup makes it ignore SIGHUP. Processes
    inherit that. A handler of Python is not inherited.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_sessionfinish() -> None:
    """Keep pytest and Python from searching all objects for garbage several times at exit, a second per worker."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Require each sandbox backend whose name is a parameter of the test or of one of its fixtures."""
    callspec = getattr(item, "callspec", None)
    for value in () if callspec is None else callspec.params.values():
        if isinstance(value, str):
            require_backend(value)


@pytest.fixture(autouse=True)
def signal_handlers() -> Iterator[None]:
    """Undo what a command that runs in this process does when it sets a handler for the rest of its life."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the harness's directories to new ones inside `tmp_path`, and return `tmp_path`."""
    # The tests of the engine use this file too and need not load the command line.
    from tests.functional.machine import homes

    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture
def bubblewrap() -> None:
    """Require bubblewrap, for a test that is not parametrized with backends."""
    require_backend("bwrap")


def require_backend(name: str) -> None:
    """Skip the test if `name` is a sandbox backend that does not work on this machine."""
    if name in {backend.name for backend in BACKENDS} and name not in _available_backends():
        _skip(f"the sandbox backend {name} does not work on this machine.")


def require_tool(name: str, *, package: str | None = None) -> None:
    """Skip the test if the program `name` is not installed. `package` contains it, if it has another name."""
    if shutil.which(name) is None:
        _skip(f"{name} is not installed (Debian and Ubuntu: apt-get install {package or name}).")


def require_chromium() -> None:
    """Skip the test if no Chromium is installed."""
    from tests.tools.browser import chromium  # loads matplotlib

    if chromium() is None:
        _skip("Chromium is not installed (Debian and Ubuntu: apt-get install chromium).")


@functools.cache
def _available_backends() -> frozenset[str]:
    return frozenset(backend.name for backend in BACKENDS if is_available(backend))


def _skip(reason: str) -> None:
    if os.environ.get("HARNESS_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{reason} HARNESS_REQUIRE_TOOLS=1 requires every tool.")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests with asyncio, as Textual does."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let all machines of a session share one cache, because reading a plugin's parameters needs a process."""
    base = tmp_path_factory.getbasetemp()
    # The workers of pytest-xdist have sibling directories.
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ["HARNESS_TEST_CACHE"] = str(common / "cache")
