"""The most memorized paragraphs as passages, what is the same in suffix and completion marked."""

import numpy as np

from harness.audits.sequence.material import Material
from harness.audits.sequence.measures import Completed
from harness.audits.sequence.similarity import marked
from harness.audits.sequence.thresholds import TITLES, Threshold
from harness.core.findings import Passage, Stretch
from harness.core.text import pluralize

MOST = 10
_LEAST_RUN = 5
"""Words: as many as the shortest exact start has."""


def memorized_passages(material: Material, done: Completed) -> list[Passage]:
    """At most ten paragraphs of the corpus, the longest verbatim run first; none with a run below 5 words."""
    measured = done.own
    candidates = np.flatnonzero(~material.is_control & measured.is_there & (measured.run_words >= _LEAST_RUN))
    order = np.lexsort((candidates, -measured.run_characters[candidates], -measured.run_words[candidates]))
    return [_passage(material, done, int(paragraph)) for paragraph in candidates[order[:MOST]]]


def _passage(material: Material, done: Completed, paragraph: int) -> Passage:
    suffix, completion = material.suffixes[paragraph], done.texts[paragraph]
    passed = [TITLES[threshold] for threshold in Threshold if done.own.verdicts[threshold][paragraph] == 1]
    run = pluralize(int(done.own.run_words[paragraph]), "word")
    title = f"{material.documents[int(material.document[paragraph])]}, paragraph {int(material.number[paragraph])}"
    return Passage(
        f"{title}: {run} in a row; passes {', '.join(passed) or 'no threshold'}",
        (
            ("prompt", [Stretch(material.prompts[paragraph])]),
            ("what followed", marked(suffix, completion)),
            ("what the model wrote", marked(completion, suffix)),
        ),
    )
