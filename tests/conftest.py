"""What every kind of test may ask for."""

import os
import shutil

import pytest


@pytest.fixture
def bubblewrap() -> None:
    """The test needs bubblewrap: skipped where it is missing, failed where every tool is required."""
    require_tool("bwrap")


def require_tool(name: str) -> None:
    """Skip the test where `name` is not installed; with HARNESS_REQUIRE_TOOLS=1 that is a failure."""
    if shutil.which(name) is None:
        if os.environ.get("HARNESS_REQUIRE_TOOLS") == "1":
            pytest.fail(f"{name} is not installed, and HARNESS_REQUIRE_TOOLS=1 asks for every tool.")
        pytest.skip(f"{name} is not installed.")


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let all machines of a session share one cache: reading a plugin's parameters costs a sandboxed process each."""
    base = tmp_path_factory.getbasetemp()
    # The workers of pytest-xdist have a folder each, side by side.
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ["HARNESS_TEST_CACHE"] = str(common / "cache")
