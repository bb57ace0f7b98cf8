"""The membership audit: scores of members and non-members under a target, and of their words alone."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.audits.likelihoods import local_or_served
from harness.audits.membership.findings import AUC, MEASURES, membership_findings
from harness.audits.membership.inputs import (
    MODEL_SCORES,
    REFERENCE,
    SCORES,
    TABLES,
    WORD_SHIFT,
    WORDS,
    Documents,
    MembershipParams,
    Score,
)
from harness.audits.membership.scores import loss_score, min_k_plus_score, min_k_score, recall_score, zlib_score
from harness.audits.membership.words import word_shift
from harness.core.arrays import Floats, Ints, Tokens
from harness.core.audit import Audit, AuditContext, RowsOf
from harness.core.findings import Findings

if TYPE_CHECKING:  # both load torch, which `harness audit membership --help` does not need
    from torch import Tensor

    from harness.engine.branches import Logits
    from harness.engine.target import Target

_DOCUMENTS = 64  # per batch
_FEWEST_SHOT_TOKENS = 16
_NO_TOKENS = np.empty(0, np.int64)
_WORDS_STAGE, _SCORES_STAGE, _REFERENCE_STAGE = "words", "scores", "reference"


class MembershipAudit(Audit[MembershipParams]):
    """Membership inference: can members be told from non-members?"""

    name = "membership"
    title = "Membership inference"
    reference = (
        "Yeom et al. 2018 (loss); Carlini et al. 2021 (zlib and reference ratio); Shi et al. 2024 (Min-K %); Zhang et "
        "al. 2025 (Min-K %++); Xie et al. 2024 (ReCaLL); Meeus et al. 2024 and Das et al. 2025 (word shift)"
    )
    tables = TABLES
    measures = MEASURES
    live = (AUC,)
    inputs_type = Documents

    def run(self, context: AuditContext) -> None:
        documents: Documents = context.inputs
        number = len(documents.tokens)
        context.announce(_SCORES_STAGE, number)
        if self.params.reference:
            context.announce(_REFERENCE_STAGE, number)
        for _ in context.batches(_WORDS_STAGE, 1, size=1, weight=number / 100):
            shift = word_shift(documents.texts, documents.is_member, documents.clusters(), seed=context.seed)
            context.emit(WORDS.name, document=np.arange(number), score=shift.scores)
            context.emit(WORD_SHIFT.name, p_value=[shift.p_value])
        self._score(context, documents)
        if self.params.reference:
            self._score_reference(context, documents)

    def findings(self, inputs: Documents, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return membership_findings(self.params, inputs, rows, self.params.model_names(models))

    def _score(self, context: AuditContext, documents: Documents) -> None:
        done = np.asarray(context.rows(SCORES.name)["document"], np.int64)
        with local_or_served(LocalModel(context), self.params, context) as source:
            shots = self._shots(source.context_length(), context, documents, is_begun=len(done) > 0)
            for numbers, alone, after in source.statistics(
                _SCORES_STAGE, documents.tokens, shots, size=_DOCUMENTS, done=done
            ):
                scores = [
                    self._scores_of(alone[row], documents.texts[number], None if after is None else after[row][0])
                    for row, number in enumerate(numbers.tolist())
                ]
                columns = {score.value: [of.get(score, np.nan) for of in scores] for score in MODEL_SCORES}
                context.emit(SCORES.name, document=numbers, **columns)

    def _shots(
        self, context_length: int | None, context: AuditContext, documents: Documents, *, is_begun: bool
    ) -> Ints:
        """Return as many tokens of non-members as fit before each text, none if there is too little room."""
        # The bos token comes before the shots, and an endpoint also generates a token.
        room = max(0, (context_length or 1 << 20) - max(map(len, documents.tokens)) - 2)
        shots = documents.shots[max(0, len(documents.shots) - room) :]
        if len(shots) >= _FEWEST_SHOT_TOKENS:
            return shots
        if self.params.shots and not is_begun:
            reason = (
                f"the context has no room for {_FEWEST_SHOT_TOKENS} tokens before the text"
                if len(documents.shots)
                else "there are fewer than 10 non-members"
            )
            context.warn(f"ReCaLL was left out: {reason}.")
        return _NO_TOKENS

    def _scores_of(self, statistics: Floats, text: str, after: Floats | None) -> dict[Score, float]:
        """Return the known scores of one document.

        statistics: [3, tokens].
        after: the log-probabilities of its tokens after the shots, [tokens].
        """
        logprobs, means, deviations = statistics
        scores = {
            Score.LOSS: loss_score(logprobs),
            Score.ZLIB: zlib_score(logprobs, text),
            Score.MIN_K: min_k_score(logprobs, self.params.k),
            Score.MIN_K_PLUS: min_k_plus_score(logprobs, means, deviations, self.params.k),
        }
        if after is not None:
            scores[Score.RECALL] = recall_score(logprobs, after)
        return scores

    def _score_reference(self, context: AuditContext, documents: Documents) -> None:
        statistics = LocalModel(context, 1).statistics
        for numbers, alone, _ in statistics(_REFERENCE_STAGE, documents.tokens, _NO_TOKENS, size=_DOCUMENTS):
            context.emit(REFERENCE.name, document=numbers, loss=[float(logprobs.mean()) for logprobs, *_ in alone])


class LocalModel:
    """Model `number` of an audit on this machine. A served model has the same methods."""

    def __init__(self, context: AuditContext, number: int = 0) -> None:
        self._context = context
        self._number = number

    def statistics(
        self, stage: str, documents: Sequence[Ints], shots: Ints, *, size: int, done: Ints = _NO_TOKENS
    ) -> Iterator[tuple[Ints, list[Floats], list[Floats] | None]]:
        """Yield numbers of documents with the statistics of each, alone and after `shots` (None without shots).

        The statistics are of a document without its first token, [3, tokens - 1], as in `token_statistics`. Each yield
        is a batch of a stage, of `size` documents. done: documents with rows, which only an endpoint needs. An endpoint
        returns log-probabilities alone: the mean and the deviation are NaN, and so are those of a text that it cannot
        measure.
        """
        for batch in self._context.batches(stage, len(documents), size=size):
            texts = [documents[number] for number in batch.items]
            yield batch.items, self._measure(texts, _NO_TOKENS), self._measure(texts, shots) if len(shots) else None

    def _measure(self, texts: Sequence[Ints], after: Ints) -> list[Floats]:
        rows, lengths = padded(list(texts))
        before = np.concatenate([np.tile(after, (len(rows), 1)), rows[:, :1]], axis=1).astype(np.int64)
        measured = token_statistics(self._context.target(self._number), before, rows[:, 1:])
        return [measured[:, row, : length - 1] for row, length in enumerate(lengths.tolist())]

    def context_length(self) -> int | None:
        """Return the number of tokens that the model attends to, None if it is unknown."""
        return self._context.target(self._number).context_length


def token_statistics(target: "Target", prefixes: Tokens, texts: Tokens) -> Floats:
    """Return statistics of texts [n, length] after prefixes [n, any], [3, n, length].

    They are the log-probability of each token, and the mean and the standard deviation of the log-probability of a
    token that is drawn from the model's distribution there, all in nats. Raises HarnessError as `Target.score` does.
    """
    from harness.engine.likelihood import measure_suffixes
    from harness.engine.memory import non_finite_error

    target.check_pairs(prefixes, texts)
    statistics = target.run_within_memory(
        lambda rows_at_once: measure_suffixes(
            target.runner,
            prefixes,
            texts,
            lambda logits, targets, before: _statistics(logits, targets),
            figures=3,
            rows_at_once=rows_at_once,
            on_step=target.report_step,
        )
    )[:, :, 1:]
    if np.isnan(statistics).any():
        raise non_finite_error("the target returned NaN", target.dtype)
    return statistics


def padded(texts: list[Ints]) -> tuple[Ints, Ints]:
    """Return the texts as rows of equal length [n, longest], filled with token 0, and their lengths [n].

    A model that reads from left to right is not influenced by what follows.
    """
    lengths = np.array([len(text) for text in texts], np.int64)
    rows = np.zeros((len(texts), int(lengths.max(initial=0))), np.int64)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return rows, lengths


def _statistics(logits: "Logits", targets: "Tensor") -> "Tensor":
    """Return the statistics of targets [n] under the logits of n positions, [3, n]."""
    import torch

    from harness.engine.shaping import row_blocks

    scores = logits.scores  # [n, vocabulary]
    total = logits.total  # [n]
    means, deviations = [], []
    for part, part_total in zip(row_blocks(scores), row_blocks(total.unsqueeze(1)), strict=True):
        logprobs = part - part_total
        masses = logprobs.exp()
        # The log-probability of an impossible token is -inf and contributes nothing, but 0 * inf is NaN.
        logprobs = torch.where(logprobs.isneginf(), 0, logprobs)
        mean = torch.linalg.vecdot(masses, logprobs)
        means.append(mean)
        deviations.append(torch.linalg.vecdot(masses, (logprobs - mean.unsqueeze(1)) ** 2).clamp(min=0).sqrt())
    of_target = scores.gather(1, targets.unsqueeze(1)).squeeze(1) - total
    return torch.stack([of_target, torch.cat(means), torch.cat(deviations)])
