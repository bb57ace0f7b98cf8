"""Select the source of an audit: files or a round. This module reads no corpus."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.audits.options import Subject
from harness.core.arrays import Tokens
from harness.core.errors import HarnessError, UsageError
from harness.core.examples import load_answers, load_prefixes
from harness.core.options import option
from harness.core.paths import require_utf8
from harness.core.rounds import Round, load_round
from harness.corpora.documents import Document, documents_in
from harness.corpora.text_files import Notes


@dataclass(frozen=True)
class CorpusFiles:
    """A corpus on disk."""

    path: Path
    field: str | None = None
    """The field or column with the text, None for the default."""
    split: str | None = None
    """The split to read, if there are several."""
    keeps_line_ends: bool = False
    """True if CR LF and CR do not become LF."""

    def documents(self, notes: Notes, *, replaces_invalid_bytes: bool = False) -> Iterator[Document]:
        """Yield the documents of the corpus, as `documents_in` does."""
        return documents_in(
            self.path,
            field=self.field,
            split=self.split,
            notes=notes,
            keeps_line_ends=self.keeps_line_ends,
            replaces_invalid_bytes=replaces_invalid_bytes,
        )


Source = CorpusFiles | Round


def named_source(
    subject: Subject, path: Path | None, round_name: str | None, *, split: str | None = None
) -> Source | None:
    """Return the files or the round that was named, or None if neither was; `subject` says how to read files.

    Raises HarnessError if both were named, or if the path is not UTF-8.
    """
    if path is None:
        return None if round_name is None else load_round(round_name)
    if round_name is not None:
        raise UsageError(f"two sources are named: {path} and the round {round_name}. Name one of them.")
    require_utf8(path)
    return CorpusFiles(path, getattr(subject, "field", None), split, getattr(subject, "keep_line_ends", False))


def source_files(option: str, source: Source | None) -> dict[str, Path]:
    """Return the files of a source by a name for the run's record, which begins with `option`."""
    if source is None:
        return {}
    if isinstance(source, CorpusFiles):
        return {option: source.path}
    files = {"round": source.source, "prefixes": source.prefix_file, "answers": source.file_with_answers}
    return {f"{option} {name}": path for name, path in files.items() if path is not None}


def source_name(source: Source) -> str:
    """Return the name of a round, or of a file or directory."""
    return source.name if isinstance(source, Round) else source.path.resolve().name


def load_answered_examples(round_: Round) -> tuple[Tokens, Tokens]:
    """Return a round's prefixes and answers, [examples, length] each. Raises HarnessError for a blind round."""
    answers = load_answers(round_)
    if answers is None:
        raise HarnessError(f"round {round_.name} is blind, and an audit needs its answers. Choose another round.")
    return load_prefixes(round_), answers


def field_option() -> Any:
    """Return the option `--field`."""
    return option(None, unset="text", description="Field or column with the text.")


def line_ends_option() -> Any:
    """Return the option `--keep-line-ends`."""
    return option(False, description="Do not turn CR LF and CR into LF.")


def target_option(
    description: str = "Hub id, directory or GGUF file; repeatable.", default: Any = (), *, unset: str = ""
) -> Any:
    """Return the option `--target`."""
    return option(default, unset=unset, metavar="MODEL", description=description)


def round_option(description: str = "Use the examples of this round, whose answers are known.") -> Any:
    """Return the option `--round` of an audit."""
    return option(None, metavar="ROUND", description=description)
