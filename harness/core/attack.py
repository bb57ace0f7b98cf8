"""What an attack author builds on: an attack, its parameters, and the context that it runs in."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, get_args

from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field

from harness.core.arrays import Ints, Tokens
from harness.core.guesses import Guesses
from harness.core.training import Training

if TYPE_CHECKING:
    from harness.engine.target import Target

__all__ = ["Attack", "Batch", "Context", "Field", "Params"]


class Params(BaseModel):
    """An attack's parameters: declared once, used by the command line, the screen's form, the record and the docs."""

    model_config = ConfigDict(frozen=True, extra="forbid")


ParamsType = TypeVar("ParamsType", bound=Params)


def params_type_of(job: type) -> type[Params]:
    """The class that a generic job of this class is given for its parameters; plain `Params` when none was given."""
    for ancestor in job.__mro__:
        for base in getattr(ancestor, "__orig_bases__", ()):
            for argument in get_args(base):
                if isinstance(argument, type) and issubclass(argument, Params):
                    return argument
    return Params


@dataclass(frozen=True)
class Batch:
    """A fixed list of examples and trials: the unit of progress, commit and resume.

    ids: [n] int64; prefixes: [n, prefix length]; trials: draws asked for per prefix; seed: differs between passes and
    stages, equal across batches of one pass, so that no draw depends on how examples are grouped.
    """

    ids: Ints
    prefixes: Tokens
    trials: int
    seed: int
    stage: str


class Context(Protocol):
    """The round, the target and the durable progress of one run, as an attack sees them."""

    @property
    def ids(self) -> Ints:
        """The attacked examples' ids, [examples] int64."""
        ...

    @property
    def prefixes(self) -> Tokens:
        """The attacked prefixes, [examples, prefix length]."""
        ...

    @property
    def suffix_length(self) -> int:
        """Tokens of a suffix."""
        ...

    @property
    def vocabulary(self) -> int:
        """Token ids are in 0..vocabulary-1."""
        ...

    @property
    def seed(self) -> int:
        """The run's seed; a batch has one of its own, derived from it."""
        ...

    @property
    def target(self) -> "Target":
        """The model under attack, loaded when first touched. Raises HarnessError if the attack declared no target."""
        ...

    @property
    def train(self) -> Training:
        """The round's training examples. Raises HarnessError when it has none."""
        ...

    def batches(
        self, trials: int = 1, *, stage: str = "guess", over: Training | None = None, size: int = 64
    ) -> Iterator[Batch]:
        """Batches over all examples, in passes of 1, 2, 4 … trials, so that every example has an answer early.

        The batch handed out is done when the next one is asked for; a resumed run is handed the undone ones only.
        `over` goes through training examples instead (ids are then rows of `over`), each `stage` once.
        """
        ...

    def remaining(self) -> float:
        """Seconds left until the run is asked to finish. Reading it gives up the promise of an identical resume."""
        ...

    def keep(self, name: str, array: ArrayLike) -> None:
        """Make an intermediate result durable under `name`, replacing what was kept there."""
        ...

    def kept(self, name: str) -> NDArray[Any] | None:
        """What `keep` stored under `name`, in this execution or one before it."""
        ...

    def guesses(self) -> Guesses:
        """What the run has committed so far, in submission order, before any cap on rows.

        Complete between two stages. In the middle of one, a resumed run may know less than it did: keep what you make
        of it there.
        """
        ...

    def finish(self, order: Guesses) -> None:
        """Give the submission whole: exactly these rows, in this order, whatever their scores."""
        ...


class Attack(ABC, Generic[ParamsType]):
    """A plugin that turns prefixes into guesses.

    Class attributes: `name` as the command line knows it; `reference`, where the method was published; `control`, true
    for what measures something else and may not be submitted; `uses_target`, false when no model is needed;
    `guesses_per_example`, how many suffixes of one example the submission may hold (0: any number); `requires`,
    distributions beyond the harness's own that must be installed; `models`, the names of models that it
    loads beside the target: a submission says so.
    """

    name: ClassVar[str]
    reference: ClassVar[str] = ""
    control: ClassVar[bool] = False
    uses_target: ClassVar[bool] = True
    guesses_per_example: ClassVar[int] = 1
    requires: ClassVar[tuple[str, ...]] = ()
    models: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: ParamsType) -> None:
        self.params = params

    @abstractmethod
    def run(self, context: Context) -> Iterator[Guesses]:
        """Yield guesses; each yield is committed before the attack goes on for long."""

    @classmethod
    def params_type(cls) -> type[Params]:
        """The class in `Attack[...]`; plain `Params`, with no fields, when none was given."""
        return params_type_of(cls)
