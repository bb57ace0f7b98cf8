"""Read pairs from files, rounds or a corpus, and check that they fit the targets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.leakage.pairs import LeakageParams, Pairs, cut_at
from harness.audits.models import Model, first_token_notes, require_context, require_tokenizer, shared_tokenizer
from harness.audits.options import Preparation, Reading, Subject, option
from harness.audits.sources import (
    CorpusFiles,
    Source,
    field_option,
    line_ends_option,
    load_answered_examples,
    named_source,
    round_option,
    source_files,
    source_name,
    target_option,
)
from harness.core.arrays import Ints, Tokens, mapped_array
from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError, UsageError
from harness.core.protocol import read_archive
from harness.core.rounds import Round
from harness.core.text import shorten
from harness.core.tokenizers import parse_tokenizer
from harness.corpora.documents import RECORD_SUFFIXES, records_in, require_fields
from harness.corpora.text_files import Notes
from harness.engine.resolving import VOCABULARY_KEYS, configured_number

_LENGTH = 50
"""Tokens of a prefix and of a suffix, if nothing else is given."""


class PairSize(NamedTuple):
    """Tokens of a prefix and of a suffix; None for what the source has, or else 50."""

    prefix: int | None = None
    suffix: int | None = None


@dataclass(frozen=True)
class PairSource:
    """The source of the pairs. source: files of pairs, a round, or a corpus.

    tagger: the model that marks the entities at which a corpus is cut; None for pairs.
    """

    source: Source
    tagger: str | None
    size: PairSize

    @classmethod
    def select(
        cls,
        source: Source | None,
        *,
        corpus: CorpusFiles | None = None,
        tagger: str | None = None,
        size: PairSize,
        choices: str = "a file of pairs, --round, or --corpus with --tagger",
    ) -> "PairSource":
        """Return the one source that was named. choices: those that an error names.

        Raises HarnessError if none or several were named, or if a tagger is missing.
        """
        named = corpus or source
        if named is None or (corpus is not None and source is not None):
            fault = "no pairs are named" if named is None else "several sources of pairs are named"
            raise UsageError(f"{fault}. Give {choices}.")
        if (corpus is None) != (tagger is None):
            raise UsageError("--corpus and --tagger must be given together: a corpus is cut at tagged entities.")
        return cls(named, tagger, size)

    @property
    def name(self) -> str:
        """A short name for the run's id."""
        return source_name(self.source)

    @property
    def files(self) -> dict[str, Path]:
        """The files by name, for the run's record."""
        return source_files("pairs" if self.tagger is None else "corpus", self.source)

    def models(self, targets: Sequence[str] | None, revision: str) -> tuple[list[str], str]:
        """Return the ids of the targets and the tagger, which is last, and their revision.

        The default target is a round's own. Raises HarnessError for files without a
        target.
        """
        ids = list(dict.fromkeys(targets or []))
        if not ids and isinstance(self.source, Round):
            ids, revision = [self.source.target], self.source.revision
        if not ids:
            raise UsageError("no target is named. Give --target.")
        if self.tagger in ids:
            raise HarnessError(f"{self.tagger} is both --target and --tagger. Choose two models.")
        return [*ids, *([self.tagger] if self.tagger is not None else [])], revision


def read_inputs(
    source: PairSource, params: LeakageParams, models: Mapping[str, Path], *, limit: int, seed: int
) -> AuditInputs:
    """Read and check the pairs. models: each model's directory by its name, the tagger's last.

    Raises HarnessError for input that cannot be read, and for a prefix length that the prefixes do not have.
    """
    targets = [Model(*each) for each in models.items()]
    if source.tagger is not None:
        assert isinstance(source.source, CorpusFiles)
        pairs = read_documents(source.source, targets[:-1], source.size, params.entity_tokens)
    else:
        pairs = read_pairs(source, targets, limit=limit, seed=seed)
    longest = max(params.prefix_lengths, default=0)
    if longest > pairs.prefix_length:
        raise HarnessError(
            f"--shorter-prefixes: prefixes have {pairs.prefix_length} tokens, not {longest}. Set --prefix-tokens to "
            "cut longer ones."
        )
    if params.endpoint is not None:
        suffix = params.entity_tokens if pairs.documents else pairs.suffixes.shape[1]
        require_context(targets[:1], pairs.prefix_length + suffix, is_served=True)
    return pairs.to_inputs()


def read_pairs(source: PairSource, models: Sequence[Model], *, limit: int, seed: int) -> Pairs:
    """Read pairs that are not still to be cut. Raises HarnessError for input that cannot be read."""
    if isinstance(source.source, Round):
        return round_pairs(source.source, models, source.size, limit=limit, seed=seed)
    files = source.source
    return file_pairs(files.path, models, source.size, limit=limit, seed=seed, keeps_line_ends=files.keeps_line_ends)


