"""The environment of a bundle's code: made anew from its own lock, or the verifier's where that is the same."""

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
from harness.submit.code import REQUIREMENTS
from harness.submit.code_spec import CodeSpec
from harness.submit.execution import OnLine, run_step
from harness.submit.lock import pinned_versions, torch_build, torch_install

_INSTALL_SECONDS = 3600.0
_INDEXES = ("find-links", "index-url", "extra-index-url")
PASSED_TO_PIP = re.compile(r"(?i)PIP_.*|https?_proxy|no_proxy|all_proxy|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE")
_OWN_OF_TORCH = ("torch", "triton")


@dataclass(frozen=True)
class Install:
    """Where an environment comes from.

    is_own: the verifier's own Python and distributions, if their versions are the locked ones; else a fresh one, from
    the folder `wheels` (None: not from there), and from the package index where the network is allowed for that.
    """

    is_own: bool = False
    wheels: Path | None = None
    may_use_network: bool = False


@dataclass(frozen=True)
class Environment:
    """A Python with everything that the code needs, torch in the build that `torch` names; `readable` are the places
    where it lies, `variables` what it needs in its environment."""

    python: Path
    torch: str
    readable: tuple[Path, ...]
    variables: dict[str, str]
    in_words: str


def made_environment(code: Path, spec: CodeSpec, install: Install, work: Path, on_line: OnLine) -> Environment:
    """The environment for the code in the folder `code`, made inside `work`; `on_line` hears what the installer says.

    Raises HarnessError, in a sentence, when it cannot be made as asked.
    """
    wheel = _wheel_in(code)
    if install.is_own:
        return _own(code, wheel, work)
    if install.wheels is None and not install.may_use_network:
        raise HarnessError(
            "nothing to install it from: --allow-network-install asks the package index, --wheels DIR takes a folder, "
            "and --own-environment the verifier's own."
        )
    return _Fresh(code, install, work, on_line).with_wheel(wheel, spec.versions.get("torch", "absent"))


def _own(code: Path, wheel: Path, work: Path) -> Environment:
    """This very Python, with the bundle's harness before its own."""
    others = [
        f"{name} {found} where the lock has {version}"
        for name, version in pinned_versions((code / REQUIREMENTS).read_text(encoding="utf-8")).items()
        if (found := _installed(name)) not in (None, version)
    ]
    if others:
        more = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
        raise HarnessError(f"this environment is not the bundle's: {', '.join(others[:3])}{more}; leave it to be made.")
    site = work / "site"
    site.mkdir()
    unpack(wheel, site)
    words = (
        f"the verifier's own Python {sys.version.split()[0]}, whose versions are the locked ones, torch {torch_build()}"
    )
    return Environment(Path(sys.executable), torch_build(), (site,), {"PYTHONPATH": str(site)}, words)


