"""Create the Python environment of a bundle's code: from the bundle's lock, or the verifier's own if it matches."""

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from packaging.utils import canonicalize_name

from harness.core.errors import HarnessError
from harness.core.text import shorten
from harness.submit.archive import unpack
from harness.submit.code_folder import REQUIREMENTS
from harness.submit.code_spec import CodeSpec
from harness.submit.execution import OnLine, run_step
from harness.submit.lock_file import (
    comes_with_torch,
    installed_version,
    pinned_versions,
    torch_build,
    torch_install_arguments,
)

_INSTALL_SECONDS = 3600.0
_INDEX_SETTINGS = ("find-links", "index-url", "extra-index-url")
PIP_VARIABLES = re.compile(r"(?i)PIP_.*|https?_proxy|no_proxy|all_proxy|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE")


@dataclass(frozen=True)
class InstallOptions:
    """The source of an environment.

    With `use_own`, the verifier's own Python is used, whose versions must be the locked ones. Otherwise a new
    environment is installed from the folder `wheels` and, with `may_use_network`, from the package index.
    """

    use_own: bool = False
    wheels: Path | None = None
    may_use_network: bool = False


@dataclass(frozen=True)
class CodeEnvironment:
    """A Python interpreter with everything that the code needs.

    `torch` is the version and build. `readable` lists the folders that the interpreter needs, `variables` its
    environment variables. `summary` describes it in a clause.
    """

    python: Path
    torch: str
    readable: tuple[Path, ...]
    variables: dict[str, str]
    summary: str


def create_environment(
    code: Path, spec: CodeSpec, install: InstallOptions, work: Path, on_line: OnLine
) -> CodeEnvironment:
    """Create the environment of the code in the folder `code` inside `work`. `on_line` gets the installer's output.

    Raises HarnessError if it cannot be created with these options.
    """
    wheels = sorted(code.glob("*.whl"))
    if len(wheels) != 1:
        raise HarnessError(f"code/ contains {len(wheels)} wheels, expected one.")
    if install.use_own:
        return _own_environment(code, wheels[0], work)
    return _NewEnvironment(code, install, work, on_line).create(wheels[0], spec.versions.get("torch", "absent"))


def _own_environment(code: Path, wheel: Path, work: Path) -> CodeEnvironment:
    """Return this Python, with the bundle's harness ahead of its own."""
    differing = [
        f"{name} is {installed or 'not installed'}, the lock has {version}"
        for name, version in pinned_versions((code / REQUIREMENTS).read_text(encoding="utf-8")).items()
        if (installed := installed_version(name)) != version
    ]
    if differing:
        more = f" and {len(differing) - 3:,} more" if len(differing) > 3 else ""
        raise HarnessError(
            f"this environment differs from the bundle's lock: {', '.join(differing[:3])}{more}. "
            "Verify without --own-environment."
        )
    site = work / "site"
    site.mkdir()
    unpack(wheel, site)
    summary = f"the verifier's own Python {sys.version.split()[0]} with the locked versions, torch {torch_build()}"
    return CodeEnvironment(Path(sys.executable), torch_build(), (site,), {"PYTHONPATH": str(site)}, summary)


