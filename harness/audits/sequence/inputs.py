"""Read a corpus or a round, and a control, into the dataset that the audit measures."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from harness.audits import sources
from harness.audits.models import Model, first_token_notes, load_text_tokenizer
from harness.audits.options import Preparation, Reading, Subject
from harness.audits.sequence.comparison import shared_runs
from harness.audits.sequence.completion import GivenCompletions, read_completions
from harness.audits.sequence.dataset import (
    PROMPT_LENGTH,
    Cut,
    Dataset,
    Paragraph,
    ReadCounts,
    SequenceParams,
    cut_after,
    cut_at,
    paragraphs_of,
)
from harness.audits.sequence.words import lacks_spaces, word_spans, words_of
from harness.audits.sources import CorpusFiles, Source
from harness.core.arrays import Tokens
from harness.core.errors import HarnessError, UsageError
from harness.core.examples import load_clusters, load_prefixes
from harness.core.options import option
from harness.core.rounds import Round
from harness.core.spec import TargetRecord
from harness.core.text import compatible, pluralize
from harness.core.tokenizers import WRITE_TOKENIZER, load_tokenizer
from harness.corpora.documents import require_fields
from harness.corpora.text_files import Notes
from harness.demo import CONTROL_TEXT

_PARAGRAPHS_PER_REPORT = 100_000


class Sample(NamedTuple):
    """The sampled paragraphs in the order of the corpus, how often each occurs, and what happened to all others."""

    paragraphs: list[Paragraph]
    occurrences: list[int]
    counts: ReadCounts


def sample_paragraphs(
    paragraphs: Iterable[Paragraph],
    *,
    limit: int,
    seed: int,
    on_progress: Callable[[int], None] = lambda paragraphs: None,
) -> Sample:
    """Sample at most `limit` distinct paragraphs that have two parts, each distinct one with equal probability.

    Keeps the `limit` smallest hashes of seed and words ("bottom-k" sampling). Equal paragraphs have equal hashes, so
    at most `limit` paragraphs are in memory, and all occurrences of a sampled one are counted.
    on_progress: called with the number of paragraphs that were read so far.
    """
    kept: dict[int, tuple[int, Paragraph]] = {}
    occurrences: dict[int, int] = {}
    largest_first: list[int] = []
    total = too_short = not_chosen = 0
    for place, paragraph in enumerate(paragraphs):
        total += 1
        if total % _PARAGRAPHS_PER_REPORT == 0:
            on_progress(total)
        if paragraph.cut is None:
            too_short += 1
            continue
        rank = _rank(paragraph.cut, seed)
        if rank in kept:
            occurrences[rank] += 1
            continue
        if len(kept) == limit:
            if rank > -largest_first[0]:
                not_chosen += 1
                continue
            dropped = -heapq.heappop(largest_first)
            del kept[dropped]
            not_chosen += occurrences.pop(dropped)
        heapq.heappush(largest_first, -rank)
        kept[rank], occurrences[rank] = (place, paragraph), 1
    ranks = sorted(kept, key=lambda rank: kept[rank][0])
    sampled = [kept[rank][1] for rank in ranks]
    counts = [occurrences[rank] for rank in ranks]
    shortened = sum(paragraph.is_shortened for paragraph in sampled)
    return Sample(sampled, counts, ReadCounts(total, too_short, sum(counts) - len(counts), not_chosen, shortened))


def _rank(cut: Cut, seed: int) -> int:
    """Return a hash of seed and words. Paragraphs that differ in whitespace are equal."""
    content = "\0".join(" ".join(words_of(part)) for part in cut)
    key = seed.to_bytes(16, "little", signed=False)
    digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=12, key=key).digest()
    return int.from_bytes(digest, "big")


class Cutting(NamedTuple):
    """The cut of paragraphs. prompt_length: in words, None for a round's own prefixes."""

    prompt_length: int | None
    longest_suffix: int
    tokenizer_file: Path | None


