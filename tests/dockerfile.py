"""A Dockerfile's steps executed one after another in a fresh Debian, where there is no Docker engine to build it.

    python -m tests.dockerfile DOCKERFILE [--base DIR] [--keep DIR] [--arg NAME=VALUE] [-- COMMAND…]

The base image is made by debootstrap: Debian 12 with its Python (3.11) in place of `python:3.x-slim`, as `python` and
`pip` in a virtual environment at /usr/local, where that image has them. Each RUN is a process of its own in that root;
COPY, ENV, ARG and WORKDIR do what a build does with them. What the host's pip is told of indexes and certificates is
lent to the steps. COMMAND is run behind the ENTRYPOINT once all steps have succeeded. Needs root, debootstrap and
bubblewrap; it says what ran, and is not `docker build`.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.submit.environment import PIP_VARIABLES, local_package_indexes

_RELEASE = "bookworm"
_LENT_TO_ALL = ("/etc/resolv.conf",)
_LENT_TO_STEPS = ("/etc/pip.conf", "/etc/ssl/certs", "/usr/local/share/ca-certificates")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BASE_STEPS = (
    "apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv ca-certificates",
    "python3 -m venv /usr/local && rm -rf /var/lib/apt/lists/*",
)


@dataclass
class Build:
    """A root file system on its way to an image: what the steps so far have set."""

    root: Path
    context: Path
    given: dict[str, str]
    folder: str = "/"
    variables: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] = field(default_factory=list)
    lent: tuple[str, ...] = ()

    def step(self, word: str, rest: str) -> None:
        """Do what one instruction says."""
        handler = getattr(self, f"_{word.lower()}", None)
        if handler is None:
            sys.exit(f"{word}: an instruction that this script does not know.")
        handler(rest)

    def run(self, command: list[str]) -> int:
        """Run `command` in the root, as a container would; its exit code."""
        names = {name: value for name, value in os.environ.items() if PIP_VARIABLES.fullmatch(name)}
        told = {"PATH": _PATH, "HOME": "/root", **names, **self.arguments, **self.variables}
        confined = ["bwrap", "--bind", str(self.root), "/", "--dev", "/dev", "--proc", "/proc", "--cap-add", "ALL"]
        confined += ["--perms", "1777", "--tmpfs", "/tmp", "--chdir", self.folder, "--clearenv"]
        for place in self.lent:
            confined += ["--ro-bind", place, place]
        for name, value in told.items():
            confined += ["--setenv", name, value]
        return subprocess.run([*confined, "--", *command], check=False).returncode

    def _from(self, rest: str) -> None:
        print(f"  (Debian {_RELEASE} in place of {rest})", flush=True)

    def _run(self, rest: str) -> None:
        if code := self.run(["/bin/sh", "-c", rest]):
            sys.exit(f"RUN {rest}\nended with exit code {code}.")

    def _workdir(self, rest: str) -> None:
        self.folder = str(Path(self.folder) / rest)
        self._inside(self.folder).mkdir(parents=True, exist_ok=True)

    def _copy(self, rest: str) -> None:
        *sources, last = shlex.split(rest)
        target = self._inside(str(Path(self.folder) / last))
        for source in sources:
            path = self.context / source
            if path.is_dir():
                # A folder's content goes, not the folder.
                shutil.copytree(path, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".git"))
            else:
                is_folder = last.endswith("/") or len(sources) > 1 or target.is_dir()
                place = target / path.name if is_folder else target
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place)

    def _env(self, rest: str) -> None:
        self.variables |= dict(pair.split("=", 1) for pair in shlex.split(rest))

    def _arg(self, rest: str) -> None:
        name, _, default = shlex.split(rest)[0].partition("=")
        self.arguments[name] = self.given.get(name, default)

    def _volume(self, rest: str) -> None:
        self._inside(rest).mkdir(parents=True, exist_ok=True)

    def _entrypoint(self, rest: str) -> None:
        self.entrypoint = json.loads(rest)

    def _cmd(self, rest: str) -> None:
        """A default that the command line replaces."""

    def _inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each instruction and what follows it, continued lines joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def _lent_to_steps() -> tuple[str, ...]:
    """What of this machine tells pip where packages come from, and whom to trust."""
    named = map(str, local_package_indexes())
    return tuple(p for p in dict.fromkeys((*_LENT_TO_ALL, *_LENT_TO_STEPS, *named)) if Path(p).exists())


def _make_base(base: Path) -> None:
    """A Debian with Python in `base`, unless one is there from an earlier time."""
    if (base / "usr/local/bin/pip").exists():
        return
    print(f"debootstrap {_RELEASE} …", flush=True)
    subprocess.run(["debootstrap", "--variant=minbase", _RELEASE, str(base)], check=True, stdout=subprocess.DEVNULL)
    build = Build(base, base, {}, lent=_LENT_TO_ALL)
    for command in _BASE_STEPS:
        build.step("RUN", command)


def main() -> None:
    """Execute the steps, and say how long each took."""
    own, _, command = " ".join(map(shlex.quote, sys.argv[1:])).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dockerfile", type=Path)
    parser.add_argument("--base", type=Path, help="where the base lies, or is made and left")
    parser.add_argument("--keep", type=Path, help="leave the finished root here")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="as docker's --build-arg")
    options = parser.parse_args(shlex.split(own))
    with tempfile.TemporaryDirectory(prefix="dockerfile-") as temporary:
        base = options.base or Path(temporary) / "base"
        base.mkdir(parents=True, exist_ok=True)
        _make_base(base)
        root = options.keep or Path(temporary) / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", f"{base}/.", str(root)], check=True)
        given = dict(pair.split("=", 1) for pair in options.arg)
        build = Build(root, options.dockerfile.parent.resolve(), given, lent=_lent_to_steps())
        for word, rest in instructions(options.dockerfile.read_text()):
            print(f"{word} {rest}", flush=True)
            began = time.monotonic()
            build.step(word, rest)
            if word == "RUN":
                print(f"  {time.monotonic() - began:.0f} s", flush=True)
        if command:
            whole = [*build.entrypoint, *shlex.split(command)]
            print(f"$ {shlex.join(whole)}", flush=True)
            sys.exit(build.run(whole))


if __name__ == "__main__":
    main()
