"""Install the wheel as a user without root rights does, on a machine without bubblewrap and tmux, and use it.

    python -m tests.tools.stranger [--python PYTHON] [--hostile]

The wheel with its extras `torch` and `tune` goes into a new environment of a Python that every user can read, with the
lowest version of each dependency that pyproject.toml allows. The tests of the sandbox, of adapters and of the engine's
decoder run against the installed package, and with --hostile those with hostile files and servers too. Then the main
commands run in an empty home directory with the landlock sandbox, and the TUI is opened. At last, the tests of GGUF
files run with the lowest versions of the extra `gguf`, and those of adapters and GGUF files with the newest. Root runs
all of it as a user id without an account. pip asks its index, with the settings of this process.
"""

import argparse
import os
import shutil
import stat
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from harness.core.files import temporary_folder
from tests.tools.distribution import ROOT, Installation, build, copy_torch, run, version_of

USER = 54321
"""The id of a user without an account."""
ABSENT = ("bwrap", "chromium", "pdftoppm", "tmux")
_TEAM = 'name = "Strangers"\n\n[[members]]\nname = "A. Stranger"\naffiliation = "Elsewhere"\n'
_DESCRIPTION = "# What is new\n\nNothing: the likeliest token at each step.\n"
_SANDBOX_TESTS = (
    *("tests/functional/test_sandbox.py", "tests/functional/test_secrecy.py", "tests/hostile/test_sandbox.py"),
    # The other tests of these files start no sandbox, or compare backends, which root shows as well.
    *("-k", "landlock or bwrap or inside"),
    *("-n", "2"),
)
_DECODER_TESTS = ("tests/unit/engine/test_architectures.py", "-k", "draws and cpu")
# The tests of the decoder compile the modules of torch and transformers, which a sandboxed worker cannot store.
_TESTS = {
    "decoder": (*_DECODER_TESTS, "-m", "not long"),
    "adapters": ("tests/unit/engine/test_adapter.py", "-m", "not long"),
    "sandbox": (*_SANDBOX_TESTS, "-m", "not slow"),
}
_CONVERSION_TESTS = ("tests/unit/engine/test_conversion.py", "tests/unit/cli/test_conversion.py")
_LOWEST_TESTS = {"lowest": ("tests/unit/engine/test_conversion.py", "-m", "not long")}
_NEWEST_TESTS = {"newest": ("tests/unit/engine/test_adapter.py", *_CONVERSION_TESTS, "-m", "not long")}
_HOSTILE_TESTS = {"hostile": ("tests/hostile", "--ignore", "tests/hostile/test_sandbox.py", "-n", "2")}
_EXTRAS = ("torch", "tune")
_TEST_TOOLS = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist")
_INSTALLER_SETTINGS = ("PIP_", "SSL_CERT_", "REQUESTS_CA_", "http_proxy", "https_proxy", "no_proxy")


def readable_python() -> str:
    """Return the path of a Python of this version that every user can start: this one, or that of the system."""
    for python in (os.path.realpath(sys.executable), f"/usr/bin/python{version_of(sys.executable)}"):
        if os.getuid() != 0 or _is_readable_by_all(Path(python)):
            return python
    sys.exit(f"no Python {version_of(sys.executable)} that every user can read. Name one with --python.")


def _is_readable_by_all(file: Path) -> bool:
    if not file.exists():
        return False
    folders_are_open = all(folder.stat().st_mode & stat.S_IXOTH for folder in file.parents)
    return folders_are_open and bool(file.stat().st_mode & stat.S_IROTH)


def programs_without(names: tuple[str, ...], folder: Path) -> Path:
    """Fill `folder` with links to the programs on PATH except for those called `names`, and return it."""
    folder.mkdir()
    for directory in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in directory.iterdir() if directory.is_dir() else ():
            link = folder / program.name
            if program.name not in names and not link.is_symlink():
                link.symlink_to(program)
    return folder


def requirements_of(extras: Sequence[str]) -> list[Requirement]:
    """Return the packages that pyproject.toml names for some extras."""
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [Requirement(line) for extra in extras for line in optional[extra]]


def lowest_versions(packages: Iterable[Requirement]) -> list[str]:
    """Return a pin of the lowest version that each requirement allows, such as `numpy==2.2`."""
    return [
        f"{package.name}=={bound.version}"
        for package in packages
        for bound in package.specifier
        if bound.operator in (">=", "==")
    ]