def file_pairs(
    path: Path, models: Sequence[Model], size: PairSize, *, limit: int, seed: int, keeps_line_ends: bool = False
) -> Pairs:
    """Read pairs from a file: tokens as .npz or .npy, text as JSON Lines, CSV or TSV. Raises HarnessError for none."""
    if not path.is_file():
        raise HarnessError(f"no such file: {path}.")
    tokenizer = shared_tokenizer(models)
    notes = Notes()
    ending = path.suffix.lower()
    if ending == ".npz":
        prefixes, suffixes = _archive_pairs(path)
    elif ending == ".npy":
        prefixes, suffixes = _row_pairs(path, size.prefix or _LENGTH)
    elif ending in RECORD_SUFFIXES:
        prefixes, suffixes, origin, records = _text_pairs(
            path, require_tokenizer(tokenizer, models), size, notes, keeps_line_ends=keeps_line_ends
        )
    else:
        raise HarnessError(f"unknown file type: {path}. Pairs are .npz or .npy (tokens), .jsonl or .tsv (text).")
    pairs = _sampled(path.name, prefixes, suffixes, tokenizer, models, size, limit=limit, seed=seed)
    if ending in RECORD_SUFFIXES:
        pairs = replace(pairs, rows=origin[pairs.rows], source_rows=records)
    return replace(pairs, notes=[*notes.sentences, *pairs.notes])


def round_pairs(round_: Round, models: Sequence[Model], size: PairSize, *, limit: int, seed: int) -> Pairs:
    """Return a round's prefixes and answers. Raises HarnessError for a blind round."""
    prefixes, answers = load_answered_examples(round_)
    tokenizer = shared_tokenizer(models)
    return _sampled(round_.name, prefixes, answers, tokenizer, models, size, limit=limit, seed=seed)


def read_documents(corpus: CorpusFiles, models: Sequence[Model], size: PairSize, entity_tokens: int) -> Pairs:
    """Return the documents of a corpus, which are still to be cut. Raises HarnessError if there is no text."""
    tokenizer = shared_tokenizer(models)
    require_tokenizer(tokenizer, models)
    prefix_length = size.prefix or _LENGTH
    require_context(models, prefix_length + entity_tokens)
    notes = Notes()
    documents = [text for document in corpus.documents(notes) if (text := "".join(document.lines).strip())]
    if not documents:
        raise HarnessError(
            f"{corpus.path} contains no text. {notes.sentences[0] if notes.sentences else 'It is empty.'}"
        )
    prefixes, suffixes = np.empty((0, prefix_length), np.int64), np.empty((0, entity_tokens), np.int64)
    return Pairs(prefixes, suffixes, tokenizer, prefix_length, documents, notes.sentences)


def _archive_pairs(path: Path) -> tuple[Tokens, Tokens]:
    try:
        arrays = read_archive(path)
    except Exception as error:  # zipfile, zlib and numpy each have their own
        raise HarnessError(f"not an archive of plain arrays: {path} ({shorten(str(error), 100)}).") from None
    if absent := {"prefixes", "suffixes"} - set(arrays):
        raise HarnessError(f"no array {sorted(absent)[0]!r} in {path}. An .npz of pairs has `prefixes` and `suffixes`.")
    prefixes, suffixes = (_checked_tokens(arrays[name], f"{path}, {name}") for name in ("prefixes", "suffixes"))
    if len(prefixes) != len(suffixes):
        raise HarnessError(f"{path} has {len(prefixes):,} prefixes and {len(suffixes):,} suffixes.")
    return prefixes, suffixes


def _row_pairs(path: Path, prefix_length: int) -> tuple[Tokens, Tokens]:
    rows = _checked_tokens(np.asarray(mapped_array(path)), str(path))
    if rows.shape[1] <= prefix_length:
        raise HarnessError(
            f"rows of {rows.shape[1]} tokens have no suffix after a prefix of {prefix_length}: {path}. Set "
            "--prefix-tokens."
        )
    return rows[:, :prefix_length], rows[:, prefix_length:]


def _checked_tokens(array: NDArray[Any], where: str) -> Tokens:
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer) or array.shape[1] < 1:
        raise HarnessError(f"{where}: expected integers [rows, tokens], found {array.dtype} {list(array.shape)}.")
    if array.size and int(array.min()) < 0:
        raise HarnessError(f"{where}: contains a negative token.")
    return array


