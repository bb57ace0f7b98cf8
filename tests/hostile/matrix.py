"""Run the attempts of hostile attacks and files in every configuration of the sandbox, and tabulate the results.

    python -m tests.hostile.matrix [-k EXPRESSION]

An attempt is a test with the marker `hostile`. Each runs with each sandbox backend, with and without the namespaces of
the kernel, as root and as a user id without an account. Exits with 1 if an attempt was not held off. The other user
gets a copy of this directory and of the installed packages, with a Python that every user can read.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.core.files import temporary_folder
from harness.core.text import align_columns, pluralize, sanitize, shorten
from tests.tools.distribution import ROOT, copy_tree
from tests.tools.stranger import USER, readable_python

HELD, FAILED, SKIPPED, DOCUMENTED = "held", "FAILED", "skipped", "documented"
"""DOCUMENTED: the attempt succeeds, and the documentation says so."""
ANY_BACKEND = "(none)"
_RESULTS = "HARNESS_MATRIX_RESULTS"
"""The variable that names the file to which pytest writes a line for each test."""
_NEEDS_BACKEND = "HARNESS_MATRIX_NEEDS_BACKEND"
"""The variable that is set to run the attempts against a sandbox only."""
_BACKENDS = ("bwrap", "landlock")
_COPIED = ("harness", "attacks", "tests", "docs", "pyproject.toml", "requirements.lock", "constraints.txt")
_WITHOUT_NAMESPACES = ROOT / "tests" / "hostile" / "without_namespaces.py"


class Result(NamedTuple):
    """The outcome of one test."""

    attempt: str
    backend: str
    outcome: str
    reason: str = ""


class Column(NamedTuple):
    """One configuration: a column of the table."""

    user: str
    has_namespaces: bool
    backend: str


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the attempts. The simulated absence of namespaces is not needed, because they are really absent."""
    kept = [item for item in items if item.get_closest_marker("hostile") and "landlock alone" not in item.name]
    if _NEEDS_BACKEND in os.environ:
        kept = [item for item in kept if _backend_of(item) != ANY_BACKEND]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write a line with the outcome of the attempt."""
    report = yield
    if report.failed or report.skipped or report.when == "call":
        (attempt,) = item.get_closest_marker("hostile").args
        outcome, reason = HELD, ""
        if report.failed:
            outcome, reason = FAILED, f"{item.name}: {str(call.excinfo.value) if call.excinfo else 'failed'}"
        elif hasattr(report, "wasxfail"):
            outcome, reason = DOCUMENTED, str(report.wasxfail)
        elif report.skipped:
            outcome, reason = SKIPPED, str(call.excinfo.value) if call.excinfo else ""
        line = json.dumps(Result(attempt, _backend_of(item), outcome, shorten(sanitize(reason), 200)))
        with Path(os.environ[_RESULTS]).open("a") as file:
            file.write(f"{line}\n")
    return report


def _backend_of(item: pytest.Item) -> str:
    params = getattr(item, "callspec", None)
    values = params.params.values() if params else ()
    return next((value for value in values if value in _BACKENDS), ANY_BACKEND)


class User(NamedTuple):
    """A user who runs the tests: the command that becomes the user, a Python and the environment."""

    name: str
    prefix: tuple[str, ...]
    python: Path
    root: Path
    folder: Path

    def results(self, *, has_namespaces: bool, options: Sequence[str]) -> list[Result]:
        """Run all attempts, and return what came of them."""
        name = f"{'with' if has_namespaces else 'without'}-namespaces"
        file = self.folder / f"{name}.jsonl"
        outer = () if has_namespaces else (str(self.python), str(_WITHOUT_NAMESPACES.relative_to(ROOT)))
        pytest_ = (str(self.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.hostile.matrix")
        selection = ("--basetemp", str(self.folder / name), "-n", "2", *options, "tests/hostile")
        variables = os.environ | {
            _RESULTS: str(file),
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(self.root),
        }
        if not has_namespaces:
            variables[_NEEDS_BACKEND] = "1"
        done = subprocess.run(
            [*self.prefix, *outer, *pytest_, *selection],
            env=variables,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            return [Result("(all)", ANY_BACKEND, FAILED, shorten(sanitize(done.stdout + done.stderr), 400))]
        return [Result(*json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def users(folder: Path) -> Iterator[User]:
    """Yield this user and, for root, another one with copies of everything that is needed, below `folder`."""
    own = folder / "own"
    own.mkdir()
    name = "root" if os.getuid() == 0 else f"uid {os.getuid()}"
    yield User(name, (), Path(sys.executable), ROOT, own)
    if os.getuid() != 0:
        return
    home = folder / "other"
    home.mkdir()
    root = home / "copy"
    for part in _COPIED:
        copy_tree(ROOT / part, root / part) if (ROOT / part).is_dir() else shutil.copyfile(ROOT / part, root / part)
    environment = home / "env"
    subprocess.run([readable_python(), "-m", "venv", "--without-pip", str(environment)], check=True)
    (packages,) = (environment / "lib").glob("python*/site-packages")
    (installed,) = (Path(sys.prefix) / "lib").glob("python*/site-packages")
    copy_tree(installed, packages)
    os.chown(home, USER, USER)
    ids = (f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
    prefix = ("setpriv", *ids, "--inh-caps=-all", "--no-new-privs")
    yield User(f"uid {USER}", prefix, environment / "bin" / "python", root, home)


def combined(results: Iterable[Result]) -> tuple[str, str]:
    """Return the outcome of several tests of one attempt, and its reason: the worst one counts."""
    by_outcome: dict[str, str] = {}
    for result in results:
        by_outcome.setdefault(result.outcome, result.reason)
    for outcome in (FAILED, DOCUMENTED, HELD, SKIPPED):
        if outcome in by_outcome:
            return outcome, by_outcome[outcome]
    return SKIPPED, "not run"


def table_lines(results: Mapping[Column, Sequence[Result]]) -> Iterator[str]:
    """Yield the lines of the table: a row for each attempt, and the reasons of what was not held off below."""
    attempts = list(dict.fromkeys(result.attempt for column in results.values() for result in column))
    columns = [column for column, of_column in results.items() if of_column]
    rows = [
        ["user", *(column.user for column in columns)],
        ["namespaces", *("allowed" if column.has_namespaces else "refused" for column in columns)],
        ["backend", *(column.backend for column in columns)],
    ]
    notes: dict[tuple[str, str], int] = {}
    for attempt in attempts:
        row = [attempt]
        for column in columns:
            chosen = [result for result in results[column] if result.attempt == attempt]
            outcome, reason = combined(chosen)
            number = notes.setdefault((outcome, reason), len(notes) + 1) if chosen and outcome != HELD else 0
            row.append(f"{outcome} [{number}]" if number else f"{outcome} {len(chosen)}" if chosen else "")
        rows.append(row)
    yield align_columns(rows)
    yield ""
    for (outcome, reason), number in notes.items():
        yield f"[{number}] {outcome}: {reason}"


def main() -> None:
    """Run every configuration, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="EXPRESSION", help="run the tests whose names match, as in pytest")
    arguments = parser.parse_args()
    options = ("-k", arguments.k) if arguments.k else ()
    results: dict[Column, list[Result]] = {}
    with temporary_folder("matrix-") as folder:
        folder.chmod(0o755)
        for user in users(folder):
            for has_namespaces in (True, False):
                of_run = user.results(has_namespaces=has_namespaces, options=options)
                for backend in (*_BACKENDS, ANY_BACKEND):
                    column = Column(user.name, has_namespaces, backend)
                    results[column] = [result for result in of_run if result.backend == backend]
    print("\n".join(table_lines(results)))
    everything = [result for of_column in results.values() for result in of_column]
    failed = sum(result.outcome == FAILED for result in everything)
    print(f"{pluralize(len(everything), 'trial')}, {failed} not held off")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
