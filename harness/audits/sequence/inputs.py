"""From a corpus and a control, wherever they lie, to the paragraphs that the audit measures with."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from harness.audits.sequence.choosing import Chosen, Piece, chosen
from harness.audits.sequence.complaints import Complaints
from harness.audits.sequence.material import Material
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.reading import documents_in
from harness.audits.sequence.rounds import has_unseen_text, round_pieces, unseen_pieces
from harness.audits.sequence.shared_runs import shared_runs
from harness.audits.sequence.sources import Source
from harness.audits.sequence.words import cut_after, spans_of
from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError
from harness.core.rounds import Round
from harness.core.text import pluralize

PROMPT_LENGTH = 35
"""Words, as the source has it."""
_PARAGRAPHS_BETWEEN_WORDS = 100_000


def sequence_inputs(
    source: Source,
    control: Source | None,
    params: SequenceParams,
    *,
    seed: int,
    tokenizer_file: Path | None = None,
    on_progress: Callable[[int], None] = lambda paragraphs: None,
) -> AuditInputs:
    """The paragraphs of both sides. tokenizer_file: the target's, which rounds are read with.

    on_progress is called now and then with the number of paragraphs of a side that were read.

    The demo's rounds come with their own control: text by the same generator that was never trained on. Raises
    HarnessError when a side cannot be read at all, or no paragraph of it is long enough.
    """
    complaints = Complaints()
    length = params.prompt_length or (None if isinstance(source, Round) else PROMPT_LENGTH)
    cutting = _Cutting(length, params.longest_suffix, tokenizer_file)

    def side(name: str, pieces: Iterable[Piece]) -> Chosen:
        found = chosen(_counted(pieces, on_progress), limit=params.limit, seed=seed)
        return found if found.pieces else _fail(name, found, cutting, complaints)

    corpus = side(_name(source), _pieces(source, cutting, complaints))
    other = None
    if control is not None:
        other = side(_name(control), _pieces(control, cutting, complaints))
    elif isinstance(source, Round) and has_unseen_text(source):
        tokenizer = _required(tokenizer_file, source)
        unseen = unseen_pieces(source, tokenizer, prompt_length=length, longest_suffix=params.longest_suffix)
        other = side("unseen text", unseen)
    return _material(corpus, other, length, complaints.sentences).inputs


class _Cutting(NamedTuple):
    """Where paragraphs are cut; prompt_length: None at a round's own prefixes."""

    prompt_length: int | None
    longest_suffix: int
    tokenizer_file: Path | None


def _pieces(source: Source, cutting: _Cutting, complaints: Complaints) -> Iterator[Piece]:
    length, longest = cutting.prompt_length, cutting.longest_suffix
    if isinstance(source, Round):
        tokenizer = _required(cutting.tokenizer_file, source)
        yield from round_pieces(source, tokenizer, prompt_length=length, longest_suffix=longest)
        return
    if length is None:
        raise HarnessError(
            f"{source.path}: a control of files beside a round, whose own prefixes are of several lengths; "
            "say how many words prompt both (--prompt-length)."
        )
    most = length + longest
    for document in documents_in(source.path, field=source.field, split=source.split, complaints=complaints):
        for number, paragraph in enumerate(document.paragraphs, start=1):
            cut = cut_after(paragraph, length, longest)
            yield Piece(document.name, number, cut, cut is not None and len(spans_of(paragraph, most + 1)) > most)


def _counted(pieces: Iterable[Piece], on_progress: Callable[[int], None]) -> Iterator[Piece]:
    for number, piece in enumerate(pieces, start=1):
        if number % _PARAGRAPHS_BETWEEN_WORDS == 0:
            on_progress(number)
        yield piece


def _name(source: Source) -> str:
    return f"round {source.name}" if isinstance(source, Round) else str(source.path)


def _required(tokenizer_file: Path | None, round_: Round) -> Path:
    if tokenizer_file is None or not tokenizer_file.is_file():
        raise HarnessError(
            f"round {round_.name} holds tokens, and no tokenizer.json is there to read them with: "
            "name a target that comes with one."
        )
    return tokenizer_file


def _fail(name: str, found: Chosen, cutting: _Cutting, complaints: Complaints) -> NoReturn:
    """Raise what is said of a side without a paragraph that can be used."""
    if number := found.reading.paragraphs:
        length = cutting.prompt_length
        wanted = "words on both sides of its cut" if length is None else f"more than {length} words (--prompt-length)"
        raise HarnessError(f"{name}: {pluralize(number, 'paragraph')} there, and none has {wanted}.")
    reason = complaints.sentences[0] if complaints.sentences else "it is empty."
    raise HarnessError(f"{name}: no paragraph to ask for: {reason}")


def _material(corpus: Chosen, control: Chosen | None, prompt_length: int | None, notes: list[str]) -> Material:
    sides = [corpus] if control is None else [corpus, control]
    pieces = [piece for side in sides for piece in side.pieces]
    is_control = np.repeat(np.arange(len(sides)) == 1, [len(side.pieces) for side in sides])
    # A document of the control is another one than a document of the corpus with its name.
    names = [(bool(other), piece.document) for other, piece in zip(is_control, pieces, strict=True)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    is_shared = np.zeros(len(pieces), np.bool_)
    if control is not None:
        texts = [[f"{piece.cut.prompt} {piece.cut.suffix}" for piece in side.pieces if piece.cut] for side in sides]
        is_shared = np.concatenate(shared_runs(texts[0], texts[1]))
    return Material(
        prompts=[piece.cut.prompt for piece in pieces if piece.cut],
        suffixes=[piece.cut.suffix for piece in pieces if piece.cut],
        documents=[name for _, name in numbers],
        document=np.array([numbers[name] for name in names], np.int64),
        number=np.array([piece.number for piece in pieces], np.int64),
        occurrences=np.array([count for side in sides for count in side.occurrences], np.int64),
        is_control=is_control,
        is_shared=is_shared,
        corpus_reading=corpus.reading,
        control_reading=None if control is None else control.reading,
        prompt_length=prompt_length,
        notes=notes,
    )