class _Fresh:
    """A virtual environment that is made step by step inside the sandbox, what the lock names by hashes alone.

    Its own Python is not started on the way: what a distribution leaves there to be run at every start (a .pth file)
    would run with the network that installing may have. Another one, with pip and nothing else, fills it.
    """

    def __init__(self, code: Path, install: Install, work: Path, on_line: OnLine) -> None:
        self._requirements = code / REQUIREMENTS
        self._may_use_network = install.may_use_network
        self._source = ["--find-links", str(install.wheels)] if install.wheels is not None else []
        self._source += [] if install.may_use_network else ["--no-index"]
        self._readable = (code, *local_indexes(), *([install.wheels] if install.wheels is not None else []))
        self._place = work / "env"
        self._tools = work / "tools"
        self._log = work / "install.log"
        self._on_line = on_line

    def with_wheel(self, wheel: Path, torch: str) -> Environment:
        """The environment with the bundle's `wheel` and the build of `torch` that it names."""
        venv = [_base_python(), "-I", "-m", "venv"]
        self._step([*venv, str(self._tools)], "making an environment to install from", self._tools)
        self._step([*venv, "--without-pip", str(self._place)], "making a virtual environment", self._place)
        by_hash = ["--require-hashes", "--no-deps", *self._source, "-r", str(self._requirements)]
        self._pip(by_hash, "installing what the lock names", network=self._may_use_network)
        words, linked = self._torch(torch)
        self._pip(["--no-deps", "--no-index", str(wheel)], "installing the wheel", network=False)
        words = f"a fresh one from the bundle's lock, Python {sys.version.split()[0]}, {words}"
        return Environment(self._python, torch, (self._place, *linked), {}, words)

    @property
    def _python(self) -> Path:
        return self._place / "bin" / "python"

    @property
    def _packages(self) -> Path:
        (packages,) = (self._place / "lib").glob("python*/site-packages")
        return packages

    def _torch(self, wanted: str) -> tuple[str, tuple[Path, ...]]:
        """Torch: the verifier's own build where it is the one that is wanted, else installed; and where it lies."""
        if wanted == "absent":
            return "without torch", ()
        if wanted != torch_build():
            arguments = [*self._source, *torch_install(wanted).split()]
            self._pip(arguments, f"installing torch {wanted}", network=self._may_use_network)
            return f"torch {wanted}, as PyTorch gives it out", ()
        parts = tuple(_parts_of_torch())
        for part in parts:
            # Never over what the lock brought.
            if not (self._packages / part.name).exists():
                (self._packages / part.name).symlink_to(part)
        return f"torch {wanted}, the verifier's own build", parts

    def _pip(self, arguments: list[str], doing: str, *, network: bool) -> None:
        pip = [str(self._tools / "bin" / "python"), "-I", "-m", "pip", "install", "--no-input", "--no-cache-dir"]
        pip += ["--disable-pip-version-check", "--no-warn-conflicts", "--target", str(self._packages)]
        self._step([*pip, "--only-binary", ":all:", *arguments], doing, self._place, network=network)

    def _step(self, argv: list[str], doing: str, scratch: Path, *, network: bool = False) -> None:
        """One step, in the sandbox, that writes to `scratch`. Raises HarnessError with its last words when it fails."""
        self._on_line(doing)
        scratch.mkdir(exist_ok=True)
        # Where the index is and how it is reached, which may be secret, is known to the step that asks it alone.
        passed = {name: value for name, value in os.environ.items() if network and PASSED_TO_PIP.fullmatch(name)}
        done = run_step(
            argv,
            scratch=scratch,
            readable=(*self._readable, *([self._tools] if scratch != self._tools else [])),
            variables=passed,
            seconds=_INSTALL_SECONDS,
            network=network,
            log=self._log,
            on_line=self._on_line,
        )
        if done.code != 0:
            raise HarnessError(f"{doing} failed: {done.ending} ({shorten(done.last_words, 300)}).")


def _parts_of_torch() -> Iterator[Path]:
    """What lies in site-packages of torch and of what it brings of its own, which no lock names."""
    for distribution in importlib.metadata.distributions():
        name = canonicalize_name(distribution.name)
        is_of_torch = name in _OWN_OF_TORCH or (name.startswith(("nvidia-", "cuda-")) and name != "nvidia-ml-py")
        if is_of_torch:
            tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
            for top in sorted(tops):
                part = Path(str(distribution.locate_file(top)))
                if part.exists():
                    yield part


def _wheel_in(code: Path) -> Path:
    wheels = sorted(code.glob("*.whl"))
    if len(wheels) != 1:
        raise HarnessError(f"code/ holds {len(wheels)} wheels where one is wanted.")
    return wheels[0]


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _base_python() -> str:
    """The interpreter that this environment was made from."""
    return str(getattr(sys, "_base_executable", None) or sys.executable)


def local_indexes() -> list[Path]:
    """Folders of this machine that pip takes packages from, as its settings name them: paths or file: addresses."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    named: dict[Path, None] = {}
    for line in told.splitlines():
        setting, _, value = line.partition("=")
        if setting.rpartition(".")[2] in _INDEXES:
            for word in value.strip("'\"").replace("\\n", " ").split():
                path = unquote(urlparse(word).path) if word.startswith("file:") else word
                if path.startswith("/") and path != "/":
                    named[Path(path)] = None
    return [path for path in named if path.exists()]
