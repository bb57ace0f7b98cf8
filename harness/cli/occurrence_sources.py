"""Read the generations that `harness occurrences` looks up: guesses, completions, and files of text or tokens."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.decoded_text import tokenizer_of_run
from harness.cli.options import TextOptions
from harness.cli.output import sanitize, say
from harness.core.arrays import Ints, Tokens, mapped_array
from harness.core.errors import HarnessError, UsageError
from harness.core.examples import load_answers, load_prefixes
from harness.core.paths import expand_home, is_file_name
from harness.core.rounds import Round, load_round
from harness.core.scoring import correct_rows
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.corpora.encoders import ByteEncoder, Encoder, TokenizerEncoder
from harness.corpora.generations import RIGHT, WRONG, Generations
from harness.engine.resolving import resolve_target
from harness.jobs.attack.results import submission_now
from harness.jobs.attack.spec import AttackSpec
from harness.jobs.audit.spec import AuditSpec
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder, run_folder

if TYPE_CHECKING:
    from harness.corpora.index_files import IndexFiles

_NPY = ".npy"
_FILE_SUFFIXES = (".csv", _NPY, ".json", ".jsonl", ".ndjson", ".tsv", ".parquet", ".txt")
_TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class SourceOptions:
    """The options with which a source is read.

    round: of a submission, or None. tokenizer: that of the index as the user named it, or None.
    """

    index: "IndexFiles"
    round: str | None
    tokenizer: str | None
    reading: TextOptions

    def encoder(self, default: Path | None) -> Encoder:
        """Return the encoder of the index. default: a tokenizer.json that is used if the user named none."""
        if self.tokenizer is not None:
            return TokenizerEncoder(tokenizer_file(self.tokenizer))
        if self.index.width == 1:
            return ByteEncoder()
        if default is None or not default.is_file():
            raise UsageError("the tokenizer of the index is not known. Name it with --tokenizer.")
        return TokenizerEncoder(default)

    def decoder(self, default: Path | None) -> Callable[[Sequence[Tokens]], list[str]]:
        """Return the function that decodes rows of the index."""
        if self.tokenizer is None and self.index.width == 1:
            return ByteEncoder().texts
        file = default if self.tokenizer is None else tokenizer_file(self.tokenizer)
        if file is None or not file.is_file():
            return lambda rows: [" ".join(map(str, row.tolist())) for row in rows]
        return TokenizerEncoder(file).texts

    def is_tokenizer(self, default: Path | None) -> bool:
        """Return whether tokens of the tokenizer `default` can be looked up as they are."""
        if self.tokenizer is None:
            return self.index.width > 1
        named = tokenizer_file(self.tokenizer)
        return default is not None and default.is_file() and default.read_bytes() == named.read_bytes()


def read_generations(source: str, options: SourceOptions) -> Generations:
    """Return the generations of `source`: a run, a submission, or a file.

    Raises HarnessError if it cannot be read, or has none.
    """
    path = Path(source)
    if not is_file_name(source, _FILE_SUFFIXES):
        if options.round is not None:
            raise UsageError(f"a run has its own round: {sanitize(source)}. Remove --round.")
        generations = _of_run(run_folder(source), options)
    elif path.suffix == ".csv":
        generations = _of_submission(path, options)
    elif path.suffix == _NPY:
        generations = _of_array(path, options)
    else:
        generations = _of_texts(path, options)
    if not len(generations):
        raise HarnessError(f"{source} contains no {generations.noun}.")
    return generations


def tokenizer_file(name: str, revision: str = "main", *, is_offline: bool | None = None) -> Path:
    """Return a tokenizer.json: a file, or that of a target. Raises HarnessError if there is none."""
    if (path := expand_home(name)).is_file():
        return path
    return resolve_target(name, revision, offline=is_offline, needs_weights=False).path / _TOKENIZER


def _of_run(folder: RunFolder, options: SourceOptions) -> Generations:
    spec = folder.spec()
    if isinstance(spec, AttackSpec):
        submission = submission_now(folder)
        tokenizer = tokenizer_of_run(folder, spec)
        return _guesses(spec.round, submission.ids, submission.suffixes, tokenizer, options)
    if isinstance(spec, AuditSpec) and spec.audit == "sequence":
        return _completions(folder, spec, options)
    found = f"a {spec.audit} audit" if isinstance(spec, AuditSpec) else f"a run of kind {spec.kind}"
    raise HarnessError(f"{folder.id} is {found}. Name an attack run or a sequence audit.")


def _of_submission(path: Path, options: SourceOptions) -> Generations:
    if options.round is None:
        raise UsageError(f"{sanitize(str(path))} is a submission. Name its round with --round.")
    round_ = load_round(options.round)
    rules = SubmissionRules(len(load_prefixes(round_)), round_.suffix_length, round_.vocabulary, round_.row_cap)
    submission = read_submission(path, rules)
    return _guesses(round_, submission.ids, submission.suffixes, _tokenizer_of(round_), options)


def _tokenizer_of(round_: Round) -> Path | None:
    """Return the tokenizer of the round's target, None if it is not on this machine."""
    with contextlib.suppress(HarnessError):
        return tokenizer_file(round_.target, round_.revision, is_offline=True)
    return None


