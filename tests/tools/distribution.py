"""Build the wheel and the sdist, install them as users do, and use them outside the repository.

    python -m tests.tools.distribution [--python PYTHON]...

For each interpreter (by default the one that runs this command) the wheel is installed into a new virtual environment.
There `harness` runs the demo, scores and validates its submission, writes a report and opens the TUI. Interpreters
of the version that runs this command get the extra `torch` too, with its torch. HARNESS_WHEELS is a directory of wheels
(`pip download -r requirements.lock`); without it, pip asks its index.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.submit.environment import torch_folders
from tests.tools.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
WHEELS = os.environ.get("HARNESS_WHEELS", "")
EXTRA = "[torch]"
_SCREEN_SECONDS = 120.0
_SIZE = (30, 100)
"""Rows and columns of the terminal in which the TUI is opened."""


@dataclass(frozen=True)
class Distribution:
    """The files that `python -m build` writes."""

    wheel: Path
    sdist: Path

    @property
    def wheel_names(self) -> list[str]:
        """The names of the files in the wheel."""
        with zipfile.ZipFile(self.wheel) as archive:
            return archive.namelist()


def build(folder: Path) -> Distribution:
    """Build both into `folder`, without network: the sdist from the repository, the wheel from the sdist."""
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)])
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Distribution(wheel, sdist)


def check_metadata(built: Distribution) -> None:
    """Raise CalledProcessError if a package index would refuse the metadata or cannot show the README."""
    run([sys.executable, "-m", "twine", "check", "--strict", str(built.wheel), str(built.sdist)])


def run(command: list[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Return the stdout of the command. If it fails, its output is printed and CalledProcessError is raised."""
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        done.check_returncode()
    return done.stdout


def sources() -> list[str]:
    """Return the options of pip and uv that say where wheels come from: HARNESS_WHEELS, or their own settings."""
    return ["--no-index", "--find-links", WHEELS] if WHEELS else []


@dataclass(frozen=True)
class Installation:
    """A program `harness` in the directory `programs`, and an own directory `folder` to work in.

    `prefix` is the command that runs it as another user, and `variables` replace those of this process.
    """

    programs: Path
    folder: Path
    prefix: tuple[str, ...] = ()
    variables: Mapping[str, str] | None = None

    @property
    def env(self) -> dict[str, str]:
        """The environment of the program: nothing leads to the repository or to the user's runs."""
        if self.variables is not None:
            return dict(self.variables)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "PYTHON"))}
        homes = {f"HARNESS_{name}": str(self.folder / name.lower()) for name in ("HOME", "DATA", "CACHE", "CONFIG")}
        return kept | homes | {"TERM": "xterm-256color", "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}"}

    def harness(self, *arguments: str) -> str:
        """Run a command of the installation outside the repository, and return its stdout."""
        self.folder.mkdir(exist_ok=True)
        return run([*self.prefix, str(self.programs / "harness"), *arguments], env=self.env, cwd=self.folder)

    def json(self, *arguments: str) -> dict[str, Any]:
        """Run a command with `--json` and return its object."""
        found: dict[str, Any] = json.loads(self.harness(*arguments, "--json"))
        return found

    def first_paint(self, wanted: str) -> None:
        """Open the TUI in a terminal, wait until it shows `wanted`, and quit. Raises AssertionError otherwise."""
        program = [*self.prefix, str(self.programs / "harness")]
        rows, columns = _SIZE
        with Terminal(program, rows=rows, columns=columns, env=self.env, cwd=self.folder) as terminal:
            terminal.wait_for(wanted, seconds=_SCREEN_SECONDS)
            terminal.press(b"q")
            terminal.read_for(_SCREEN_SECONDS)
            assert terminal.process.wait(timeout=_SCREEN_SECONDS) == 0


