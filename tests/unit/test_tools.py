"""Tests that need a missing tool are skipped, or fail where all tools are required."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS_TOOLS = """
import pytest
from tests.conftest import require_tool

@pytest.fixture(params=["bwrap"])
def backend(request):
    return request.param

def test_parameter_of_a_fixture(backend): raise AssertionError

@pytest.mark.parametrize("name", ["bwrap"])
def test_parameter_of_a_test(name): raise AssertionError

def test_fixture(bubblewrap): raise AssertionError

def test_program():
    require_tool("tmux")
    raise AssertionError

@pytest.mark.parametrize("name", ["none", "other"])
def test_runs_without_tools(name): pass
"""


@pytest.mark.parametrize(("requires_all", "outcome"), [("0", "2 passed, 4 skipped"), ("1", "2 passed")])
def test_tests_without_their_tools_are_skipped_or_fail(tmp_path: Path, requires_all: str, outcome: str) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import bubblewrap, pytest_runtest_setup\n")
    (tmp_path / "test_needs.py").write_text(NEEDS_TOOLS)
    without_tools = tmp_path / "bin"
    without_tools.mkdir()
    environment = {
        **os.environ,
        "PATH": str(without_tools),
        "PYTHONPATH": str(ROOT),
        "HARNESS_REQUIRE_TOOLS": requires_all,
    }
    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert outcome in done.stdout, done.stdout + done.stderr
    assert done.returncode == int(requires_all)
    assert done.stdout.count("HARNESS_REQUIRE_TOOLS=1 requires every tool.") >= 4 * int(requires_all)