def round_paragraphs(round_: Round, cutting: Cutting) -> Iterator[Paragraph]:
    """Yield a paragraph for each example: prefix and answer as one text, its cluster as its document.

    Raises HarnessError for a blind round, and if the tokenizer lacks a token of the round.
    """
    prefixes, answers = sources.load_answered_examples(round_)
    clusters = load_clusters(round_, answers)
    names = [f"example {row}" for row in range(len(prefixes))]
    if clusters is not None:
        names = [f"cluster {cluster}" for cluster in clusters.tolist()]
    yield from _cut_rows(round_, prefixes, answers, names, cutting)


def control_paragraphs(round_: Round, cutting: Cutting) -> Iterator[Paragraph]:
    """Yield as many paragraphs like the demo round's as it has examples, at most the 1,000 that are built in."""
    rows = slice(len(load_prefixes(round_)))
    with np.load(CONTROL_TEXT) as unseen:
        prefixes, suffixes, documents = (unseen[name][rows] for name in ("prefixes", "suffixes", "documents"))
    names = [f"unseen document {document}" for document in documents.tolist()]
    yield from _cut_rows(round_, prefixes, suffixes, names, cutting)


def _cut_rows(
    round_: Round, prefixes: Tokens, suffixes: Tokens, names: list[str], cutting: Cutting
) -> Iterator[Paragraph]:
    file, length, longest = cutting.tokenizer_file, cutting.prompt_length, cutting.longest_suffix
    if file is None or not file.is_file():
        raise HarnessError(
            f"round {round_.name} contains tokens, and the target has no tokenizer.json. {WRITE_TOKENIZER}"
        )
    texts = _decode(np.concatenate([prefixes, suffixes], axis=1), file)
    places: Counter[str] = Counter()
    for name, prefix, text in zip(names, _decode(prefixes, file), texts, strict=True):
        places[name] += 1
        if length is None:
            # An incomplete character decodes to U+FFFD.
            yield Paragraph(name, places[name], cut_at(text, len(prefix.rstrip("\ufffd")), longest))
            continue
        spans = word_spans(text)
        if spans and spans[-1][1] == len(text):
            # The row may end within its last word.
            text = text[: spans[-1][0]]
        yield _cut_paragraph(name, places[name], text, length, longest)


def _cut_paragraph(document: str, number: int, text: str, length: int, longest: int) -> Paragraph:
    """Return a paragraph with a prompt of `length` words, and at most `longest` words in its suffix."""
    cut = cut_after(text, length, longest)
    is_shortened = cut is not None and len(word_spans(text, length + longest + 1)) > length + longest
    return Paragraph(document, number, cut, is_shortened)


def _decode(rows: Tokens, tokenizer_file: Path) -> list[str]:
    """Return each of `rows` [rows, length] as text."""
    tokenizer = load_tokenizer(tokenizer_file)
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if rows.size and int(rows.max()) >= size:
        raise HarnessError(f"{tokenizer_file} has no token {rows.max():,}, which the round contains. Choose another.")
    return tokenizer.decode_batch(rows.tolist(), skip_special_tokens=False)


def select_targets(
    targets: Sequence[str], revision: str, source: Source, control: Source | None, params: SequenceParams
) -> tuple[list[str], str]:
    """Return the ids and the revision of the targets that complete, the first of which decodes a round.

    With an endpoint, a target is needed for a round only. Raises UsageError if both are named.
    """
    ids = list(dict.fromkeys(targets))
    rounds = [side for side in (source, control) if isinstance(side, Round)]
    if params.endpoint is not None:
        if len(ids) > (1 if rounds else 0):
            raise UsageError("two models are named: --target and --endpoint. Name one of them.")
        if not rounds:
            return [], revision
    if ids:
        return ids, revision
    return [rounds[0].target], rounds[0].revision


