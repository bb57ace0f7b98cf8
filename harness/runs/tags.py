"""The tags of a run."""

import os
import re
from collections.abc import Iterable

from harness.core.errors import UsageError
from harness.core.files import (
    file_errors,
    sync_folder,
)
from harness.core.text import shorten
from harness.runs.folder import RunFolder

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def check_tag(text: str, kind: str = "tag") -> str:
    """Return `text`. Raises UsageError if it is no valid tag; `kind` names it in the message."""
    if _TAG.fullmatch(text) is None:
        raise UsageError(
            f"{shorten(text)!r} is not a {kind}: use at most 40 letters, digits, -, _ and ., a letter or digit first."
        )
    return text


def tags_of(folder: RunFolder) -> tuple[str, ...]:
    """Return the tags of a run in alphabetical order. Raises OSError if they cannot be read."""
    try:
        names = os.listdir(folder.tags)
    except FileNotFoundError:
        return ()
    return tuple(sorted(filter(_TAG.fullmatch, names)))


def add_tags(folder: RunFolder, tags: Iterable[str]) -> None:
    """Add tags to a run. Raises UsageError if one is invalid (then none is added), else HarnessError if that fails."""
    valid_tags = [check_tag(tag) for tag in tags]
    with file_errors(folder.tags, "written"):
        folder.tags.mkdir(mode=0o700, exist_ok=True)
        for tag in valid_tags:
            (folder.tags / tag).touch(mode=0o600)
        sync_folder(folder.tags)
        sync_folder(folder.path)


def remove_tags(folder: RunFolder, tags: Iterable[str]) -> None:
    """Remove tags from a run; those that it does not have are ignored. Raises as `add_tags` does."""
    valid_tags = [check_tag(tag) for tag in tags]
    with file_errors(folder.tags, "written"):
        for tag in valid_tags:
            (folder.tags / tag).unlink(missing_ok=True)
        if folder.tags.is_dir():
            sync_folder(folder.tags)
