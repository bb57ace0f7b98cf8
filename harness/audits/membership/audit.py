"""The membership audit: scores of members and non-members under a target, and of their words alone."""

import numpy as np

from harness.audits.membership.findings import MEASURES, membership_findings
from harness.audits.membership.inputs import Documents
from harness.audits.membership.params import MODEL_SCORES, MembershipParams, Score
from harness.audits.membership.rows import REFERENCE, SCORES, TABLES, WORD_SHIFT, WORDS
from harness.audits.membership.scores import loss_score, min_k_plus_score, min_k_score, recall_score, zlib_score
from harness.audits.membership.token_likelihoods import LocalModel, TokenLikelihoods, token_likelihoods
from harness.audits.membership.word_shift import word_shift
from harness.core.arrays import Floats
from harness.core.audit import Audit, AuditContext, AuditInputs, RowsOf
from harness.core.findings import Findings

_DOCUMENTS = 64  # per batch
_FEWEST_SHOT_TOKENS = 16
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

    def run(self, context: AuditContext) -> None:
        documents = Documents.from_inputs(context.inputs)
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

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return membership_findings(self.params, Documents.from_inputs(inputs), rows, self.params.model_names(models))

    def _score(self, context: AuditContext, documents: Documents) -> None:
        longest = max(map(len, documents.tokens))
        with token_likelihoods(self.params, context) as source:
            self._score_with(source, context, documents, longest)

    def _score_with(self, source: TokenLikelihoods, context: AuditContext, documents: Documents, longest: int) -> None:
        # The bos token comes before the shots, and an endpoint also generates a token.
        room = max(0, (source.context_length() or 1 << 20) - longest - 2)
        shots = documents.shots[max(0, len(documents.shots) - room) :]
        done = np.asarray(context.rows(SCORES.name)["document"], np.int64)
        if len(shots) < _FEWEST_SHOT_TOKENS:
            if self.params.shots and not len(done):
                why = (
                    f"the context has no room for {_FEWEST_SHOT_TOKENS} tokens before the text"
                    if len(documents.shots)
                    else "there are fewer than 10 non-members"
                )
                context.warn(f"ReCaLL was left out: {why}.")
            shots = shots[:0]
        scored = len(done)
        for numbers, alone, after in source.statistics(
            _SCORES_STAGE, documents.tokens, shots, size=_DOCUMENTS, done=done
        ):
            scores = np.array(
                [
                    self._scores_of(alone[row], documents.texts[number], None if after is None else after[row][0])
                    for row, number in enumerate(numbers.tolist())
                ]
            )  # [documents, scores]
            columns = {score.value: scores[:, place] for place, score in enumerate(MODEL_SCORES)}
            context.emit(SCORES.name, document=numbers, **columns)
            scored += len(numbers)
            context.figure("documents scored", float(scored), of=len(documents.tokens))

    def _scores_of(self, statistics: Floats, text: str, after: Floats | None) -> list[float]:
        """Return the scores of one document in the order of `MODEL_SCORES`, NaN for those that are not known.

        statistics: [3, tokens]. after: the log-probabilities of its tokens after the shots, [tokens].
        """
        logprobs, means, deviations = statistics
        found = {
            Score.LOSS: loss_score(logprobs),
            Score.ZLIB: zlib_score(logprobs, text),
            Score.MIN_K: min_k_score(logprobs, self.params.k),
            Score.MIN_K_PLUS: min_k_plus_score(logprobs, means, deviations, self.params.k),
        }
        if after is not None:
            found[Score.RECALL] = recall_score(logprobs, after)
        return [found.get(score, np.nan) for score in MODEL_SCORES]

    def _score_reference(self, context: AuditContext, documents: Documents) -> None:
        source = LocalModel(context, 1)
        nothing = np.empty(0, np.int64)
        for numbers, alone, _ in source.statistics(
            _REFERENCE_STAGE, documents.tokens, nothing, size=_DOCUMENTS, done=nothing
        ):
            context.emit(REFERENCE.name, document=numbers, loss=[float(each[0].mean()) for each in alone])