def read_inputs(
    source: Source,
    control: Source | None,
    params: SequenceParams,
    *,
    seed: int,
    tokenizer_file: Path | None = None,
    has_completions: bool = False,
    on_progress: Callable[[int], None] = lambda paragraphs: None,
) -> Dataset:
    """Read the paragraphs of both sides. tokenizer_file: the target's, which decodes rounds.

    has_completions: both sides are files with paragraphs and their completions.
    on_progress is called with the number of paragraphs of a side that were read so far. The demo's rounds come with
    their own control. Raises HarnessError if a side cannot be read, or none of its paragraphs is long enough.
    """
    notes = Notes()
    files: list[GivenCompletions] = []
    default = None if has_completions or isinstance(source, Round) else PROMPT_LENGTH
    length = max(params.prompt_length, default=default)
    cutting = Cutting(length, params.longest_suffix, tokenizer_file)

    def sampled(name: str, paragraphs: Iterable[Paragraph]) -> Sample:
        sample = sample_paragraphs(paragraphs, limit=params.limit, seed=seed, on_progress=on_progress)
        if not sample.paragraphs:
            _fail(name, sample, length, notes)
        if lacks_spaces(f"{cut.prompt} {cut.suffix}" for paragraph in sample.paragraphs if (cut := paragraph.cut)):
            raise HarnessError(
                f"{name} is in a script without spaces between words, and prompts and thresholds count words. Split "
                "the text into words with spaces."
            )
        return sample

    def read(side: Source) -> Sample:
        if isinstance(side, Round):
            return sampled(f"round {side.name}", round_paragraphs(side, cutting))
        if not has_completions:
            return sampled(str(side.path), _file_paragraphs(side, cutting, notes))
        files.append(read_completions(side.path, params, notes))
        if files[0].by_model.keys() != files[-1].by_model.keys() or files[0].prompt_length != files[-1].prompt_length:
            raise HarnessError(f"{side.path}: other models or fields than in the corpus. Use the same in both.")
        return sampled(str(side.path), files[-1].paragraphs)

    samples = [read(source)]
    if control is not None:
        samples.append(read(control))
    elif isinstance(source, Round) and source.target == "demo":
        samples.append(sampled("unseen text", control_paragraphs(source, cutting)))
    models = list(files[0].by_model) if files else []
    return replace(
        _dataset(samples, files[0].prompt_length if files else length, notes.sentences),
        has_special_tokens=isinstance(source, Round),
        models=models,
        completions=[
            side.by_model[model][cut]
            for model in models
            for side, sample in zip(files, samples, strict=True)
            for paragraph in sample.paragraphs
            if (cut := paragraph.cut)
        ],
    )


def _file_paragraphs(files: CorpusFiles, cutting: Cutting, notes: Notes) -> Iterator[Paragraph]:
    length, longest = cutting.prompt_length, cutting.longest_suffix
    if length is None:
        raise HarnessError(
            f"prefixes of a round differ in length, and prompts from {files.path} need one length. Set --prompt-length."
        )
    for document in files.documents(notes):
        for number, text in enumerate(paragraphs_of(document.lines), start=1):
            yield _cut_paragraph(document.name, number, text, length, longest)


def _fail(name: str, sample: Sample, length: int | None, notes: Notes) -> NoReturn:
    """Raise the error for a side without a usable paragraph. length: words of a prompt, None for a round's prefixes."""
    if number := sample.counts.paragraphs:
        words = "words (text between spaces)"
        size = f"{words} on both sides of its cut" if length is None else f"more than {length} {words}"
        advice = "Use longer paragraphs" + (" or a smaller --prompt-length" if length and length > 1 else "")
        raise HarnessError(f"{name} contains {pluralize(number, 'paragraph')}, none of which has {size}. {advice}.")
    why = notes.sentences[0] if notes.sentences else "It is empty. Name a file or directory with text."
    raise HarnessError(f"{name} contains no paragraph. {why}")


def _dataset(sides: Sequence[Sample], prompt_length: int | None, notes: list[str]) -> Dataset:
    paragraphs = [paragraph for side in sides for paragraph in side.paragraphs]
    is_control = np.repeat(np.arange(len(sides)) == 1, [len(side.paragraphs) for side in sides])
    # Documents of the corpus and of the control may have the same name.
    names = list(zip(is_control.tolist(), (paragraph.document for paragraph in paragraphs), strict=True))
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    cuts = [paragraph.cut for paragraph in paragraphs if paragraph.cut]
    is_shared = np.zeros(len(cuts), np.bool_)
    if len(sides) > 1:
        texts = [f"{cut.prompt} {cut.suffix}" for cut in cuts]
        first = len(sides[0].paragraphs)
        is_shared = np.concatenate(shared_runs(texts[:first], texts[first:]))
    return Dataset(
        prompts=[cut.prompt for cut in cuts],
        suffixes=[cut.suffix for cut in cuts],
        documents=[name for _, name in numbers],
        document=np.array([numbers[name] for name in names], np.int64),
        number=np.array([paragraph.number for paragraph in paragraphs], np.int64),
        occurrences=np.array([count for side in sides for count in side.occurrences], np.int64),
        is_control=is_control,
        is_shared=is_shared,
        readings=[side.counts for side in sides],
        prompt_length=prompt_length,
        notes=notes,
    )


