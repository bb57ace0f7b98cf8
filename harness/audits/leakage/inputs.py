"""Read pairs from files or rounds, or a corpus to cut, and check that they fit the targets."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits import sources
from harness.audits.leakage.pairs import LeakageParams, Pairs, cut_at
from harness.audits.leakage.rows import measured_pairs, read_measurements
from harness.audits.models import Model, first_token_notes, require_context, shared_tokenizer
from harness.audits.options import Preparation, Reading, StoredAudit, Subject
from harness.audits.probabilities import DataSet
from harness.audits.shared_tokenizer import SharedTokenizer
from harness.audits.sources import CorpusFiles, Source
from harness.core.arrays import Ints, Tokens, mapped_array
from harness.core.errors import HarnessError, UsageError
from harness.core.inputs import require_file
from harness.core.options import option
from harness.core.protocol import read_archive
from harness.core.rounds import Round
from harness.core.text import pluralize, shorten
from harness.corpora.compressed import content_suffix
from harness.corpora.documents import RECORD_SUFFIXES, Document, records_in, require_fields
from harness.corpora.text_files import Notes
from harness.corpora.token_stream import StreamState, pieces_of_documents
from harness.engine.resolving import VOCABULARY_KEYS, configured_number

_PAIR_FIELDS = ("prefix", "suffix")
_LENGTH = 50
"""Tokens of a prefix and of a suffix, if nothing else is given."""
_ENTITY_LENGTH = 4
"""Tokens of an entity, if nothing else is given (Tiwari & Suh 2024)."""


class PairSize(NamedTuple):
    """Tokens of a prefix and of a suffix; None for what the source has, or else 50."""

    prefix: int | None = None
    suffix: int | None = None


def read_pairs(source: Source, models: Sequence[Model], size: PairSize, *, limit: int, seed: int) -> Pairs:
    """Return at most `limit` pairs, sampled by seed and cut to size.

    source: a round, tokens (.npz or .npy), records with prefix and suffix (JSON Lines, CSV or TSV), or texts to cut.
    Raises HarnessError for input that cannot be read, for a blind round, and if the pairs do not fit a model.
    """
    notes = Notes()
    tokenizer = shared_tokenizer(models)
    numbers, names = None, list[str]()
    if isinstance(source, Round):
        name, (prefixes, suffixes) = source.name, sources.load_answered_examples(source)
    else:
        name, path = source.path.name, source.path
        require_file(path, or_folder=True)
        ending = "" if path.is_dir() else path.suffix.lower()
        if ending == ".npz":
            prefixes, suffixes = _archive_pairs(path)
        elif ending == ".npy":
            prefixes, suffixes = _row_pairs(path, size.prefix or _LENGTH)
        else:
            tokenizer.require_first()
            prefixes, suffixes, numbers, names = _text_pairs(source, tokenizer, size, notes)
    prefixes, suffixes = _fitted(name, prefixes, suffixes, models, size)
    sample = np.sort(np.random.default_rng(seed).permutation(len(prefixes))[:limit])
    source_rows, prefixes, suffixes = len(names) or len(prefixes), prefixes[sample], suffixes[sample]
    rows = sample if numbers is None else numbers[sample]
    return Pairs(
        prefixes.astype(np.int64),
        suffixes.astype(np.int64),
        tokenizer.content,
        [*notes.sentences, *tokenizer.notes((prefixes, suffixes)), *first_token_notes(models, prefixes)],
        rows,
        [names[row] for row in rows] if names else [],
        source_rows=source_rows,
    )


def read_documents(corpus: CorpusFiles, models: Sequence[Model], size: PairSize, *, limit: int) -> Pairs:
    """Return the documents of a corpus, from which the audit cuts pairs. Raises HarnessError if there is no text."""
    tokenizer = shared_tokenizer(models)
    tokenizer.require_first()
    before, after = size.prefix or _LENGTH, size.suffix or _ENTITY_LENGTH
    require_context(models, before + after)
    notes = Notes()
    documents = [text for document in corpus.documents(notes) if (text := "".join(document.lines).strip())]
    if not documents:
        why = notes.sentences[0] if notes.sentences else "It is empty. Name a file or directory with text."
        raise HarnessError(f"{corpus.path} contains no text. {why}")
    prefixes, suffixes = (np.empty((0, length), np.int64) for length in (before, after))
    all_notes = [
        *notes.sentences,
        *tokenizer.notes(tokenizer.encode(text).ids for text in documents),
        *first_token_notes(models),
    ]
    return Pairs(prefixes, suffixes, tokenizer.content, all_notes, documents=documents, limit=limit)


def _fitted(
    name: str, prefixes: Tokens, suffixes: Tokens, models: Sequence[Model], size: PairSize
) -> tuple[Tokens, Tokens]:
    """Return prefixes and suffixes cut to size. Raises HarnessError if they do not fit a model."""
    for part, length, tokens in (("prefix", size.prefix, prefixes), ("suffix", size.suffix, suffixes)):
        if length is not None and length > tokens.shape[1]:
            raise HarnessError(f"{name}: a {part} has {tokens.shape[1]} tokens. Lower --{part}-tokens {length}.")
    prefixes = prefixes[:, prefixes.shape[1] - (size.prefix or prefixes.shape[1]) :]
    suffixes = suffixes[:, : size.suffix or suffixes.shape[1]]
    if not len(prefixes):
        raise HarnessError(f"{name} contains no pair. Name a source with one or more.")
    largest = max(int(prefixes.max()), int(suffixes.max()))
    for model in models:
        vocabulary = configured_number(model.path, VOCABULARY_KEYS)
        if vocabulary is not None and largest >= vocabulary:
            raise HarnessError(f"{model.id} has no token {largest:,}, which {name} contains. Choose another target.")
    require_context(models, prefixes.shape[1] + suffixes.shape[1])
    return prefixes, suffixes


def _archive_pairs(path: Path) -> tuple[Tokens, Tokens]:
    try:
        arrays = read_archive(path)
    except HarnessError:
        raise
    except Exception as error:  # zipfile, zlib and numpy each have their own
        raise HarnessError(f"not an archive of plain arrays: {path} ({shorten(str(error), 100)}).") from None
    if absent := {"prefixes", "suffixes"} - set(arrays):
        raise HarnessError(f"no array {sorted(absent)[0]!r} in {path}. An .npz of pairs has `prefixes` and `suffixes`.")
    prefixes, suffixes = (_checked_tokens(arrays[name], f"{path}, {name}") for name in ("prefixes", "suffixes"))
    if len(prefixes) != len(suffixes):
        raise HarnessError(f"{path} has {len(prefixes):,} prefixes, {len(suffixes):,} suffixes. Store one for each.")
    return prefixes, suffixes


def _row_pairs(path: Path, prefix_length: int) -> tuple[Tokens, Tokens]:
    rows = _checked_tokens(np.asarray(mapped_array(path)), str(path))
    if rows.shape[1] <= prefix_length:
        raise HarnessError(
            f"rows of {rows.shape[1]} tokens have no suffix after a prefix of {prefix_length}: {path}. Lower "
            "--prefix-tokens."
        )
    return rows[:, :prefix_length], rows[:, prefix_length:]


def _checked_tokens(array: NDArray[Any], where: str) -> Tokens:
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer) or array.shape[1] < 1:
        raise HarnessError(f"{where}: expected integers [rows, tokens], found {array.dtype} {list(array.shape)}.")
    if array.size and int(array.min()) < 0:
        raise HarnessError(f"{where}: contains the token {array.min()}. Token ids start at 0.")
    return array


def _text_pairs(
    source: CorpusFiles, tokenizer: SharedTokenizer, size: PairSize, notes: Notes
) -> tuple[Tokens, Tokens, Ints, list[str]]:
    """Return prefixes, suffixes, the number of the record of each, and the names of the records.

    Records with a prefix and a suffix are cut between them. Other texts are cut into sequences.
    """
    path = source.path
    before, after = size.prefix or _LENGTH, size.suffix or _LENGTH
    has_fields = path.is_file() and content_suffix(path) in RECORD_SUFFIXES
    has_pairs = has_fields and source.field is None and any(records_in(path, path.name, _PAIR_FIELDS, Notes()))
    names: list[str] = []
    cuts = list((_cut_pairs if has_pairs else _cut_texts)(source, tokenizer, before, after, notes, names))
    if not cuts:
        why = notes.sentences[0] if notes.sentences else "It is empty. Name a file or directory with text."
        fields = " A record has `prefix` and `suffix`, or its text in the field of --field." if has_fields else ""
        raise HarnessError(
            f"{path} contains no {'pair' if has_pairs else f'text of {before + after} tokens'}. {why}{fields} Set "
            "--prefix-tokens and --suffix-tokens for shorter sequences."
        )
    numbers, rows = (np.array(column, np.int64) for column in zip(*cuts, strict=True))
    if not has_pairs:
        used = f"{len(np.unique(numbers)):,} of {pluralize(len(names), 'text')}"
        notes.add("cut texts", f"Cut {used} into {pluralize(len(rows), 'sequence')} of {before} + {after} tokens.")
    return rows[:, :before], rows[:, before:], numbers, names


def _cut_pairs(
    source: CorpusFiles, tokenizer: SharedTokenizer, before: int, after: int, notes: Notes, names: list[str]
) -> Iterator[tuple[int, Sequence[int]]]:
    """Encode prefix and suffix of each record as one text, and cut the tokens at the suffix's beginning.

    Yields the number of the record and the before + after tokens of each pair; `names` gets the names of the records.
    """
    path = source.path
    for record in records_in(path, path.name, _PAIR_FIELDS, notes, keeps_line_ends=source.keeps_line_ends):
        prefix, suffix = record.texts
        encoding = tokenizer.encode(prefix + suffix)
        tokens = cut_at(encoding, prefix + suffix, len(prefix), before=before, after=after)
        if tokens is None:
            notes.add(
                "pairs that are too short",
                f"Skipped {path.name}, line {record.line}: fewer than {before} tokens before the suffix or {after} in "
                "it, or a token across both.",
            )
        else:
            yield len(names), tokens
        names.append(f"{path.name}:{record.line}")


def _cut_texts(
    source: CorpusFiles, tokenizer: SharedTokenizer, before: int, after: int, notes: Notes, names: list[str]
) -> Iterator[tuple[int, Tokens]]:
    """Cut each document from its beginning into sequences that do not overlap; what is left at its end is not used.

    Yields the number of the document and the before + after tokens of each; `names` gets the names of the documents.
    """

    def numbered() -> Iterator[Document]:
        for document in source.documents(notes):
            names.append(document.name)
            yield document._replace(name=str(len(names) - 1))

    length = before + after
    for piece in pieces_of_documents(numbered(), partial(map, tokenizer.encode), StreamState()):
        number, sequences = int(piece.document), len(piece.tokens) // length
        if piece.is_new and not sequences:
            fault = f"Skipped {names[number]}: {pluralize(len(piece.tokens), 'token')}, and {length} are needed."
            notes.add("texts that are too short", fault)
        for tokens in piece.tokens[: sequences * length].reshape(-1, length):
            yield number, tokens


class PairSubject(Subject):
    """Base class of the options that name pairs."""

    pairs: Path | None = option(
        None,
        metavar="PAIRS",
        is_argument=True,
        description="Tokens (.npz, .npy), text pairs (.jsonl, .tsv), or other texts.",
    )
    round: str | None = sources.round_option()
    field: str | None = sources.field_option()
    keep_line_ends: bool = sources.line_ends_option()
    target: tuple[str, ...] = sources.target_option()
    prefix_tokens: int | None = option(None, ge=1, unset="as in the input; 50 for text", description="Prefix length.")
    suffix_tokens: int | None = option(None, ge=1, unset="as in the input; 50 for text", description="Suffix length.")
    limit: int = option(10_000, ge=1, description="Maximum sequences, drawn by seed.")

    @property
    def size(self) -> PairSize:
        """The size that was named."""
        return PairSize(self.prefix_tokens, self.suffix_tokens)

    def models(self, source: Source, revision: str) -> tuple[list[str], str]:
        """Return the ids of the targets and their revision; the default target is a round's own."""
        ids = list(dict.fromkeys(self.target))
        if not ids and isinstance(source, Round):
            ids, revision = [source.target], source.revision
        return ids, revision