def install(wheel: Path, folder: Path, *, python: str = sys.executable, extra: str = "") -> Installation:
    """Install the wheel into a new virtual environment in `folder`.

    The extra `torch` takes torch from this interpreter's environment: PyTorch's builds differ between machines.
    """
    run([python, "-m", "venv", str(folder / "env")])
    programs = folder / "env" / "bin"
    if extra:
        copy_torch(folder / "env")
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--only-binary", ":all:", *sources(), "-c", str(ROOT / "constraints.txt"), f"{wheel}{extra}"])
    return Installation(programs, folder / "work")


def copy_torch(environment: Path) -> None:
    """Copy the torch of this interpreter into a virtual environment of the same Python version."""
    (packages,) = (environment / "lib").glob("python*/site-packages")
    for path in torch_folders():
        copy_tree(path, packages / path.name)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a file or a directory, as hard links where that is possible. What exists stays."""
    if source.is_dir():
        shutil.copytree(source, target, copy_function=_link_or_copy, dirs_exist_ok=True)
    else:
        _link_or_copy(str(source), str(target))


def _link_or_copy(source: str, target: str) -> None:
    if not Path(target).exists():
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)


def install_with_pipx(wheel: Path, folder: Path) -> Installation:
    """Install the wheel as a program of the user, as `pipx install .` does in the clone."""
    env = os.environ | {"PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin")}
    pipx = [sys.executable, "-m", "pipx", "install", "--quiet", "--python", sys.executable]
    pip = " ".join(["--quiet", *sources(), "-c", str(ROOT / "constraints.txt")])
    run([*pipx, f"--pip-args={pip}", str(wheel)], env=env)
    return Installation(folder / "bin", folder / "work")


def demo_with_uvx(wheel: Path, folder: Path) -> str:
    """Return what `uvx --from . harness demo` prints on stdout in the clone."""
    place = Installation(Path(sys.executable).parent, folder)
    folder.mkdir(exist_ok=True)
    command = [str(place.programs / "uv"), "tool", "run", "--quiet", "--python", sys.executable, *sources()]
    command += ["--constraints", str(ROOT / "constraints.txt"), "--from", str(wheel), "harness", "demo"]
    return run(command, env=place.env | {"UV_CACHE_DIR": str(folder / "uv")}, cwd=folder)


def use(installed: Installation) -> dict[str, Any]:
    """Run the demo, score and validate its submission, write a report and open the TUI. Return the demo's summary.

    Raises CalledProcessError or AssertionError for the first thing that does not work.
    """
    summary = installed.json("demo")
    assert summary["status"] == "finished", summary
    score = installed.json("score", summary["submission"], "--round", "demo")
    assert score["recall_at_cap"] == summary["recall_at_cap"], (score, summary)
    installed.harness("score", summary["submission"], "--round", "demo")
    installed.harness("report", summary["id"], "--out", "report.html")
    assert summary["id"] in (installed.folder / "report.html").read_text(encoding="utf-8")
    assert summary["id"] in installed.harness("list", "runs")
    installed.first_paint(summary["id"].partition("-")[0])  # The list of runs abbreviates their ids.
    return summary


def version_of(python: str) -> str:
    """Return the version of an interpreter, such as `3.13`."""
    return run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()


def main() -> None:
    """Build, check and use the distribution with each interpreter, and print what ran."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", metavar="PYTHON", help="interpreter; repeatable")
    pythons = parser.parse_args().python or [sys.executable]
    with tempfile.TemporaryDirectory(prefix="distribution-") as temporary:
        folder = Path(temporary)
        built = build(folder / "dist")
        check_metadata(built)
        for file in (built.wheel, built.sdist):
            print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB", flush=True)
        for number, python in enumerate(pythons):
            version = version_of(python)
            has_torch = version == version_of(sys.executable)
            for extra in ("", EXTRA) if has_torch else ("",):
                place = folder / f"{number}{extra}"
                place.mkdir()
                summary = use(install(built.wheel, place, python=python, extra=extra))
                what = f"{summary['attack']}, recall {summary['recall_at_cap']:.3f}"
                print(f"Python {version}, wheel{extra}: demo ({what}), score, validate, report, screen")
                shutil.rmtree(place)


if __name__ == "__main__":
    main()