def _text_pairs(
    path: Path, tokenizer_json: str, size: PairSize, notes: Notes, *, keeps_line_ends: bool
) -> tuple[Tokens, Tokens, Ints, int]:
    """Encode prefix and suffix of each record as one text, and cut the tokens at the suffix's beginning.

    Returns prefixes, suffixes, the number of the record of each, and how many records there are.
    """
    tokenizer = parse_tokenizer(tokenizer_json, "the target")
    before, after = size.prefix or _LENGTH, size.suffix or _LENGTH
    cuts, kept, records = [], [], 0
    for record in records_in(path, path.name, ("prefix", "suffix"), notes, keeps_line_ends=keeps_line_ends):
        records += 1
        prefix, suffix = record.texts
        encoding = tokenizer.encode(prefix + suffix, add_special_tokens=False)
        cut = cut_at(encoding, prefix + suffix, len(prefix), before=before, after=after)
        if cut is None:
            notes.add(
                "pairs that are too short",
                f"Skipped {path.name}, line {record.line}: fewer than {before} tokens before the suffix or {after} in "
                "it, or a token across both.",
            )
        else:
            cuts.append(cut)
            kept.append(records - 1)
    if not cuts:
        why = notes.sentences[0] if notes.sentences else "It is empty."
        raise HarnessError(f"{path} contains no pair. {why} Set --prefix-tokens and --suffix-tokens for shorter pairs.")
    prefixes, suffixes = (
        np.array(part, np.int64) for part in zip(*((cut.prefix, cut.suffix) for cut in cuts), strict=True)
    )
    return prefixes, suffixes, np.array(kept, np.int64), records


def _sampled(
    source: str,
    prefixes: Tokens,
    suffixes: Tokens,
    tokenizer: str | None,
    models: Sequence[Model],
    size: PairSize,
    *,
    limit: int,
    seed: int,
) -> Pairs:
    """Return at most `limit` pairs, sampled by seed and cut to size. Raises HarnessError if they do not fit a model."""
    for what, wanted, found in (("prefix", size.prefix, prefixes), ("suffix", size.suffix, suffixes)):
        if wanted is not None and wanted > found.shape[1]:
            raise HarnessError(f"{source}: a {what} has {found.shape[1]} tokens, not {wanted}. Set --{what}-tokens.")
    prefixes = prefixes[:, prefixes.shape[1] - (size.prefix or prefixes.shape[1]) :]
    suffixes = suffixes[:, : size.suffix or suffixes.shape[1]]
    if not len(prefixes):
        raise HarnessError(f"{source} contains no pair.")
    largest = max(int(prefixes.max()), int(suffixes.max()))
    for model in models:
        vocabulary = configured_number(model.path, VOCABULARY_KEYS)
        if vocabulary is not None and largest >= vocabulary:
            raise HarnessError(f"{source} contains token {largest:,}, and {model.id} has {vocabulary:,} tokens.")
    require_context(models, prefixes.shape[1] + suffixes.shape[1])
    rows = np.sort(np.random.default_rng(seed).permutation(len(prefixes))[:limit])
    return Pairs(
        prefixes[rows],
        suffixes[rows],
        tokenizer,
        prefixes.shape[1],
        notes=first_token_notes(prefixes[rows], models),
        rows=rows,
        source_rows=len(prefixes),
    )


class PairSubject(Subject):
    """Base class of the options that name pairs."""

    pairs: Path | None = option(
        None,
        metavar="PAIRS",
        is_argument=True,
        description="Prefixes and suffixes: .npz or .npy (tokens), .jsonl or .tsv (text).",
    )
    round: str | None = round_option()
    keep_line_ends: bool = line_ends_option()
    target: tuple[str, ...] = target_option()
    prefix_tokens: int | None = option(
        None, ge=1, description="Tokens of a whole prefix: the source's, or 50 for text."
    )
    suffix_tokens: int | None = option(
        None, ge=1, description="Tokens of a suffix: the source's, 50 for text, 4 for entities."
    )
    limit: int = option(10_000, ge=1, description="Maximum sequences, sampled by seed.")

    @property
    def size(self) -> PairSize:
        """The size that was named."""
        return PairSize(self.prefix_tokens, self.suffix_tokens)


class LeakageSubject(PairSubject):
    """Compute how likely each sequence is to leak.

    Computes exact and inexact probabilities under six decoding schemes; with an endpoint, exact ones under three.

    Several --target of one tokenizer and several --shorter-prefixes are measured.
    """

    corpus: Path | None = option(None, metavar="FILE", description="Corpus to cut at the entities that --tagger marks.")
    tagger: str | None = option(None, metavar="MODEL", description="Token classification model: hub id or directory.")
    field: str | None = field_option()

    def read(self, params: LeakageParams, preparation: Preparation) -> Reading:
        """Read the pairs, or the corpus to cut them from. Raises HarnessError if that fails."""
        require_fields(self.field, [self.corpus])
        corpus = None if self.corpus is None else CorpusFiles(self.corpus, self.field, None, self.keep_line_ends)
        source = PairSource.select(
            named_source(self, self.pairs, self.round),
            corpus=corpus,
            tagger=self.tagger,
            size=self.size,
        )
        params = params.changed(entity_tokens=self.suffix_tokens or 4)
        ids, revision = source.models(self.target, preparation.revision)
        params = params.for_targets(ids[: len(ids) - (self.tagger is not None)], preparation.say)
        records = preparation.find_models(ids, revision=revision, is_first_served=params.endpoint is not None)
        paths = {record.id: record.path for record in records}
        inputs = read_inputs(source, params, paths, limit=self.limit, seed=preparation.seed)
        params = params.probed(Model(records[0].id, records[0].path), preparation.say)
        return Reading(params, inputs, source.name, source.files, records)