def _form_notes(dataset: Dataset, models: Sequence[Model]) -> Iterator[str]:
    """Yield how many paragraphs are not in the form in which they are compared. models: those on this machine."""
    texts = list(map(" ".join, zip(dataset.prompts, dataset.suffixes, strict=True)))
    forms = {f"The tokenizer of {model.id}": load_text_tokenizer(model).normalize for model in models}
    for name, form in (
        forms or {"Unicode normal form KC without soft hyphens and curly quotation marks": compatible}
    ).items():
        if changed := sum(words_of(form(text)) != words_of(text) for text in texts):
            of = pluralize(len(texts), "paragraph")
            yield f"{name} changes {changed:,} of {of}. Completions and originals are compared in the changed form."


class SequenceSubject(Subject):
    """Test whether a corpus was in the training data.

    The model completes the corpus's paragraphs, and its completions are compared with the originals.
    """

    NEEDS = (("corpus", "round", "completions"), ("target", "round", "completions", "endpoint"))

    corpus: Path | None = option(
        None,
        metavar="CORPUS",
        is_argument=True,
        description="Text file, directory of text files, .jsonl, .csv, .parquet, or a saved `datasets` set.",
    )
    round: str | None = sources.round_option()
    field: str | None = sources.field_option()
    keep_line_ends: bool = sources.line_ends_option()
    split: str | None = option(None, unset="the only one", description="Split of a data set.")
    completions: Path | None = option(
        None,
        metavar="FILE",
        description="Judge existing completions, without a model: records with prefix, suffix and completion.",
    )
    control: Path | None = option(
        None,
        metavar="CORPUS",
        unset='permuted suffixes (never "Probably")',
        description="Text of the same kind that no target has seen.",
    )
    control_round: str | None = sources.round_option("Round whose examples no target has seen.")
    target: tuple[str, ...] = sources.target_option("Hub id, directory or GGUF file; repeatable.", unset="the round's")

    def read(self, params: SequenceParams, preparation: Preparation) -> Reading:
        """Read the paragraphs of both sides. Raises HarnessError if a side cannot be read."""
        if self.completions is not None and (
            self.corpus or self.field or self.split or self.control_round or self.target or params.endpoint
        ):
            raise UsageError(
                "--completions names text and completions. Remove CORPUS, --field, --split, --control-round, --target "
                "and --endpoint."
            )
        require_fields(self.field, [self.corpus, self.control])
        source = sources.named_source(self, self.corpus or self.completions, self.round, split=self.split)
        assert source is not None
        control = sources.named_source(self, self.control, self.control_round)
        is_served = params.endpoint is not None
        models: tuple[TargetRecord, ...] = ()
        if self.completions is None:
            ids, revision = select_targets(self.target, preparation.revision, source, control, params)
            models = preparation.find_models(ids, revision=revision, is_first_served=is_served) if ids else ()
        dataset = read_inputs(
            source,
            control,
            params,
            seed=preparation.seed,
            tokenizer_file=models[0].path / "tokenizer.json" if models else None,
            has_completions=self.completions is not None,
            on_progress=lambda paragraphs: preparation.say(f"read {paragraphs:,} paragraphs …"),
        )
        local = [Model(record.id, record.path) for record in models if not is_served]
        notes = [*dataset.notes, *first_token_notes(local), *_form_notes(dataset, local)]
        dataset = replace(dataset, notes=notes)
        files = sources.source_files("completions" if self.completions else "corpus", source)
        files |= sources.source_files("control", control)
        return Reading(params, dataset, sources.source_name(source), files, () if is_served else models)
