"""Read the inputs of an entities audit: prompts, and names from lists, CoNLL-2003 corpora and Wikidata results.

A prompt is a sentence with one MASK in the place of a name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.audits.entities.names import conll_names, drop_common, read_names, select_from_source, wikidata_names
from harness.audits.entities.prompts import HAND_WRITTEN, MASK, OWN_KIND, Prompt, read_prompts
from harness.audits.models import Model, first_token_notes
from harness.audits.options import AuditParams, Preparation, Reading, Subject
from harness.audits.sources import target_option
from harness.core.audit import Inputs
from harness.core.errors import HarnessError
from harness.core.options import option

PARTS = ("in_dev", "in_test", "out_dev", "out_test")
"""The lists of names, in the order of a row of confidences."""
_FEWEST_NAMES = 4
"""An interval needs two names of each list in each half."""


@dataclass(frozen=True)
class Names(Inputs):
    """The names of an audit, and the prompts to ask about them."""

    in_dev: Sequence[str]
    in_test: Sequence[str]
    out_dev: Sequence[str]
    out_test: Sequence[str]
    prompts: Sequence[str]
    kinds: Sequence[str]
    """The sentence type of each prompt."""
    notes: Sequence[str]
    """Sentences about skipped input."""
    seed: int
    has_own_prompts: bool
    """True if the prompts are the user's."""

    @property
    def parts(self) -> dict[str, Sequence[str]]:
        """The lists of names, in the order of a row of confidences."""
        return {part: getattr(self, part) for part in PARTS}

    @property
    def all(self) -> list[str]:
        """The names in the order of a row of confidences."""
        return [name for names in self.parts.values() for name in names]

    @cached_property
    def measured_prompts(self) -> list[Prompt]:
        """Every prompt that is measured: those of the inputs, the hand-written ones, and the name alone."""
        prompts = map(Prompt, self.prompts, self.kinds)
        return [*prompts, *(Prompt(text, OWN_KIND) for text in (*HAND_WRITTEN, MASK))]


def split_halves(names: Sequence[str], seed: int, part: int) -> tuple[list[str], list[str]]:
    """Return dev and test halves of a list, a pure function of the list, the seed and the list's number `part`.

    Dev is the larger half of an odd number, as in the source.
    """
    order = np.random.default_rng([seed, part]).permutation(len(names))
    half = (len(names) + 1) // 2
    return [names[place] for place in order[:half]], [names[place] for place in order[half:]]


def read_inputs(
    *,
    in_train: Path | None = None,
    out_train: Path | None = None,
    conll: Sequence[Path] = (),
    wikidata: Path | None = None,
    prompts: Path | None = None,
    seed: int = 0,
) -> Names:
    """Read two lists of names, or a corpus and a Wikidata result to select them from, and prompts.

    prompts: None for the built-in ones. Raises HarnessError if a file cannot be used or too few names are left.
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
    for was, names in (("was", lists.inside), ("was not", lists.outside)):
        if len(names) < _FEWEST_NAMES:
            raise HarnessError(
                f"{len(names)} names that the model {was} trained on are usable. Add names: each list needs "
                f"{_FEWEST_NAMES}."
            )
    prompts_read, notes = read_prompts(prompts)
    return Names(
        *split_halves(lists.inside, seed, 1),
        *split_halves(lists.outside, seed, 2),
        prompts=[prompt.text for prompt in prompts_read],
        kinds=[prompt.kind for prompt in prompts_read],
        notes=[*lists.notes, *notes],
        seed=seed,
        has_own_prompts=prompts is not None,
    )


class EntitiesSubject(Subject):
    """Compare a NER model's confidence in trained and other names."""

    NEEDS = (("target",), ("in_train", "conll"), ("out_train", "wikidata"))

    target: tuple[str, ...] = target_option()
    in_train: Path | None = option(
        None, metavar="FILE", description="File of names in the training data, as text or TSV."
    )
    out_train: Path | None = option(
        None, metavar="FILE", description="File of names that are not in the training data."
    )
    conll: tuple[Path, ...] = option(
        (), metavar="FILE", description="Training corpus in CoNLL-2003 format; repeatable."
    )
    wikidata: Path | None = option(None, metavar="FILE", description="SPARQL result with names, for --conll.")
    prompts: Path | None = option(
        None, metavar="FILE", unset="400 built-in ones", description="File of sentences with one MASK each."
    )

    def read(self, params: AuditParams, preparation: Preparation) -> Reading:
        """Read names and prompts. Raises HarnessError if a file cannot be used."""
        files = {
            "in_train": self.in_train,
            "out_train": self.out_train,
            "wikidata": self.wikidata,
            "prompts": self.prompts,
        }
        inputs = read_inputs(**files, conll=self.conll, seed=preparation.seed)
        paths = files | {f"conll {number}": path for number, path in enumerate(self.conll, 1)}
        record = {option.replace("_", "-"): path for option, path in paths.items() if path is not None}
        name = (self.in_train or self.wikidata or Path("names")).stem
        models = preparation.find_models(self.target)
        notes = [*inputs.notes, *first_token_notes([Model(record.id, record.path) for record in models])]
        return Reading(params, replace(inputs, notes=notes), name, record, models)
