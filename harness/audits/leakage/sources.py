"""What the audit was pointed at: files, a round, the demo's names or a corpus, and the targets that go with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.audits.leakage.inputs import (
    Model,
    Size,
    pairs_of_demo_names,
    pairs_of_file,
    pairs_of_round,
    uncut_documents,
)
from harness.audits.leakage.pairs import Pairs
from harness.audits.leakage.params import LeakageParams
from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError
from harness.core.rounds import Round, load_round
from harness.engine.demo import SIZES as DEMO_SIZES

_DEMO_LENGTHS = "10,20,30,40,50"


@dataclass(frozen=True)
class Asked:
    """One source of pairs, the others None or False; tagger: the model that marks a corpus's entities."""

    pairs: Path | None
    round: Round | None
    names: bool
    corpus: Path | None
    field: str
    tagger: str | None
    size: Size

    @classmethod
    def checked(
        cls,
        *,
        pairs: Path | None,
        round_name: str | None,
        names: bool,
        corpus: Path | None,
        field: str,
        tagger: str | None,
        size: Size,
    ) -> "Asked":
        """What was asked for. Raises HarnessError unless it is one source, with a tagger where it is a corpus."""
        given = [pairs is not None, round_name is not None, names, corpus is not None]
        if sum(given) != 1:
            what = "no pairs are named" if not any(given) else "pairs come from one source"
            raise HarnessError(f"{what}: give a file of pairs, --round, --names, or --corpus with --tagger.")
        if (corpus is None) != (tagger is None):
            raise HarnessError(
                "--corpus and --tagger go together: a corpus is cut at the entities that a tagger marks."
            )
        round_ = None if round_name is None else load_round(round_name)
        return cls(pairs, round_, names, corpus, field, tagger, size)

    @property
    def subject(self) -> str:
        """In a word, for the audit's id."""
        if self.names:
            return "names"
        return self.round.name if self.round is not None else str((self.pairs or self.corpus or Path()).stem)

    @property
    def files(self) -> dict[str, Path]:
        """What the user named on disk, by option. Raises HarnessError for what is not there."""
        named = {"pairs": self.pairs, "corpus": self.corpus}
        for path in named.values():
            if path is not None and not path.exists():
                raise HarnessError(f"{path}: no such file or folder.")
        return {name: path for name, path in named.items() if path is not None}

    def prefix_lengths(self, given: str) -> list[str]:
        """The lengths to sweep over; the demo's names are swept over 10 to 50 unless others are asked for."""
        chosen = given or (_DEMO_LENGTHS if self.names and self.size.prefix is None else "")
        return chosen.replace(",", " ").split()


def targets_of(named: Sequence[str] | None, revision: str, asked: Asked) -> tuple[list[str], str]:
    """The targets' names and their revision, the tagger last where there is one.

    Where none is named, a round's own, or all sizes of the demo target, smallest first. Raises HarnessError for files
    without a target.
    """
    ids = list(dict.fromkeys(named or []))
    if not ids and asked.round is not None:
        ids, revision = [asked.round.target], asked.round.revision
    elif not ids and asked.names:
        ids = [size.name for size in reversed(DEMO_SIZES)]
    if not ids:
        raise HarnessError("no target is named: --target says which model is asked for its probabilities.")
    if asked.tagger in ids:
        raise HarnessError(f"{asked.tagger} is named as a target and as the tagger; it can be one of them.")
    return [*ids, *([asked.tagger] if asked.tagger is not None else [])], revision


def inputs_of(asked: Asked, params: LeakageParams, models: Mapping[str, Path], *, limit: int, seed: int) -> AuditInputs:
    """The pairs, read and checked. models: each one's folder by its name, the tagger's last.

    Raises HarnessError for what cannot be read, and for a prefix length that the prefixes do not have.
    """
    found = _pairs_of(asked, params, [Model(*each) for each in models.items()], limit=limit, seed=seed)
    longest = max(params.prefix_lengths, default=0)
    if longest > found.prefix_length:
        raise HarnessError(
            f"--prefix-lengths: {longest} tokens are asked for, and the prefixes have {found.prefix_length}; "
            "--prefix-tokens says how many they have where they are cut from longer ones."
        )
    return found.inputs


def _pairs_of(asked: Asked, params: LeakageParams, targets: Sequence[Model], *, limit: int, seed: int) -> Pairs:
    if asked.corpus is not None:
        return uncut_documents(asked.corpus, asked.field, targets[:-1], asked.size, params.entity_tokens)
    if asked.names:
        return pairs_of_demo_names(targets, asked.size, limit=limit, seed=seed)
    if asked.round is not None:
        return pairs_of_round(asked.round, targets, asked.size, limit=limit, seed=seed)
    assert asked.pairs is not None
    return pairs_of_file(asked.pairs, targets, asked.size, limit=limit, seed=seed)
