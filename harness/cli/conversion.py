"""GGUF files as targets: each is converted once, in the sandbox, to the directory of a model in the cache."""

import contextlib
import importlib.metadata
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.cli.progress import StatusLine
from harness.core.errors import HarnessError
from harness.core.extras import require_extra
from harness.core.files import file_errors, read_start, remove_tree, sync_tree, try_lock, write_atomically
from harness.core.inputs import check_plain_files, read_bounded_text
from harness.core.paths import PACKAGE, cache_home, expand_home
from harness.core.spec import BUILT_IN_TARGETS
from harness.core.text import sanitize, shorten
from harness.core.times import format_duration
from harness.engine.resolving import ResolvedTarget, cached_sha256, resolve_target
from harness.submit.execution import run_step

_SUFFIX, _MAGIC = ".gguf", b"GGUF"
_MARK = "conversion.sha256"
"""The file with the hash of the other files, written last: without it, the directory is incomplete."""
_SECONDS, _BYTES_PER_SECOND = 600.0, 1 << 20
_MAX_GROWTH, _MAX_OTHER_BYTES = 32, 1 << 30
"""The smallest quantization has 1.56 bits, a twentieth of float32. The other files are those of the tokenizer."""


def find_gguf(id_: str) -> Path | None:
    """Return the GGUF file that a target's name leads to, None if it leads to something else.

    It is the file itself, or the only one in a directory that has no config.json. Raises HarnessError if there are
    several.
    """
    path = expand_home(id_)
    if id_ in BUILT_IN_TARGETS:
        return None
    if path.is_file():
        with file_errors(path):
            return path if path.suffix == _SUFFIX or read_start(path, len(_MAGIC)) == _MAGIC else None
    if not path.is_dir() or (path / "config.json").exists():
        return None
    files = sorted(path.glob(f"*{_SUFFIX}"))
    if len(files) > 1:
        raise HarnessError(f"{path} contains {len(files)} GGUF files, such as {files[0].name}. Name one of them.")
    return files[0] if files else None


def resolve_gguf(id_: str, file: Path, sha256: str, *, needs_weights: bool) -> ResolvedTarget:
    """Return the model in a GGUF file as the target `id_`, and convert the file unless the cache has it.

    sha256: the hash of the file. Raises HarnessError if a library is missing, or the file cannot be converted.
    """
    require_extra("torch", f"the GGUF file {file.name}")
    # Another version may read the same file in another way.
    version = importlib.metadata.version("transformers")
    folder = cache_home() / "converted" / f"{sha256}-transformers-{version}"
    if not _is_converted(folder):
        require_extra("gguf", f"the GGUF file {file.name}")
        with file_errors(folder.parent, "written"), _sole_conversion(folder.parent) as work:
            # Another process may have converted it meanwhile.
            if not _is_converted(folder):
                _convert(file, sha256, work, folder)
    return replace(resolve_target(str(folder), needs_weights=needs_weights), id=id_, source_sha256=sha256)


def _is_converted(folder: Path) -> bool:
    """Return True if the directory contains a whole conversion whose files have not changed since."""
    with contextlib.suppress(HarnessError):
        return read_bounded_text(folder / _MARK, limit=64) == resolve_target(str(folder)).weights_sha256
    return False


@contextlib.contextmanager
def _sole_conversion(home: Path) -> Iterator[Path]:
    """Yield a new directory below `home`, while no other process converts. What a killed one left is deleted."""
    home.mkdir(parents=True, exist_ok=True)
    with StatusLine(seconds=10) as line:
        while (lock := try_lock(home / "lock")) is None:
            line.update("waiting for another conversion")
    with lock:
        for left in home.glob(".work-*"):
            remove_tree(left)
        work = Path(tempfile.mkdtemp(prefix=".work-", dir=home)).resolve()
        try:
            yield work
        finally:
            remove_tree(work)


def _convert(file: Path, sha256: str, work: Path, folder: Path) -> None:
    """Convert the file in the sandbox, in the directory `work`, and move the result to `folder`.

    Raises HarnessError if this fails or takes too long.
    """
    size, began, scratch = file.stat().st_size, time.monotonic(), work / "scratch"
    model = scratch / "model"
    scratch.mkdir()
    with StatusLine(seconds=10) as line:

        def show_time(*_: int) -> None:
            line.update(f"converting {file.name}, once: {format_duration(time.monotonic() - began)}")

        result = run_step(
            [sys.executable, "-P", "-m", "harness.engine.conversion", str(file.resolve()), str(model)],
            scratch=scratch,
            readable=[file.resolve()],
            variables={"PYTHONPATH": str(PACKAGE.parent), "HF_HUB_OFFLINE": "1"},
            seconds=_SECONDS + size / _BYTES_PER_SECOND,
            network=False,
            log=work / "log",
            scratch_bytes=2 * (_MAX_GROWTH * size + _MAX_OTHER_BYTES),
            on_wait=show_time,
        )
        if result.code != 0:
            failed = f"the conversion failed ({result.ending}). Use a machine with more memory, or the original model."
            fault = result.last_line if result.code == 1 and result.last_line else failed
            raise HarnessError(f"{file}: {shorten(sanitize(fault), 500)}")
        if cached_sha256(file, show_time) != sha256:
            raise HarnessError(f"{file}: changed while it was converted. Run the command again.")
        check_plain_files(model)
        sync_tree(model)
        remove_tree(folder)
        model.rename(folder)
        write_atomically(folder / _MARK, resolve_target(str(folder), on_progress=show_time).weights_sha256)
