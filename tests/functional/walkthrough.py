"""Run the code blocks of a page in order, as a reader does, and compare the output that the page shows.

A block of `sh` is run. A block of any language whose first line is a comment with a path, such as `# attacks/probe.py`,
becomes that file. A block of `text` is output of the block of `sh` before it: `...` stands for any text, and the ids of
runs, the times and the widths of columns may differ. Numbers with three decimals or more may differ by TOLERANCE, and
percentages by as much, because other machines round differently.

`python -m tests.functional.walkthrough PAGE DIR` runs the blocks as the user whose home is DIR: `make figures`.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.functional.machine import ROOT, SHARED_CACHE

TOLERANCE = 0.02
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.\w+)\n")
_VARYING = re.compile(
    r"(?P<any>\.\.\.)|(?P<run>\b[a-z0-9]{4}-(?=[a-z]))|(?P<time>\b\d+:\d\d\b)|(?P<percent>\b\d+\.?\d*(?= %))"
    r"|(?P<number>\b\d\.\d{3,}\b)"
)
_PATTERNS = {
    "any": ".*?",
    "run": "[a-z0-9]{4}-",
    "time": r"\d+:\d\d",
    "percent": r"(\d+\.?\d*)",
    "number": r"(\d\.\d{3,})",
}
_END = "__end_of_block_{}__"


@dataclass(frozen=True)
class Step:
    """A block of commands or a file, and the outputs that the page shows after it."""

    script: str
    outputs: tuple[str, ...] = ()


def steps_in(page: str) -> list[Step]:
    """Return the steps of a page in Markdown."""
    steps: list[Step] = []
    for language, content in _BLOCK.findall(page):
        if language == "text":
            steps[-1] = Step(steps[-1].script, (*steps[-1].outputs, content))
        elif (file := _FILE.match(content)) is not None:
            path = shlex.quote(file[1])
            steps.append(
                Step(f"mkdir -p $(dirname {path})\ncat > {path} << '__end_of_file__'\n{content}__end_of_file__\n")
            )
        elif language == "sh":
            steps.append(Step(content))
    return steps


def walk_through(page: str, home: Path) -> list[str]:
    """Run the steps of a page in an empty directory of a user, whose home is `home`. Return the output of each step.

    Raises AssertionError with the output if a command fails.
    """
    folder = home / "work"
    folder.mkdir(parents=True)
    steps = steps_in(page)
    script = "\n".join(f"{step.script}\nprintf '%s\\n' {_END.format(place)}" for place, step in enumerate(steps))
    command = ["bash", "-euo", "pipefail", "-c", f"exec 2>&1\n{script}"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(home),
        capture_output=True,
        text=True,
        timeout=800,
        stdin=subprocess.DEVNULL,
    )
    assert steps and done.returncode == 0, done.stdout[-4000:]
    return re.split("|".join(_END.format(place) + "\n" for place in range(len(steps))), done.stdout)[:-1]


def _environment(home: Path) -> dict[str, str]:
    """Return the environment of a user who has set nothing."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "XDG_"))}
    cache = {"HARNESS_CACHE": os.environ[SHARED_CACHE]} if SHARED_CACHE in os.environ else {}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**own, **cache, "HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "110"}


def require_output(shown: str, printed: str) -> None:
    """Raise AssertionError unless `printed` contains the output that a page shows."""
    pattern, numbers, end = "", [], 0
    for found in _VARYING.finditer(shown):
        pattern += _literal(shown[end : found.start()]) + _PATTERNS[str(found.lastgroup)]
        if found.lastgroup in ("number", "percent"):
            numbers.append((float(found[0]), TOLERANCE * (100 if found.lastgroup == "percent" else 1)))
        end = found.end()
    match = re.search(pattern + _literal(shown[end:]), printed, re.DOTALL)
    assert match is not None, f"the page shows\n{shown}\nbut the commands print\n{printed}"
    for (number, tolerance), other in zip(numbers, map(float, match.groups()), strict=True):
        assert abs(number - other) <= tolerance, f"{number} on the page, {other} printed:\n{printed}"


def _literal(text: str) -> str:
    """Return the pattern of a text in which the columns of a table may be wider or narrower."""
    return "  +".join(map(re.escape, re.split(" {2,}", text)))


def main() -> None:
    """Run the blocks of a page one after the other as a user whose home is DIR, and show their output.

    Raises CalledProcessError if a command fails, FileExistsError if DIR has been used before.
    """
    page, home = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    folder = home / "work"
    folder.mkdir(parents=True)
    for step in steps_in(page.read_text(encoding="utf-8")):
        print(step.script, flush=True)
        subprocess.run(["bash", "-euo", "pipefail", "-c", step.script], cwd=folder, env=_environment(home), check=True)
    print(f"the figures are in {folder}")


if __name__ == "__main__":
    main()
