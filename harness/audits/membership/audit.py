"""The membership audit: scores of members and non-members under a target, and of their words alone."""

import numpy as np

from harness.audits.likelihoods import NO_TOKENS, LocalModels, likelihoods
from harness.audits.membership.findings import AUC, MEASURES, membership_findings
from harness.audits.membership.inputs import (
    REFERENCE,
    SCORES,
    TABLES,
    WORD_SHIFT,
    WORDS,
    Documents,
    MembershipParams,
)
from harness.audits.membership.scores import MODEL_SCORES, scores_of
from harness.audits.membership.words import word_shift
from harness.core.arrays import Ints
from harness.core.audit import Audit, AuditContext, RowsOf
from harness.core.findings import Findings

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
    live = (AUC,)
    inputs_type = Documents

    def run(self, context: AuditContext) -> None:
        documents: Documents = context.inputs
        number = len(documents.tokens)
        context.announce(_WORDS_STAGE, 1, weight=number / 100)
        context.announce(_SCORES_STAGE, number)
        if self.params.reference:
            context.announce(_REFERENCE_STAGE, number)
        for _ in context.batches(_WORDS_STAGE, 1, size=1, weight=number / 100):
            shift = word_shift(documents.texts, documents.is_member, documents.clusters(), seed=context.seed)
            context.emit(WORDS.name, document=np.arange(number), score=shift.scores)
            context.emit(WORD_SHIFT.name, p_value=shift.p_value)
        self._score(context, documents)
        if self.params.reference:
            source = LocalModels(context)
            for numbers, alone, _ in source.statistics(1, _REFERENCE_STAGE, documents.tokens, NO_TOKENS):
                context.emit(REFERENCE.name, document=numbers, loss=[float(logprobs.mean()) for logprobs, *_ in alone])

    def findings(self, inputs: Documents, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return membership_findings(self.params, inputs, rows, self.params.model_names(models))

    def _score(self, context: AuditContext, documents: Documents) -> None:
        done = np.asarray(context.rows(SCORES.name)["document"], np.int64)
        with likelihoods(self.params, context) as source:
            shots = self._shots(source.context_length(), context, documents, is_begun=len(done) > 0)
            for numbers, alone, after in source.statistics(0, _SCORES_STAGE, documents.tokens, shots, done=done):
                scores = [
                    scores_of(statistics, after_shots, documents.texts[number], self.params.k)
                    for number, statistics, after_shots in zip(numbers.tolist(), alone, after, strict=True)
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
        return NO_TOKENS
