"""Every place that opens a file is either the shared opener, or known to open no file of a stranger unchecked."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import harness

PACKAGE = Path(harness.__file__).parent
NAMES = {
    *("open", "open_stream", "FileIO", "fdopen", "read_text", "read_bytes", "ZipFile", "ParquetFile", "memory_map"),
    *("safe_open", "load_file", "from_file", "from_pretrained", "copyfile", "copy2", "copytree"),
    *("get_data", "memmap", "fromfile", "loadtxt", "genfromtxt", "read_csv", "read_parquet", "read_json", "read_table"),
}
"""Functions and methods that open a file, whatever they belong to."""
QUALIFIED = {
    "load": {"np", "json", "tomllib", "torch", "pickle", "marshal"},
    "connect": {"sqlite3"},
    "copy": {"shutil"},
}
NOT_FILES = {"webbrowser.open", "archive.open", "read_text"}

OPENER = "the shared opener, and what it is made of"
CHECKED = (
    "it is written, or the file was opened or checked as a regular file, and its size is known or it is read in parts"
)
FILES_IN = (
    "files_in() or check_plain_files() has refused all but regular files; it is read in parts or its size is known"
)
OWN = "the harness or its user wrote the file, in the harness's own directories or the package"
NAMED = "the user wrote the file and names it in the command"
KERNEL = "a file of the kernel, of the system or of an installed library, a device, or a pipe of the harness"
"""The reasons why a place may open a file without `open_regular`, `read_start` or `read_bounded`."""

KNOWN: dict[str, dict[str, int]] = {
    OPENER: {
        "core/files.py": 8,
    },
    CHECKED: {
        "cluster/node.py": 3,
        "cluster/shipment.py": 1,
        "core/arrays.py": 1,
        "corpora/epub.py": 1,
        "corpora/token_files.py": 1,
        "engine/adapter.py": 1,
        "engine/conversion.py": 2,
        "engine/first_token.py": 1,
        "engine/loading.py": 2,
        "engine/resolving.py": 2,
        "runs/planning.py": 2,
        "submit/archive.py": 3,
        "submit/judging.py": 1,
        "worker/plugin.py": 1,
    },
    FILES_IN: {
        "corpora/arrow_sets.py": 3,
        "submit/code_folder.py": 1,
        "submit/frozen_code.py": 1,
    },
    NAMED: {
        "cli/bundle.py": 1,
        "data/fetch.py": 1,
        "submit/bundle.py": 4,
    },
    OWN: {
        "__init__.py": 1,
        "audits/sequence/inputs.py": 1,
        "cli/runs.py": 1,
        "cli/typer_classes.py": 1,
        "cli/verify.py": 1,
        "cli/watching.py": 1,
        "cluster/executor.py": 2,
        "cluster/remote_worker.py": 1,
        "cluster/worker_host.py": 1,
        "core/audit.py": 2,
        "core/protocol.py": 3,
        "core/requests.py": 1,
        "core/settings.py": 1,
        "corpora/contexts.py": 1,
        "corpora/opening.py": 1,
        "corpora/token_stream.py": 5,
        "data/example.py": 7,
        "plugins/scaffold.py": 1,
        "plugins/schema.py": 1,
        "runs/launch.py": 1,
        "runs/queue.py": 2,
        "runs/reader.py": 1,
        "runs/reserve.py": 1,
        "runs/status_line.py": 1,
        "runs/store.py": 3,
        "sandbox/capped_log.py": 2,
        "submit/audit_export.py": 1,
        "submit/description.py": 1,
        "submit/verdict.py": 1,
        "submit/wheel.py": 4,
        "supervisor/attack_job.py": 1,
        "sweeps/record.py": 1,
        "sweeps/tuning_process.py": 1,
        "tui/pages/attacks.py": 1,
        "tui/saved_state.py": 1,
        "tui/screens/run_actions.py": 1,
    },
    KERNEL: {
        "cli/app.py": 1,
        "cli/doctor.py": 1,
        "core/hardware.py": 7,
        "engine/memory.py": 1,
        "runs/machine.py": 1,
        "runs/status.py": 2,
        "sandbox/backends.py": 1,
        "sandbox/control_group.py": 3,
        "sandbox/launcher.py": 5,
        "sandbox/reaper.py": 2,
        "sandbox/view.py": 1,
        "worker/schema.py": 2,
    },
}
"""The number of places in each module, by reason."""


def _places(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each call that opens a file."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        owner, _, last = name.rpartition(".")
        if (last in NAMES or owner in QUALIFIED.get(last, ())) and name not in NOT_FILES:
            yield node.lineno, name


def test_every_place_that_opens_a_file_is_known() -> None:
    found = {
        str(file.relative_to(PACKAGE)): places
        for file in sorted(PACKAGE.rglob("*.py"))
        if (places := list(_places(file.read_text())))
    }
    known: Counter[str] = Counter()
    for modules in KNOWN.values():
        known.update(modules)
    other = {module: places for module, places in found.items() if len(places) != known[module]}
    assert not other and set(found) == set(known), (
        f"{other or set(found) ^ set(known)}: the number of places that open a file has changed. Open a file that may "
        "be a stranger's with read_bounded(), read_start() or open_regular(), which check its type and size. If no "
        "stranger supplies it, or it was checked before, count the place in KNOWN under its reason."
    )


def test_the_search_finds_every_way_to_open_a_file() -> None:
    ways = (
        *("open(p)", "p.open()", "io.FileIO(p)", "os.open(p, 0)", "p.read_bytes()", "np.load(p)", "json.load(f)"),
        *("zipfile.ZipFile(p)", "Tokenizer.from_file(p)", "AutoModel.from_pretrained(p)", "sqlite3.connect(p)"),
        *(
            "pd.read_csv(p)",
            "safe_open(p)",
            "shutil.copyfile(p, q)",
            "np.memmap(p)",
            "tarfile.open(p)",
            "torch.load(p)",
        ),
    )
    assert [name for way in ways for _, name in _places(way)] == [way.partition("(")[0] for way in ways]
    assert not list(_places("json.loads(text)\nself.load(p)\nwebbrowser.open(url)"))
