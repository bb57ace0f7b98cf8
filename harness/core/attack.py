"""The base classes for attack authors: an attack, its parameters, and the context it runs in."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, get_args

from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, Field

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.examples import Training
from harness.core.guesses import Guesses

if TYPE_CHECKING:
    from harness.engine.target import Target
    from harness.rankers import RankerName

__all__ = ["Attack", "Batch", "Context", "Field", "Params"]

GUESS_STAGE = "guess"
"""The stage of a loop over batches that names none."""


class Params(BaseModel, frozen=True, extra="forbid"):
    """The parameters of an attack, declared once for the command line, the form, the record and the documentation."""


ParamsType = TypeVar("ParamsType", bound=Params)


def params_type_of(job: type) -> type[Params]:
    """Return the parameter class given to a generic `job` class, or `Params` if none was given."""
    for ancestor in job.__mro__:
        for base in getattr(ancestor, "__orig_bases__", ()):
            for argument in get_args(base):
                if isinstance(argument, type) and issubclass(argument, Params):
                    return argument
    return Params


@dataclass(frozen=True)
class Batch:
    """A fixed list of examples and trials: the unit of progress, commit and resume.

    ids: [n] int64.
    prefixes: [n, prefix length].
    trials: requested draws per prefix.
    trials_before: draws per prefix in earlier passes of the stage.
    seed: differs between passes and stages and is equal in all batches of one pass, so that no draw depends on how
    examples are grouped.
    """

    ids: Ints
    prefixes: Tokens
    trials: int
    seed: int
    trials_before: int = 0

    def trial(self, first: Ints) -> Ints:
        """Return the trials of sampled rows, [rows] int64, from 1 over the run; `first` is `Samples.first`."""
        return self.trials_before + first + 1


class Context(Protocol):
    """The round, the target and the durable progress of one run, as an attack accesses them."""

    @property
    def ids(self) -> Ints:
        """The ids of the attacked examples, [examples] int64."""

    @property
    def prefixes(self) -> Tokens:
        """The attacked prefixes, [examples, prefix length]."""

    @property
    def suffix_length(self) -> int:
        """The number of tokens of a suffix."""

    @property
    def vocabulary(self) -> int:
        """The size of the vocabulary; token ids are in 0..vocabulary-1."""

    @property
    def seed(self) -> int:
        """The seed of the run, from which the seed of each batch is derived."""

    @property
    def target(self) -> "Target":
        """The model under attack, loaded on first access. Raises HarnessError if the attack declares no target."""

    @property
    def reference(self) -> "Target":
        """The reference model, loaded on first access. Raises HarnessError if the run has none.

        It predicts the same tokens as the target, and usually was not trained on the round's text.
        """

    @property
    def train(self) -> Training:
        """The training examples of the round. Raises HarnessError if the round has none."""

    def rank(
        self,
        prefixes: Tokens,
        suffixes: Tokens,
        ranker: "RankerName",
        *,
        token_logprobs: Floats | None = None,
        last_prefix_logprob: Floats | None = None,
    ) -> Floats:
        """Return the scores of suffixes [rows, length] after prefixes [rows, prefix length] by a ranker, [rows].

        If decoding has computed token_logprobs [rows, length] and last_prefix_logprob [rows] under the target, pass
        them to save a forward pass. Rankers that need margins or ranks (high_confidence, greedy_share) compute the pass
        in any case. Raises HarnessError if the ranker needs a reference model or the target's tokenizer, and the run
        has none.
        """

    def announce(self, stage: str, trials: int = 1, *, over: Training | None = None, weight: float = 1.0) -> None:
        """Announce a stage, so that progress and ETA include it before it begins.

        An attack with several loops over batches announces all of them, in their order, before its first batch.
        `trials` and `over` are the arguments of `batches` in the loop; `trials` = 0 cancels a stage that will not run.
        `weight` is the time of one draw relative to the other stages. The ETA uses it until the stage, or one of equal
        weight, is measured.
        """

    def batches(
        self,
        trials: int = 1,
        *,
        stage: str = GUESS_STAGE,
        over: Training | None = None,
        size: int | None = None,
        in_order: bool = True,
    ) -> Iterator[Batch]:
        """Yield batches over all examples: one trial of each, so that each gets a guess early, then the other trials.

        A batch is finished when the next one is requested; a resumed run gets only the unfinished batches. With `over`,
        the batches cover training examples instead (ids are then rows of `over`), once per `stage`.

        On several devices, each worker runs `run` and gets a part of the batches. Batches of training examples are run
        in their order by one worker, because training depends on the order; `in_order` = False divides these batches
        too. After a loop, `kept` and `guesses` include what the other workers stored.
        """

    def remaining(self) -> float:
        """Return the seconds left until the run must finish. After a call, a resume may give other guesses."""

    def keep(self, name: str, array: ArrayLike) -> None:
        """Store an array under `name`, replacing an earlier one. `kept` returns it with its dtype and shape.

        Raises HarnessError for an array of Python objects or records, and for an array or a name that is too long.
        """

    def kept(self, name: str) -> NDArray[Any] | None:
        """Return the array that `keep` stored under `name`, in this or an earlier execution, or None."""

    def guesses(self) -> Guesses:
        """Return the guesses committed so far, in submission order, including those beyond the row cap.

        The guesses are complete between two stages. Within a stage, a resumed run may return fewer guesses than before,
        so `keep` what you derive from them.
        """

    def finish(self, order: Guesses) -> None:
        """Set the complete submission: exactly these rows in this order, whatever their scores."""


class Attack(ABC, Generic[ParamsType]):
    """A plugin that turns prefixes into guesses.

    Class attributes, whose values are literals, because the source is read without running it:

    name: the name on the command line.
    reference: the publication of the method.
    control: true for an attack that does not measure memorization and may not be submitted.
    uses_target: false if the attack needs no target.
    reference_model: the hub id or directory of the reference model if `--reference` names no other one, empty for none.
    guesses_per_example: the number of suffixes per example in the submission, 0 for any number.
    requires: distributions that must be installed besides those of the harness.
    models: hub ids or directories of models that the attack loads besides the target. A bundle lists them.
    """

    name: ClassVar[str]
    reference: ClassVar[str] = ""
    control: ClassVar[bool] = False
    uses_target: ClassVar[bool] = True
    reference_model: ClassVar[str] = ""
    guesses_per_example: ClassVar[int] = 1
    requires: ClassVar[tuple[str, ...]] = ()
    models: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: ParamsType) -> None:
        self.params = params

    @abstractmethod
    def run(self, context: Context) -> Iterator[Guesses]:
        """Yield guesses. They are committed as they arrive."""

    @classmethod
    def params_type(cls) -> type[Params]:
        """Return the class in `Attack[...]`, or `Params`, which has no fields, if none was given."""
        return params_type_of(cls)