def stored_leakage(audit: StoredAudit) -> tuple[LeakageParams, Pairs, Sequence[str]]:
    """Return the parameters, the pairs and the names of the targets of a leakage audit.

    Raises HarnessError for another audit.
    """
    if audit.audit != "leakage":
        raise HarnessError(f"{audit.id} is an audit of kind {audit.audit}. Name a leakage audit with --run.")
    params, pairs = LeakageParams.model_validate(audit.params), audit.inputs
    assert isinstance(pairs, Pairs)
    names, _ = pairs.split_models(params.model_names(tuple(audit.models)))
    return params, measured_pairs(pairs, audit.rows), names


def stored_data_set(audit: StoredAudit) -> DataSet:
    """Return the results of a leakage audit under its largest model with whole prefixes.

    Raises HarnessError for another audit, or if sequences are missing.
    """
    params, pairs, names = stored_leakage(audit)
    settings = read_measurements(audit.rows, len(names)).settings
    whole = [setting for setting in settings if setting.prefix_length == pairs.prefix_length]
    if len(whole) < len(names) or len(whole[-1].sequences) + whole[-1].unmeasured < len(pairs):
        raise HarnessError(f"{audit.id} has not measured all its sequences. Continue it with harness resume.")
    data_set = whole[-1].data_set(names[whole[-1].model], params)
    logs = {scheme: np.asarray(values).tolist() for scheme, values in data_set.logs.items()}
    return data_set._replace(name=f"{data_set.name}, {audit.id}", logs=logs)


