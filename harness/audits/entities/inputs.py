"""Read the inputs of an entities audit: names in four lists, prompts, and notes on what was skipped."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.audits.entities.names import (
    conll_names,
    drop_common,
    read_names,
    select_from_source,
    split_halves,
    wikidata_names,
)
from harness.audits.entities.prompt import read_prompts
from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError

PARTS = ("in_dev", "in_test", "out_dev", "out_test")
"""The lists of names, in the order of a row of confidences."""
_FEWEST_NAMES = 4
"""An interval needs two names of each list in each half."""


def read_inputs(
    *,
    in_train: Path | None = None,
    out_train: Path | None = None,
    conll: Sequence[Path] = (),
    wikidata: Path | None = None,
    prompts: Path | None = None,
    seed: int = 0,
) -> AuditInputs:
    """Read two lists of names, or a corpus and a Wikidata result to select them from, and prompts.

    prompts: None for the shipped ones. Raises HarnessError if a file cannot be used or too few names are left.
    """
    if in_train is not None and out_train is not None and not conll and wikidata is None:
        (inside, inside_notes), (outside, outside_notes) = read_names(in_train), read_names(out_train)
        lists = drop_common(inside, outside)
        lists = lists._replace(notes=[*inside_notes, *outside_notes, *lists.notes])
    elif conll and wikidata is not None and in_train is None and out_train is None:
        lists = select_from_source(conll_names(conll), wikidata_names(wikidata), seed)
    else:
        raise HarnessError(
            "names need either two lists or a corpus and a query. Give --in-train and --out-train, or --conll and "
            "--wikidata."
        )
    for what, names in (("the model was trained on", lists.inside), ("the model was not trained on", lists.outside)):
        if len(names) < _FEWEST_NAMES:
            raise HarnessError(f"{len(names)} names that {what} are left. Each list needs at least {_FEWEST_NAMES}.")
    texts = dict(zip(PARTS, (*split_halves(lists.inside, seed, 1), *split_halves(lists.outside, seed, 2)), strict=True))
    read, notes = read_prompts(prompts)
    texts |= {
        "prompts": [prompt.text for prompt in read],
        "kinds": [prompt.kind for prompt in read],
        "notes": [*lists.notes, *notes],
    }
    return AuditInputs(texts, {"seed": np.array(seed), "has_own_prompts": np.array(prompts is not None)})