class _NewEnvironment:
    """A virtual environment that is installed inside the sandbox, from the hashes in the lock alone.

    Its own Python must not start during installation: a distribution can leave code that runs at every start (a .pth
    file), which would then have network access. A second environment, which contains only pip, installs into it.
    """

    def __init__(self, code: Path, install: InstallOptions, work: Path, on_line: OnLine) -> None:
        self._requirements = code / REQUIREMENTS
        self._may_use_network = install.may_use_network
        self._source = ["--find-links", str(install.wheels)] if install.wheels is not None else []
        self._source += [] if install.may_use_network else ["--no-index"]
        self._readable = (code, *local_package_indexes(), *([install.wheels] if install.wheels is not None else []))
        self._folder = work / "env"
        self._tools = work / "tools"
        self._log = work / "install.log"
        self._on_line = on_line

    def create(self, wheel: Path, torch: str) -> CodeEnvironment:
        """Install the lock, this build of torch, and the bundle's `wheel`."""
        # The interpreter that this environment was created from.
        base_python = str(getattr(sys, "_base_executable", None) or sys.executable)
        venv = [base_python, "-I", "-m", "venv"]
        self._run([*venv, str(self._tools)], "creating the installer's environment", self._tools)
        self._run([*venv, "--without-pip", str(self._folder)], "creating a virtual environment", self._folder)
        locked = ["--require-hashes", "--no-deps", *self._source, "-r", str(self._requirements)]
        self._pip(locked, "installing the lock", network=self._may_use_network)
        torch_words, torch_folders = self._install_torch(torch)
        self._pip(["--no-deps", "--no-index", str(wheel)], "installing the wheel", network=False)
        summary = f"a new environment from the bundle's lock, Python {sys.version.split()[0]}, {torch_words}"
        python = self._folder / "bin" / "python"
        return CodeEnvironment(python, torch, (self._folder, *torch_folders), {}, summary)

    @property
    def _packages(self) -> Path:
        (packages,) = (self._folder / "lib").glob("python*/site-packages")
        return packages

    def _install_torch(self, version: str) -> tuple[str, tuple[Path, ...]]:
        """Link the verifier's torch if it is the same build, else install it. Return a clause and linked folders."""
        if version == "absent":
            return "without torch", ()
        if version != torch_build():
            arguments = [*self._source, *torch_install_arguments(version).split()]
            self._pip(arguments, f"installing torch {version}", network=self._may_use_network)
            return f"torch {version} from PyTorch's index", ()
        folders = tuple(torch_folders())
        for folder in folders:
            # A file that the lock installed has precedence.
            if not (self._packages / folder.name).exists():
                (self._packages / folder.name).symlink_to(folder)
        return f"torch {version}, the verifier's own build", folders

    def _pip(self, arguments: list[str], step: str, *, network: bool) -> None:
        pip = [str(self._tools / "bin" / "python"), "-I", "-m", "pip", "install", "--no-input", "--no-cache-dir"]
        # One execution imports a small part of the modules, so compiling all of them would take longer.
        pip += ["--disable-pip-version-check", "--no-warn-conflicts", "--no-compile", "--target", str(self._packages)]
        self._run([*pip, "--only-binary", ":all:", *arguments], step, self._folder, network=network)

    def _run(self, argv: list[str], step: str, scratch: Path, *, network: bool = False) -> None:
        """Run one step in the sandbox, which can write to `scratch`. Raises HarnessError if it fails."""
        self._on_line(step)
        scratch.mkdir(exist_ok=True)
        # The settings of the package index may contain secrets, so only steps that need the network receive them.
        variables = {name: value for name, value in os.environ.items() if network and PIP_VARIABLES.fullmatch(name)}
        result = run_step(
            argv,
            scratch=scratch,
            readable=(*self._readable, *([self._tools] if scratch != self._tools else [])),
            variables=variables,
            seconds=_INSTALL_SECONDS,
            network=network,
            log=self._log,
            on_line=self._on_line,
        )
        if result.code != 0:
            raise HarnessError(f"{step} failed: {result.ending} ({shorten(result.last_line, 300)}).")


def torch_folders() -> Iterator[Path]:
    """Yield the files and folders in site-packages of torch and of what comes with it."""
    for distribution in importlib.metadata.distributions():
        if not comes_with_torch(canonicalize_name(distribution.name)):
            continue
        names = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
        paths = (Path(str(distribution.locate_file(name))) for name in sorted(names))
        yield from (path for path in paths if path.exists())


def local_package_indexes() -> list[Path]:
    """Return the local folders in pip's settings that packages are installed from (paths and file: URLs)."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    settings = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    folders: dict[Path, None] = {}
    for line in settings.splitlines():
        setting, _, value = line.partition("=")
        if setting.rpartition(".")[2] in _INDEX_SETTINGS:
            for word in value.strip("'\"").replace("\\n", " ").split():
                path = unquote(urlparse(word).path) if word.startswith("file:") else word
                if path.startswith("/") and path != "/":
                    folders[Path(path)] = None
    return [folder for folder in folders if folder.exists()]
