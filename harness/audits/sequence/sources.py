"""What an audit was pointed at: files or a round, and the target that goes with them. Reads no corpus."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.audits.sequence.params import SequenceParams
from harness.core.errors import HarnessError
from harness.core.rounds import Round, load_round
from harness.core.text import sanitize


@dataclass(frozen=True)
class CorpusFiles:
    """A corpus on disk: `field` of a record holds its text; `split` is the one that is read of a set of several."""

    path: Path
    field: str = "text"
    split: str | None = None


Source = CorpusFiles | Round


class TargetName(NamedTuple):
    """A target as it is asked for."""

    id: str
    revision: str


def source_of(path: Path | None, round_name: str | None, *, field: str, split: str | None) -> Source | None:
    """Files or a round, whichever is named; None where neither is.

    Raises HarnessError for both, and for a path that is not UTF-8.
    """
    if path is not None and round_name is not None:
        raise HarnessError(f"{path} and the round {round_name}: paragraphs come from one of them; name one.")
    if path is not None:
        _require_utf8(path)
        return CorpusFiles(path, field, split)
    return None if round_name is None else load_round(round_name)


def _require_utf8(path: Path) -> None:
    """A run's record is UTF-8, and names what was read by its whole path."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        shown = sanitize(str(path))
        raise HarnessError(f"{shown}: a path that is not UTF-8, which no record can name; rename it.") from None


def required_source(path: Path | None, round_name: str | None, *, field: str, split: str | None) -> Source:
    """As `source_of`. Raises HarnessError for neither, too."""
    source = source_of(path, round_name, field=field, split=split)
    if source is None:
        raise HarnessError("no corpus is named: give a folder or a file, or a round with --round.")
    return source


def target_named(
    target: str | None, revision: str, source: Source, control: Source | None, params: SequenceParams
) -> TargetName | None:
    """The target that is asked, or whose tokenizer reads a round; None where an endpoint is asked about files.

    Raises HarnessError when files are to be audited and nobody is named who would complete them.
    """
    rounds = [side for side in (source, control) if isinstance(side, Round)]
    if params.endpoint is not None and not rounds:
        if target is not None:
            raise HarnessError("--target and --endpoint: one model is asked; name one.")
        return None
    if target is not None:
        return TargetName(target, revision)
    if not isinstance(source, Round) and params.endpoint is None:
        raise HarnessError("no model is named: give --target, or --endpoint with --endpoint-model.")
    return TargetName(rounds[0].target, rounds[0].revision)


def named_files(side: str, source: Source | None) -> dict[str, Path]:
    """What was read of a side, by a name for the record."""
    if source is None:
        return {}
    if isinstance(source, CorpusFiles):
        return {side: source.path}
    files = {"round": source.source, "prefixes": source.prefix_file, "answers": source.file_with_answers}
    return {f"{side} {name}": path for name, path in files.items() if path is not None}


def subject_of(source: Source) -> str:
    """In a word: a round's name, or that of a file or folder."""
    return source.name if isinstance(source, Round) else source.path.resolve().name
