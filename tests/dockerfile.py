"""Execute the instructions of a Dockerfile in a fresh Debian, on a machine without Docker.

    python -m tests.dockerfile DOCKERFILE [--base DIR] [--keep DIR] [--arg NAME=VALUE] [-- COMMAND...]

debootstrap creates the base image: Debian 12 with Python 3.11 instead of `python:3.x-slim`, with a virtual environment
in /usr/local, where that image has `python` and `pip`. Each RUN is a process in this root. COPY, ENV, ARG, USER and
WORKDIR work as in a build. The pip settings and certificates of the host are available to the steps. COMMAND runs with
the ENTRYPOINT after all steps. This needs root, debootstrap and bubblewrap, and it does not replace `docker build`.
"""

import argparse
import json
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

from harness.submit.environment import download_variables, local_package_indexes

_RELEASE = "bookworm"
_SHARED_ALWAYS = ("/etc/resolv.conf",)
_SHARED_WITH_STEPS = ("/etc/pip.conf", "/etc/ssl/certs", "/usr/local/share/ca-certificates")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BASE_STEPS = (
    "apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv ca-certificates",
    "python3 -m venv /usr/local && rm -rf /var/lib/apt/lists/*",
)


@dataclass
class Build:
    """A root file system, and the settings of the instructions so far."""

    root: Path
    context: Path
    given: dict[str, str]
    folder: str = "/"
    variables: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] = field(default_factory=list)
    shared: tuple[str, ...] = ()
    user: str = "root"

    def step(self, word: str, rest: str) -> None:
        """Execute one instruction."""
        handler = getattr(self, f"_{word.lower()}", None)
        if handler is None:
            sys.exit(f"{word}: unknown instruction. Add a method for it to Build.")
        handler(rest)

    def run(self, command: list[str]) -> int:
        """Run `command` in the root, as a container does. Return its exit code."""
        home = "/root" if self.user == "root" else f"/home/{self.user}"
        variables = {"PATH": _PATH, "HOME": home, **download_variables(), **self.arguments, **self.variables}
        container = ["bwrap", "--bind", str(self.root), "/", "--dev", "/dev", "--proc", "/proc", "--cap-add", "ALL"]
        container += ["--perms", "1777", "--tmpfs", "/tmp", "--chdir", self.folder, "--clearenv"]
        for path in self.shared:
            container += ["--ro-bind", path, path]
        for name, value in variables.items():
            container += ["--setenv", name, value]
        become = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--init-groups", "--bounding-set=-all"]
        whole = [*container, "--", *(become if self.user != "root" else ()), *command]
        return subprocess.run(whole, check=False).returncode

    def _from(self, rest: str) -> None:
        print(f"  (Debian {_RELEASE} instead of {rest})", flush=True)

    def _run(self, rest: str) -> None:
        if code := self.run(["/bin/sh", "-c", rest]):
            sys.exit(f"RUN {rest}\nfailed with exit code {code}.")

    def _workdir(self, rest: str) -> None:
        self.folder = str(Path(self.folder) / rest)
        self._inside(self.folder).mkdir(parents=True, exist_ok=True)

    def _copy(self, rest: str) -> None:
        *sources, last = shlex.split(rest)
        target = self._inside(str(Path(self.folder) / last))
        for source in sources:
            path = self.context / source
            if path.is_dir():
                # COPY copies the content of a directory, not the directory.
                shutil.copytree(path, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".git"))
            else:
                is_folder = last.endswith("/") or len(sources) > 1 or target.is_dir()
                file = target / path.name if is_folder else target
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, file)

    def _env(self, rest: str) -> None:
        self.variables |= dict(pair.split("=", 1) for pair in shlex.split(rest))

    def _arg(self, rest: str) -> None:
        name, _, default = shlex.split(rest)[0].partition("=")
        self.arguments[name] = self.given.get(name, default)

    def _volume(self, rest: str) -> None:
        self._inside(rest).mkdir(parents=True, exist_ok=True)

    def _user(self, rest: str) -> None:
        self.user = rest

    def _entrypoint(self, rest: str) -> None:
        self.entrypoint = json.loads(rest)

    def _cmd(self, rest: str) -> None:
        """Ignore the default command: the command line gives one."""

    def _inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction and its arguments, with continued lines joined and without comments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def _paths_for_steps() -> tuple[str, ...]:
    """Return the files of this machine that tell pip which indexes to use and which certificates to trust."""
    indexes = map(str, local_package_indexes())
    return tuple(p for p in dict.fromkeys((*_SHARED_ALWAYS, *_SHARED_WITH_STEPS, *indexes)) if Path(p).exists())


def _make_base(base: Path) -> None:
    """Create a Debian with Python in `base`, unless it exists from an earlier call."""
    if (base / "usr/local/bin/pip").exists():
        return
    print(f"debootstrap {_RELEASE} …", flush=True)
    subprocess.run(["debootstrap", "--variant=minbase", _RELEASE, str(base)], check=True, stdout=subprocess.DEVNULL)
    build = Build(base, base, {}, shared=_SHARED_ALWAYS)
    for command in _BASE_STEPS:
        build.step("RUN", command)


def main() -> None:
    """Execute the instructions, and print how long each RUN took."""
    own, _, command = " ".join(map(shlex.quote, sys.argv[1:])).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dockerfile", type=Path)
    parser.add_argument("--base", type=Path, help="directory of the base image; created if it is missing")
    parser.add_argument("--keep", type=Path, help="keep the finished root in this directory")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="like --build-arg of docker")
    options = parser.parse_args(shlex.split(own))
    with tempfile.TemporaryDirectory(prefix="dockerfile-") as temporary:
        base = options.base or Path(temporary) / "base"
        base.mkdir(parents=True, exist_ok=True)
        _make_base(base)
        root = options.keep or Path(temporary) / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", f"{base}/.", str(root)], check=True)
        given = dict(pair.split("=", 1) for pair in options.arg)
        build = Build(root, options.dockerfile.parent.resolve(), given, shared=_paths_for_steps())
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