class LeakageSubject(PairSubject):
    """Compute how likely each sequence is to leak.

    Measures six decoding schemes, or three with an endpoint. All targets must share one tokenizer.
    """

    NEEDS = (("pairs", "round", "corpus"), ("target", "round"))

    corpus: Path | None = option(None, metavar="FILE", description="Cut this corpus where --tagger finds entities.")
    tagger: str | None = option(None, metavar="MODEL", description="Token classification model for --corpus.")
    run: tuple[str, ...] = option((), metavar="RUN", description="Earlier audit to draw on the same page; repeatable.")

    def read(self, params: LeakageParams, preparation: Preparation) -> Reading:
        """Read the pairs or the corpus. Raises HarnessError if that fails, or if no prefix has a prefix length."""
        source = self._source()
        audits = [preparation.open_audit(name) for name in self.run]
        data_sets = [stored_data_set(audit) for audit in audits]
        ids, revision = self.models(source, preparation.revision)
        if self.tagger in ids:
            raise UsageError(f"{self.tagger} is both --target and --tagger. Choose two models.")
        params = params.for_targets(ids, preparation.say)
        model_ids = ids if self.tagger is None else [*ids, self.tagger]
        records = preparation.find_models(model_ids, revision=revision, is_first_served=params.endpoint is not None)
        models = [Model(record.id, record.path) for record in records[: len(ids)]]
        if self.corpus is not None and isinstance(source, CorpusFiles):
            pairs = read_documents(source, models, self.size, limit=self.limit)
        else:
            pairs = read_pairs(source, models, self.size, limit=self.limit, seed=preparation.seed)
        longest = max(params.prefix_lengths, default=0)
        if longest > pairs.prefix_length:
            raise HarnessError(
                f"--shorter-prefixes {longest}: the prefixes have {pairs.prefix_length} tokens. "
                "Lower that number, or raise --prefix-tokens."
            )
        if params.endpoint is not None:
            require_context(models, pairs.prefix_length + pairs.suffixes.shape[1], is_served=True)
        params = params.probed(models[0], preparation.say)
        files = sources.source_files("pairs" if self.corpus is None else "corpus", source)
        files |= {f"run {number}": audit.path for number, audit in enumerate(audits, 1)}
        return Reading(params, replace(pairs, data_sets=data_sets), sources.source_name(source), files, records)

    def _source(self) -> Source:
        """Return the source that is named. Raises UsageError for options that do not fit together."""
        require_fields(self.field, [self.corpus, self.pairs])
        if (self.corpus is None) != (self.tagger is None):
            raise UsageError("--corpus and --tagger must be given together: a corpus is cut at tagged entities.")
        if self.corpus is not None and self.pairs is not None:
            raise UsageError(f"two sources are named: {self.pairs} and {self.corpus}. Name one of them.")
        source = sources.named_source(self, self.corpus or self.pairs, self.round)
        assert source is not None
        return source
