"""The wheel and the sdist: what is in them, and that they run without torch where the repository is not.

`python -m tests.tools.stranger` uses the wheel with torch.
"""

import sys
import tarfile
from pathlib import Path

import pytest

from harness import __version__
from harness.demo import BASELINE_GUESSES
from tests.functional.machine import Machine
from tests.tools.distribution import (
    Distribution,
    build,
    check_metadata,
    demo_with_uvx,
    install,
    install_with_pipx,
    run,
    use,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
"""Each test installs some 60 distributions, which takes minutes on a busy machine."""

MAX_WHEEL_BYTES = 7_000_000
MAX_SDIST_BYTES = 9_000_000
MAX_GUESSES_BYTES = 400_000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    return build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_has_one_package_with_attacks_lock_and_types(built: Distribution) -> None:
    names = built.wheel_names
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"harness", "extraction_harness"}
    assert {"harness/py.typed", "harness/requirements.lock", "harness/attacks/baseline.py"} <= set(names)
    assert built.wheel.stat().st_size < MAX_WHEEL_BYTES
    check_metadata(built)


def test_the_sdist_has_the_sources_and_tests_without_pictures(built: Distribution, tmp_path: Path) -> None:
    assert built.sdist.stat().st_size < MAX_SDIST_BYTES
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    top = {path.name for path in unpacked.iterdir()}
    assert {"harness", "attacks", "tests", "docs", "pyproject.toml", "README.md", "LICENSE", "Makefile"} <= top
    assert not {".ci", ".git", ".github", ".venv", "build", "dist"} & top
    assert not (unpacked / "docs" / "pictures").exists()
    tests = ["tests/unit/core/test_scoring.py", "tests/unit/core/test_extras.py"]
    run([sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=unpacked)


def test_the_light_installation_runs_without_torch(built: Distribution, tmp_path: Path) -> None:
    installed = install(built.wheel, tmp_path)
    assert use(installed)["attack"] == "replay"
    loaded = run([str(installed.programs / "python"), "-c", "import importlib.util as u; print(u.find_spec('torch'))"])
    assert loaded.strip() == "None"


def test_pipx_installs_the_program(built: Distribution, tmp_path: Path) -> None:
    installed = install_with_pipx(built.wheel, tmp_path)
    assert [path.name for path in installed.programs.iterdir()] == ["harness"]
    assert __version__ in installed.harness("--version")
    assert installed.json("demo")["status"] == "finished"


def test_uvx_runs_the_demo_with_one_command(built: Distribution, tmp_path: Path) -> None:
    assert "Recall@100: " in demo_with_uvx(built.wheel, tmp_path / "uvx")


def test_the_recorded_guesses_score_as_a_new_run_of_the_attack(machine: Machine) -> None:
    assert BASELINE_GUESSES.stat().st_size < MAX_GUESSES_BYTES
    recorded = machine.json("score", str(BASELINE_GUESSES), "--round", "demo")
    new = machine.json("demo")
    assert new["attack"] == "baseline"
    # Another processor may round a few probabilities the other way.
    assert new["recall_at_cap"] == pytest.approx(recorded["recall_at_cap"], abs=0.01)
