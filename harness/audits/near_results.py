"""Near-verbatim probabilities in an audit: parameters, rows, and what is reported. It loads no torch."""

import math
from collections.abc import Sequence

import numpy as np

from harness.audits.near_params import CHARACTER_EDITS, NEAR_BATCH, NearParams
from harness.audits.report import grouped, share_of
from harness.core.arrays import Ints, Tokens
from harness.core.audit import AuditContext, RowsOf, last_rows
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable
from harness.core.policy import Policy
from harness.core.rows import Kind, table
from harness.core.tokenizers import Tokenizer

NEAR_DEFINITION = (
    "a suffix that differs from the given one by at most the given number of insertions, deletions and substitutions; "
    "its probability is a lower bound, the sum over likely such suffixes"
)
NEAR = table(
    "near", model=Kind.INTEGER, text=Kind.INTEGER, sequence=Kind.INTEGER, tokens=Kind.REALS, characters=Kind.REALS
)
"""The probability of a suffix within 0, 1, … token edits, and within each of `CHARACTER_EDITS`."""
OVER = 0.001
TOKEN_EDITS, CHARACTER_EDITS_CASE = "token edits", "character edits"
NEAR_MEAN = Measure(
    "near_mean",
    "mean probability",
    "the mean probability of a suffix within this number of edits, a lower bound",
    at="≤ {} edits",
    at_name="edits",
)
NEAR_OVER = Measure(
    "near_over_1_in_1000",
    "> 1/1000",
    "the share of sequences with a probability above 1/1000 within this number of edits, a lower bound",
    at="≤ {} edits",
    at_name="edits",
)
NEAR_MEASURES = (NEAR_MEAN, NEAR_OVER)
NEAR_SECTIONS = grouped("near-verbatim", "Near-verbatim suffixes (lower bounds), {scheme}", *NEAR_MEASURES)


def near_stage(model: int) -> str:
    """Return the name of the stage in which a model is measured."""
    return f"model {model + 1}, near-verbatim"


def measure_near(
    context: AuditContext,
    params: NearParams,
    policy: Policy,
    model: int,
    tokenizer: Tokenizer | None,
    pairs: tuple[Tokens, Tokens],
    keys: tuple[Ints, Ints],
) -> None:
    """Bound the probabilities of suffixes near those of n sequences under a model, and emit them.

    pairs: the prefixes and the suffixes, [n, tokens] each.
    keys: the text and the number of each sequence, [n] each.
    """
    if not len(keys[0]):
        return
    from harness.audits.near_suffixes import near_probabilities  # loads torch

    # The exact probabilities are a second call.
    stage, weight = near_stage(model), params.near_weight(len(keys[0]))
    for batch in context.batches(stage, len(keys[0]), size=NEAR_BATCH, weight=weight, calls=(weight, 1.0)):
        prefixes, suffixes = (part[batch.items] for part in pairs)
        tokens, characters = near_probabilities(context.target(model), prefixes, suffixes, policy, params, tokenizer)
        text, sequence = (part[batch.items] for part in keys)
        context.emit(NEAR.name, model=model, text=text, sequence=sequence, tokens=tokens, characters=characters)


def near_rows(rows: RowsOf, model: int, name: str, *, side: str = "", texts: Sequence[int] = (0,)) -> list[MeasureRow]:
    """Return the near-verbatim probabilities of the sequences of `texts` under a model, empty if none was measured.

    model, name: its number and its name.
    side: what the texts are, such as `control`.
    """
    near = last_rows(rows(NEAR.name), "text", "sequence", model=model)
    is_of_texts = np.isin(near["text"], texts)
    number, values = int(is_of_texts.sum()), list[MeasureRow]()
    if not number:
        return values
    for case, column, edits in ((TOKEN_EDITS, "tokens", None), (CHARACTER_EDITS_CASE, "characters", CHARACTER_EDITS)):
        probabilities = near[column][is_of_texts]  # [sequences, numbers of edits]
        for place, at in enumerate(edits or range(probabilities.shape[1])):
            mean = float(probabilities[:, place].mean())
            if math.isnan(mean):  # a target without a tokenizer has no characters
                continue
            over = share_of(int((probabilities[:, place] > OVER).sum()), number)
            values.append(MeasureRow(NEAR_MEAN, Estimate(mean, of=number), name, side, case, at))
            values.append(MeasureRow(NEAR_OVER, over, name, side, case, at))
    return values


def count_near(values: MeasureTable) -> int:
    """Return the number of sequences whose near-verbatim probability was measured, under all models."""
    return sum(row.estimate.of for row in values.select((NEAR_OVER, 0), case=TOKEN_EDITS))
