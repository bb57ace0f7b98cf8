"""Create the Python environment of a bundle's code: from the bundle's lock, or the verifier's own if it matches.

pip installs, because every Python contains it. uv would be another download, and would read the indexes of other files
than those that organizers have set up for pip. No installer reads a file of the bundle: the pins are parsed here, and
pip gets a new list of names, versions and hashes. It runs twice: it downloads wheels, with network and with the
organizer's settings, which may contain passwords; then it installs them without either. Only wheels are accepted, so
neither runs code of a distribution. The bundle's own wheel is unpacked like any other zip.
"""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlparse

from packaging.utils import canonicalize_name

from harness.core.errors import HarnessError
from harness.core.extras import installed_version
from harness.core.files import read_start
from harness.core.text import list_first, shorten
from harness.submit.archive import unpack
from harness.submit.code_folder import REQUIREMENTS
from harness.submit.code_spec import CodeSpec
from harness.submit.execution import RunSettings, run_step
from harness.submit.lock_file import Pin, comes_with_torch, read_pins, torch_build, torch_install_arguments

_INSTALL_SECONDS = 3600.0
_INDEX_SETTINGS = ("find-links", "index-url", "extra-index-url")
_FILE_SETTINGS = ("cert", "client-cert")
_PIP_SETTINGS = (
    *(*_INDEX_SETTINGS, *_FILE_SETTINGS),
    *("no-index", "trusted-host", "proxy", "timeout", "default-timeout", "retries"),
)
_PIP_SECTIONS = ("global", "download", "install", ":env:")  # a later one has precedence
_NETWORK_VARIABLES = re.compile(r"(?i)(https?|no|all)_proxy|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE")


@dataclass(frozen=True)
class CodeEnvironment:
    """A Python interpreter with everything that the code needs."""

    python: Path
    torch: str
    """The version and build of torch."""
    readable: tuple[Path, ...]
    """The folders that the interpreter needs."""
    site: Path
    """The folder of the bundle's harness, which comes before all other distributions."""
    summary: str
    """The environment in a clause."""


def create_environment(code: Path, spec: CodeSpec, settings: RunSettings, work: Path) -> CodeEnvironment:
    """Create the environment of the code in the folder `code` inside `work`.

    Raises HarnessError if it cannot be created with these settings, and OtherVersionsError if the verifier's own
    environment is another one.
    """
    wheels = [path for path in code.glob("*.whl") if path.is_file()]
    if len(wheels) != 1:
        raise HarnessError(f"code/ contains {len(wheels)} wheels, expected one.")
    pins = [pin for pin in read_pins(read_start(code / REQUIREMENTS).decode("ascii")) if pin.applies]
    site = work / "site"
    site.mkdir()
    unpack(wheels[0], site)
    requirements = work / REQUIREMENTS
    requirements.write_text("".join(f"{pin.requirement}\n" for pin in pins), encoding="ascii")
    if settings.use_own_environment:
        return _own_environment(pins, site)
    return _NewEnvironment(requirements, site, settings, work).create(spec.versions.get("torch", "absent"))


def _own_environment(pins: Sequence[Pin], site: Path) -> CodeEnvironment:
    """Return this Python. Raises OtherVersionsError if its versions are not the locked ones."""
    differing = [
        f"{shorten(pin.name)} is {installed or 'not installed'}, the lock has {shorten(pin.version)}"
        for pin in pins
        if (installed := installed_version(pin.name)) != pin.version
    ]
    if differing:
        raise OtherVersionsError(
            f"this environment differs from the bundle's lock: {list_first(differing, 3)}. "
            "Verify without --own-environment."
        )
    summary = f"the verifier's own Python {sys.version.split()[0]} with the locked versions, torch {torch_build()}"
    return CodeEnvironment(Path(sys.executable), torch_build(), (site,), site, summary)


class OtherVersionsError(HarnessError):
    """The verifier's Python has other versions than the bundle's lock, which does not count against the bundle."""


