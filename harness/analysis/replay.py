"""A run's guesses replayed in the order of their arrival: what the submission scored, on any part, at any moment."""

from collections.abc import Sequence

from harness.core.arrays import Tokens
from harness.core.comparison import Part
from harness.core.live_score import LiveScore
from harness.core.scoring import recall_at_errors
from harness.jobs.attack.reader import GuessReader
from harness.jobs.attack.spec import AttackSpec

_ROWS_AT_ONCE = 50_000


def recall_after_guesses(
    counts: Sequence[int], part: Part, *, spec: AttackSpec, reader: GuessReader, answers: Tokens
) -> list[float]:
    """The recall on `part` of the submission that the run's first `counts` guesses make, ascending, void ones counted.

    `answers` [examples, suffix length]. Held are the rows of the submission alone: where a score that stands in it
    falls later, a guess that it had kept out does not come back.
    """
    rules, repeated = spec.round, reader.repeated_batches()
    standing = LiveScore(
        answers,
        examples=spec.examples,
        error_cap=spec.error_cap,
        row_cap=rules.row_cap,
        per_example=spec.attack.guesses_per_example,
    )
    recalls: list[float] = []
    after = 0
    for count in counts:
        while after < count:
            arrived = reader.arrivals(
                after=after,
                limit=min(_ROWS_AT_ONCE, count - after),
            )
            if not len(arrived.seq):
                break
            after = int(arrived.seq[-1])
            standing.add(arrived.guesses.part(arrived.valid_rows(repeated)))
        is_correct, ids = part.walk(standing.walk())
        recalls.append(recall_at_errors(is_correct, ids, cap=part.cap, examples=len(part)))
    return recalls
