"""Records about several runs, such as tunings and sweeps: one JSON file each, written once."""

import contextlib
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from harness.core.errors import HarnessError
from harness.core.files import create_folder, write_atomically
from harness.core.paths import state_home
from harness.core.text import shorten
from harness.runs.folder import matching_id
from harness.runs.trash import Deleted, move_to_trash

ModelType = TypeVar("ModelType", bound=BaseModel)


class RecordFiles(Generic[ModelType]):
    """The records of one kind, in a directory beside that of the runs."""

    def __init__(self, noun: str, model: type[ModelType], *, see: str) -> None:
        """`noun` names a record, in the plural also the directory. The command `see` lists the records."""
        self._noun = noun
        self._model = model
        self._see = see

    def file_of(self, id_: str) -> Path:
        """Return the file of the record `id_`, which may not exist."""
        return state_home() / f"{self._noun}s" / f"{id_}.json"

    def write(self, id_: str, record: ModelType) -> None:
        """Write a record. Raises HarnessError if it cannot be written."""
        file = self.file_of(id_)
        try:
            create_folder(file.parent)
            write_atomically(file, record.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise HarnessError(
                f"{file}: cannot be written ({error.strerror}). Set --home to another directory."
            ) from None

    def ids(self) -> list[str]:
        """Return the ids of all records, newest first."""
        created = {}
        for file in self.file_of("").parent.glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # deleted in the meantime
                created[file.stem] = file.stat().st_mtime_ns
        return sorted(created, key=created.__getitem__, reverse=True)

    def named(self, name: str) -> ModelType:
        """Return the record called `name`: an id, or an unambiguous beginning of one.

        Raises HarnessError if there is none, if there are several, or if the record cannot be read.
        """
        file = self.file_of(matching_id(self._noun, name, self.ids(), see=self._see))
        try:
            return self._model.model_validate_json(file.read_bytes())
        except (OSError, ValidationError) as error:
            raise HarnessError(f"{file}: cannot be read ({shorten(str(error), 120)}).") from None

    def delete(self, id_: str, deleted_at: int) -> list[Deleted]:
        """Move a record and the files beside it to the trash. Its runs stay. Raises HarnessError if that fails."""
        return [move_to_trash(file, deleted_at) for file in self.file_of(id_).parent.glob(f"{id_}.*")]