@dataclass(frozen=True)
class _NewEnvironment:
    """A virtual environment that is installed inside the sandbox, from the file `requirements` of pins with hashes.

    Its own Python must not start during installation: a distribution can leave code that runs at every start (a .pth
    file), which would then have network access. A second environment, which contains only pip, installs into it.
    """

    requirements: Path
    site: Path
    settings: RunSettings
    work: Path

    def create(self, torch: str) -> CodeEnvironment:
        """Install the lock and this build of torch."""
        # The interpreter that this environment was created from.
        base_python = str(getattr(sys, "_base_executable", None) or sys.executable)
        venv = [base_python, "-I", "-m", "venv"]
        self._run([*venv, str(self._tools)], "creating the installer's environment", self._tools)
        self._run([*venv, "--without-pip", str(self._folder)], "creating a virtual environment", self._folder)
        self._install(["--require-hashes", "--no-deps", "-r", str(self.requirements)], "the lock")
        torch_words, torch_folders = self._install_torch(torch)
        summary = f"a new environment from the bundle's lock, Python {sys.version.split()[0]}, {torch_words}"
        readable = (self._folder, *torch_folders, self.site)
        return CodeEnvironment(self._folder / "bin" / "python", torch, readable, self.site, summary)

    @property
    def _folder(self) -> Path:
        return self.work / "env"

    @property
    def _tools(self) -> Path:
        return self.work / "tools"

    @property
    def _packages(self) -> Path:
        (packages,) = (self._folder / "lib").glob("python*/site-packages")
        return packages

    def _install_torch(self, version: str) -> tuple[str, tuple[Path, ...]]:
        """Link the verifier's torch if it is the same build, else install it. Return a clause and linked folders."""
        if version == "absent":
            return "without torch", ()
        if version != torch_build():
            requirement, *index = torch_install_arguments(version).split()
            self._install([requirement], f"torch {version}", index=index)
            return f"torch {version} from PyTorch's index", ()
        folders = tuple(torch_folders())
        for folder in folders:
            # A file that the lock installed has precedence.
            if not (self._packages / folder.name).exists():
                (self._packages / folder.name).symlink_to(folder)
        return f"torch {version}, the verifier's own build", folders

    def _install(self, arguments: list[str], content: str, *, index: Sequence[str] = ()) -> None:
        """Download wheels if the network may be used, and install them. `index` are options of the download alone."""
        pip = [str(self._tools / "bin" / "python"), "-I", "-m", "pip", "--no-input", "--disable-pip-version-check"]
        local = [] if self.settings.wheels is None else ["--find-links", str(self.settings.wheels.resolve())]
        readable: Sequence[Path] = ()
        if self.settings.may_use_network:
            downloads = self.work / "downloads"
            download = ["download", "--no-cache-dir", "--only-binary", ":all:", "--dest", str(downloads)]
            self._run(
                [*pip, *download, *local, *index, *arguments],
                f"downloading {content}",
                downloads,
                readable=local_package_indexes(),
                variables=download_variables(),
                network=True,
            )
            local, readable = ["--find-links", str(downloads)], [downloads]
        # One execution imports a small part of the modules, so compiling all of them would take longer.
        install = ["install", "--no-cache-dir", "--only-binary", ":all:", "--no-index", "--no-compile"]
        install += ["--no-warn-conflicts", "--target", str(self._packages)]
        self._run([*pip, *install, *local, *arguments], f"installing {content}", self._folder, readable=readable)

    def _run(
        self,
        argv: list[str],
        step: str,
        scratch: Path,
        *,
        readable: Sequence[Path] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
        network: bool = False,
    ) -> None:
        """Run one step in the sandbox, which can write to `scratch`. Raises HarnessError if it fails."""
        self.settings.on_step(step)
        scratch.mkdir(exist_ok=True)
        wheels = [] if self.settings.wheels is None else [self.settings.wheels.resolve()]
        result = run_step(
            argv,
            scratch=scratch,
            readable=(self.requirements, *wheels, *readable, *([self._tools] if scratch != self._tools else [])),
            # Without settings of pip itself, an installation reads neither configuration files nor an index.
            variables={"PIP_CONFIG_FILE": os.devnull, **variables},
            seconds=_INSTALL_SECONDS,
            network=network,
            log=self.work / "install.log",
            on_line=self.settings.on_line,
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


def pip_settings() -> dict[str, str]:
    """Return this user's options of pip for package indexes and the network, from files and variables.

    Its values may contain passwords.
    """
    # -P: a file pip.py in the present directory must not run.
    command = [sys.executable, "-P", "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    values = dict(line.split("=", 1) for line in listed.splitlines() if "=" in line)
    return {
        option: str(ast.literal_eval(values[f"{section}.{option}"]))  # pip prints Python literals
        for section in _PIP_SECTIONS
        for option in _PIP_SETTINGS
        if f"{section}.{option}" in values
    }


def download_variables() -> dict[str, str]:
    """Return the environment variables of a download, which may contain passwords."""
    variables = {name: value for name, value in os.environ.items() if _NETWORK_VARIABLES.fullmatch(name)}
    settings = {f"PIP_{option.upper().replace('-', '_')}": value for option, value in pip_settings().items()}
    # A variable separates values by spaces, a file by lines.
    return variables | {name: " ".join(value.split()) for name, value in settings.items()}


def local_package_indexes() -> list[Path]:
    """Return the local files and folders in pip's settings that packages are installed from (paths and file: URLs)."""
    paths: dict[Path, None] = {}
    for option, value in pip_settings().items():
        for word in value.split() if option in (*_INDEX_SETTINGS, *_FILE_SETTINGS) else ():
            path = unquote(urlparse(word).path) if word.startswith("file:") else word
            if path.startswith("/") and path != "/":
                # An index is a folder simple/ with links to files next to it.
                is_index = word.startswith("file:") and Path(path).name == "simple"
                paths[Path(path).parent if is_index else Path(path)] = None
    return [path for path in paths if path.exists() and path != Path("/")]
