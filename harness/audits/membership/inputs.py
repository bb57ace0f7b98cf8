"""The parameters, the tables and the documents of a membership audit: members and non-members as token ids and text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.audits import sources
from harness.audits.endpoint.scoring import ScoringParams
from harness.audits.membership.scores import MODEL_SCORES
from harness.audits.models import Model, first_token_notes, require_context, shared_tokenizer
from harness.audits.options import Preparation, Reading, Subject
from harness.audits.shared_tokenizer import SharedTokenizer
from harness.audits.sources import Source
from harness.core.arrays import Bools, Ints
from harness.core.attack import Field
from harness.core.audit import Inputs
from harness.core.errors import HarnessError, UsageError
from harness.core.options import option
from harness.core.rounds import Round
from harness.core.rows import Kind, table
from harness.core.windows import cluster_ids
from harness.corpora.documents import require_fields
from harness.corpora.text_files import Notes

FALSE_POSITIVE_RATES = (0.01, 0.001)
SCORES = table("score", document=Kind.INTEGER, **{score.value: Kind.REAL for score in MODEL_SCORES})
"""The scores of a document, NaN for those that were not computed."""
REFERENCE = table("reference", document=Kind.INTEGER, loss=Kind.REAL)
"""The mean log-probability of a document under the reference model."""
WORDS = table("word_score", document=Kind.INTEGER, score=Kind.REAL)
"""The score of membership by the words of a document alone."""
WORD_SHIFT = table("word_shift", p_value=Kind.REAL)
"""The p-value of the permutation test on the scores by words, one row; NaN if there are too few texts."""
TABLES = (SCORES, REFERENCE, WORDS, WORD_SHIFT)
NEAR_COPY_WINDOW = 16
"""Documents that share this many consecutive tokens are near-copies of each other."""


class MembershipParams(ScoringParams):
    """The options of the audit. Defaults follow the sources of the scores."""

    tokens: int = Field(128, ge=2, le=4096, description="Number of tokens of a document to score.")
    least_tokens: int = Field(32, ge=2, le=4096, description="Leave out documents with fewer tokens.")
    k: float = Field(0.2, gt=0, le=1, description="Share of the least likely tokens in Min-K % and Min-K %++.")
    shots: int = Field(7, ge=0, le=100, description="Non-members before the text in ReCaLL; 0: no ReCaLL.")
    reference: bool = option(False, is_hidden=True, description="The last model is the reference model.")


@dataclass(frozen=True)
class Documents(Inputs):
    """The documents of an audit."""

    joined: Ints
    """The token ids of all, one after the other."""
    lengths: Ints
    """The number of tokens of each, [documents]."""
    texts: Sequence[str]
    names: Sequence[str]
    is_member: Bools
    shots: Ints
    """The token ids of the non-members that come before a text in ReCaLL; they are no documents."""
    notes: Sequence[str]
    """Sentences about skipped input."""

    @cached_property
    def tokens(self) -> list[Ints]:
        """The token ids of each document."""
        return np.split(self.joined, np.cumsum(self.lengths)[:-1])

    def clusters(self) -> Ints:
        """Return the cluster of each document, [documents]. Near-copies are in one."""
        return cluster_ids([tokens[None] for tokens in self.tokens], NEAR_COPY_WINDOW)


def read_documents(
    members: Source,
    non_members: Source,
    models: Sequence[Model],
    params: MembershipParams,
    *,
    limit: int,
    seed: int,
) -> Documents:
    """Read at most `limit` documents of each side, sampled by seed. models: the target and the reference model.

    Raises HarnessError for input that cannot be read, if a side has no document that is long enough, or if the models
    have different tokenizers or too short a context.
    """
    tokenizer = shared_tokenizer(models)
    subject, is_served = "the scored part of a document has", params.endpoint is not None
    require_context(models, params.tokens, subject=subject, option="--tokens", is_served=is_served)
    decoder = tokenizer.require_first()
    notes = Notes()
    sides = [_read_side(source, tokenizer, params, notes) for source in (members, non_members)]
    if both := sides[0].keys() & sides[1].keys():
        notes.add("documents on both sides", f"Left out {len(both):,} documents that are members and non-members.")
        sides = [{key: document for key, document in side.items() if key not in both} for side in sides]
        if not all(sides):
            raise HarnessError("members and non-members are the same documents. Name text that the target never saw.")
    generator = np.random.default_rng(seed)
    inside, outside = ([list(side.values())[place] for place in generator.permutation(len(side))] for side in sides)
    number = min(params.shots, len(outside) // 10)
    shots, outside = [ids for _, ids in outside[:number]], outside[number:]
    names, tokens = zip(*inside[:limit], *outside[:limit], strict=True)
    unscored = []
    if number:
        among = len(outside) + number
        unscored.append(f"{number:,} of {among:,} non-members are the shots of ReCaLL and are not scored.")
    for side, documents in (("members", inside), ("non-members", outside)):
        if len(documents) > limit:
            sentence = f"Scored {limit:,} of {len(documents):,} {side}, sampled by seed. Set --limit for more."
            unscored.append(sentence)
    firsts = np.array([ids[:1] for ids in tokens])
    return Documents(
        np.concatenate(tokens),
        np.array([len(ids) for ids in tokens], np.int64),
        [decoder.decode(ids.tolist(), skip_special_tokens=False) for ids in tokens],
        names,
        np.arange(len(names)) < min(limit, len(inside)),
        np.concatenate([np.empty(0, np.int64), *shots]),
        [*unscored, *notes.sentences, *tokenizer.notes([*tokens, *shots]), *first_token_notes(models, firsts)],
    )


def _read_side(
    source: Source, tokenizer: SharedTokenizer, params: MembershipParams, notes: Notes
) -> dict[bytes, tuple[str, Ints]]:
    """Return the name and the scored tokens of each document that is long enough; equal tokens are one document."""
    side: dict[bytes, tuple[str, Ints]] = {}
    for name, ids in _documents(source, tokenizer, notes):
        if len(ids) < params.least_tokens:
            fault = f"Skipped {name}: {len(ids)} tokens, and --least-tokens is {params.least_tokens}."
            notes.add("documents that are too short", fault)
        else:
            scored = ids[: params.tokens]
            first, _ = side.setdefault(scored.tobytes(), (name, scored))
            if first != name:
                fault = f"Skipped {name}: its first {len(scored)} tokens are those of {first}."
                notes.add("documents with the tokens of another", fault)
    if not side:
        reason = f" {notes.sentences[0]}" if notes.sentences else ""
        raise HarnessError(
            f"{sources.source_name(source)} contains no document of {params.least_tokens} tokens.{reason} "
            "Lower --least-tokens."
        )
    return side


def _documents(source: Source, tokenizer: SharedTokenizer, notes: Notes) -> Iterator[tuple[str, Ints]]:
    """Yield the name and the token ids of each document."""
    if isinstance(source, Round):
        prefixes, answers = sources.load_answered_examples(source)
        for number, row in enumerate(np.concatenate([prefixes, answers], axis=1).astype(np.int64), 1):
            yield f"{source.name}, example {number}", row
        return
    for document in source.documents(notes):
        text = "".join(document.lines)
        yield document.name, np.array(tokenizer.encode(text).ids, np.int64)


class MembershipSubject(Subject):
    """Test whether members can be told from non-members.

    Computes up to six scores of each document: five with the target (four through an endpoint, without Min-K %++), and
    the ratio to --reference. A classifier that sees only the words shows whether members and non-members differ in
    kind.
    """

    NEEDS = (("members", "round"), ("non_members", "non_members_round"), ("target",))

    members: Path | None = option(
        None,
        metavar="MEMBERS",
        is_argument=True,
        description="Documents of the training data, one per text file or JSONL row.",
    )
    round: str | None = sources.round_option()
    non_members: Path | None = option(
        None, metavar="CORPUS", description="Documents of the same kind that the target has not seen."
    )
    non_members_round: str | None = sources.round_option("Round whose examples the target has not seen.")
    field: str | None = sources.field_option()
    keep_line_ends: bool = sources.line_ends_option()
    target: str | None = sources.target_option("Hub id, directory or GGUF file.", None)
    reference: str | None = option(
        None,
        metavar="MODEL",
        unset="none",
        description="Model with the same tokenizer that has not seen the members.",
    )
    limit: int = option(2_000, ge=1, description="Maximum members and maximum non-members, drawn by seed.")

    def read(self, params: MembershipParams, preparation: Preparation) -> Reading:
        """Read both sides. Raises HarnessError if a side cannot be read."""
        require_fields(self.field, [self.members, self.non_members])
        inside = sources.named_source(self, self.members, self.round)
        outside = sources.named_source(self, self.non_members, self.non_members_round)
        assert inside is not None and outside is not None and self.target is not None
        params = params.changed(reference=self.reference is not None)
        ids = [self.target, *([] if self.reference is None else [self.reference])]
        records = preparation.find_models(ids, is_first_served=params.endpoint is not None)
        models = [Model(record.id, record.path) for record in records]
        if self.reference is not None and len(models) < 2:
            raise UsageError(f"{self.reference} is both --target and --reference. Choose two models.")
        inputs = read_documents(inside, outside, models, params, limit=self.limit, seed=preparation.seed)
        params = params.probed(models[0], preparation.say)
        files = sources.source_files("members", inside) | sources.source_files("non-members", outside)
        return Reading(params, inputs, sources.source_name(inside), files, records)
