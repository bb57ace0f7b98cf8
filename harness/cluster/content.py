"""Files by the hash of their content: a node asks for each content once, however many runs need it."""

import contextlib
import functools
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath

from harness.core.errors import HarnessError
from harness.core.files import atomic_file, remove_tree, sync_folder, sync_tree, try_lock

_LONGEST_TRANSFER_SECONDS = 86_400.0

Chunks = Iterable[bytes]


class ContentStore:
    """A directory of files that are named by the SHA-256 of their content, and of directories made of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, sha256: str, fetch: Callable[[], Chunks]) -> Path:
        """Return the file with this content; `fetch` returns the content if it is absent.

        Of several processes that need the same content, one fetches it. Raises HarnessError if what was fetched has
        another hash.
        """
        path = self._folder / "files" / sha256
        if path.is_file():
            return path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = try_lock(path.with_suffix(".lock"), patience=_LONGEST_TRANSFER_SECONDS)
        if lock is None:
            raise HarnessError(f"{path}: another process has been fetching it for a day.")
        with lock:
            if not path.is_file():
                digest = hashlib.sha256()
                with atomic_file(path) as file:
                    for chunk in fetch():
                        digest.update(chunk)
                        file.write(chunk)
                    if digest.hexdigest() != sha256:
                        raise HarnessError(
                            f"{path}: the content was damaged on its way (its hash differs). Resume the sweep."
                        )
        return path

    def tree(self, files: Mapping[str, str], fetch: Callable[[str], Chunks]) -> Path:
        """Return a directory with `files`, by relative name the hash of each; `fetch` returns the content of a hash.

        Raises HarnessError if a name leads out of the directory.
        """
        listing = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(files.items()))
        path = self._folder / "trees" / hashlib.sha256(listing.encode()).hexdigest()
        if path.is_dir():
            return path
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        try:
            partial.mkdir(parents=True)
            for name, sha256 in files.items():
                place = PurePosixPath(name)
                if place.is_absolute() or ".." in place.parts:
                    raise HarnessError(f"{name}: not a name inside the directory.")
                (partial / place).parent.mkdir(parents=True, exist_ok=True)
                os.link(self.file(sha256, functools.partial(fetch, sha256)), partial / place)
            sync_tree(partial)
            partial.rename(path)
            sync_folder(path.parent)
        except OSError:
            # Another process may have been faster.
            if not path.is_dir():
                raise
        finally:
            with contextlib.suppress(OSError):
                remove_tree(partial)
        return path