def _guesses(round_: Round, ids: Ints, suffixes: Tokens, default: Path | None, options: SourceOptions) -> Generations:
    prefixes = load_prefixes(round_)[ids]
    answers = load_answers(round_)
    groups = None if answers is None else [RIGHT if it_is else WRONG for it_is in correct_rows(ids, suffixes, answers)]
    names = [str(example) for example in ids.tolist()]
    if options.is_tokenizer(default):
        texts = options.decoder(default)
        return Generations("guess", names, list(suffixes), list(prefixes), groups, round_.vocabulary, texts)
    if default is None or not default.is_file():
        raise HarnessError(f"the guesses cannot be turned into text: the target of {round_.name} has no {_TOKENIZER}.")
    encoder = options.encoder(default)
    pairs = TokenizerEncoder(default).decode(prefixes, suffixes)
    return _encoded("guess", names, pairs, groups, encoder, options.decoder(default))


def _completions(folder: RunFolder, spec: AuditSpec, options: SourceOptions) -> Generations:
    """Return the completions of a sequence audit, each after its prompt."""
    from harness.audits.sequence.comparison import read_results
    from harness.audits.sequence.completion import State
    from harness.audits.sequence.dataset import Dataset
    from harness.core.audit import AuditInputs
    from harness.jobs.audit.reader import AuditReader

    tables = {table.name: table for table in spec.tables}
    if not folder.store.exists():
        raise HarnessError(f"{folder.id} has no completions yet. Follow it with `harness watch {folder.id}`.")
    with as_harness_error(folder.path), AuditReader(folder.store) as reader:
        dataset = Dataset.from_inputs(AuditInputs.read(folder.inputs))
        results = read_results(lambda name: reader.audit_rows(tables[name]).columns, len(dataset))
    rows = [row for row, state in enumerate(results.states) if state is State.COMPLETED and results.texts[row]]
    documents = [dataset.documents[document] for document in dataset.document.tolist()]
    default = spec.models[0].path / _TOKENIZER if spec.models else None
    return _encoded(
        "completion",
        [f"{documents[row]}:{dataset.number[row]}" for row in rows],
        ((dataset.prompts[row], results.texts[row]) for row in rows),
        ["control" if dataset.is_control[row] else "corpus" for row in rows],
        options.encoder(default),
        options.decoder(default),
    )


def _of_array(path: Path, options: SourceOptions) -> Generations:
    """Return the rows of an array of tokens of the index."""
    array = mapped_array(path)
    if array.ndim not in (1, 2) or not np.issubdtype(array.dtype, np.integer):
        raise HarnessError(
            f"{path}: expected integers of shape [tokens] or [rows, tokens], found {array.dtype} {list(array.shape)}."
        )
    rows = np.atleast_2d(np.asarray(array))
    if rows.size and int(rows.min()) < 0:
        raise HarnessError(f"{path} contains the token {int(rows.min())}. Ids of tokens are not negative.")
    default = None if options.round is None else _tokenizer_of(load_round(options.round))
    named = default if options.tokenizer is None else tokenizer_file(options.tokenizer)
    vocabulary = options.index.separator if named is None else TokenizerEncoder(named).vocabulary
    if rows.size and int(rows.max()) >= vocabulary:
        known = f"the index stores ids below {vocabulary:,}" if named is None else f"{named} has {vocabulary:,} tokens"
        raise HarnessError(f"{path} contains the token {int(rows.max()):,}, but {known}. Check --tokenizer.")
    names = [str(row) for row in range(len(rows))]
    return Generations("generation", names, list(rows), None, None, vocabulary, options.decoder(named))


def _of_texts(path: Path, options: SourceOptions) -> Generations:
    """Return the documents of a corpus file."""
    from harness.corpora.documents import documents_in, require_fields
    from harness.corpora.text_files import Notes

    require_fields(options.reading.field, [path])
    notes = Notes()
    named = [
        (document.name, "".join(document.lines))
        for document in documents_in(
            path,
            field=options.reading.field,
            split=None,
            notes=notes,
            keeps_line_ends=options.reading.keep_line_ends,
        )
    ]
    for sentence in notes.sentences:
        say(sentence)
    default = None if options.round is None else _tokenizer_of(load_round(options.round))
    names, pairs = [name for name, _ in named], (("", text) for _, text in named)
    encoder, texts = options.encoder(default), options.decoder(default)
    found = _encoded("generation", names, pairs, None, encoder, texts)
    return Generations(found.noun, names, found.tokens, None, None, found.vocabulary, texts, found.unit)


def _encoded(
    noun: str,
    names: list[str],
    pairs: Iterable[tuple[str, str]],
    groups: list[str] | None,
    encoder: Encoder,
    texts: Callable[[Sequence[Tokens]], list[str]],
) -> Generations:
    """Return generations that are encoded for the index, each with its prefix."""
    encoded = list(encoder.encode(pairs))
    unit = "byte" if isinstance(encoder, ByteEncoder) else "token"
    prefixes = [one.prefix for one in encoded]
    return Generations(noun, names, [one.tokens for one in encoded], prefixes, groups, encoder.vocabulary, texts, unit)