class Stranger:
    """A user with an empty home in `folder`, who owns it and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.environment = folder / "env"
        self.prefix: tuple[str, ...] = ()
        if os.getuid() == 0:
            for path in (folder, self.home):
                os.chown(path, USER, USER)
            ids = (f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
            self.prefix = ("setpriv", *ids, "--inh-caps=-all", "--no-new-privs")
        programs = programs_without(ABSENT, folder / "programs")
        kept = {name: value for name, value in os.environ.items() if name.startswith(_INSTALLER_SETTINGS)}
        self.variables = kept | {
            "HOME": str(self.home),
            "PATH": f"{self.environment / 'bin'}{os.pathsep}{programs}",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "HARNESS_SANDBOX": "landlock",
        }

    @property
    def installed(self) -> Installation:
        return Installation(self.environment / "bin", self.home, self.prefix, self.variables)

    def run(self, *command: str, cwd: Path | None = None, **variables: str) -> str:
        """Run a command as this user, and return its stdout. Raises CalledProcessError if it fails."""
        return run([*self.prefix, *command], env=self.variables | variables, cwd=cwd or self.home)

    def install(self, python: str, wheel: Path) -> None:
        """Install the wheel with torch into a new environment, and the tools of the tests."""
        self.run(python, "-m", "venv", str(self.environment))
        copy_torch(self.environment)
        packages = self.home / wheel.name
        shutil.copyfile(wheel, packages)
        constraints = self.home / "lowest.txt"
        always = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        constraints.write_text("\n".join(lowest_versions([*map(Requirement, always), *requirements_of(_EXTRAS)])))
        extras = f"{packages}[{','.join(_EXTRAS)}]"
        self._pip_install("--constraint", str(constraints), extras, *_TEST_TOOLS)

    def install_for_gguf(self, *, newest: bool) -> str:
        """Install the extra `gguf` in its lowest or newest versions, and return the version of transformers."""
        packages = requirements_of(["gguf"])
        self._pip_install("--upgrade", *(map(str, packages) if newest else lowest_versions(packages)))
        python = str(self.environment / "bin" / "python")
        return "transformers " + self.run(python, "-c", "import transformers; print(transformers.__version__)").strip()

    def _pip_install(self, *words: str) -> None:
        pip = (str(self.environment / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check")
        self.run(*pip, "install", "--no-cache-dir", "--no-compile", "--only-binary", ":all:", *words)

    def use(self) -> None:
        """Attack, score, package, verify, and open the TUI. Raises an error if a step fails."""
        installed = self.installed
        summary = installed.json("run", "greedy", "--round", "demo")
        assert (summary["status"], summary["sandbox"]) == ("finished", "landlock"), summary
        score = installed.json("score", summary["submission"], "--round", "demo")
        assert score["recall_at_cap"] == summary["recall_at_cap"], (score, summary)
        (self.home / "team.toml").write_text(_TEAM)
        (self.home / "description.md").write_text(_DESCRIPTION)
        installed.harness("bundle", "create", summary["id"], "--out", "bundle.zip")
        verdict = installed.json("bundle", "verify", "bundle.zip", "--round", "demo", "--own-environment")
        assert verdict["outcome"] == "reproduced", verdict
        installed.first_paint(summary["id"].partition("-")[0])

    def run_tests(self, tests: Mapping[str, tuple[str, ...]]) -> str:
        """Run tests against the installed package, and return the last line of each pytest.

        tests: the arguments of each pytest, by a name.
        """
        copy = self.folder / "copy"
        if not copy.exists():
            shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__", "snapshots"))
            shutil.copytree(ROOT / "docs", copy / "docs", ignore=shutil.ignore_patterns("pictures"))
            shutil.copyfile(ROOT / "pyproject.toml", copy / "pyproject.toml")
        pytest = (str(self.environment / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider")
        path = f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        lines = []
        for name, selection in tests.items():
            output = self.run(*pytest, "--basetemp", str(self.home / name), *selection, cwd=copy, PATH=path)
            lines.append(output.strip().splitlines()[-1])
        return "; ".join(lines)


def main() -> None:
    """Build the wheel, install and use it, run the tests, and print what each step took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", metavar="PYTHON", help="interpreter that every user can read")
    parser.add_argument("--hostile", action="store_true", help="also run the tests against hostile files and servers")
    arguments = parser.parse_args()
    python = arguments.python or readable_python()
    tests = _TESTS | (_HOSTILE_TESTS if arguments.hostile else {})
    with temporary_folder("stranger-") as temporary:
        temporary.chmod(0o755)
        stranger = Stranger(temporary / "user")
        wheel = build(temporary / "dist").wheel
        for step, action in (
            (f"installed with {python}", lambda: stranger.install(python, wheel)),
            ("tests", lambda: stranger.run_tests(tests)),
            ("run, score, package, verify, screen", stranger.use),
            ("lowest for GGUF", lambda: stranger.install_for_gguf(newest=False)),
            ("tests with it", lambda: stranger.run_tests(_LOWEST_TESTS)),
            ("newest", lambda: stranger.install_for_gguf(newest=True)),
            ("tests with it", lambda: stranger.run_tests(_NEWEST_TESTS)),
        ):
            started = time.monotonic()
            result = action()
            print(f"stranger: {step}: {result or 'passed'} ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
