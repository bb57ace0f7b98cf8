"""Run an attack in this process on a small target, without a supervisor."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.attack import Batch
from harness.core.examples import Training
from harness.core.guesses import Guesses, concatenate_guesses
from harness.core.submission import submission_order
from harness.engine.target import Target
from harness.rankers import RankerName, ranked
from harness.worker.plugin import load_attack

ATTACKS = Path(__file__).resolve().parents[3] / "attacks"


@dataclass
class SmallContext:
    """The context of one uninterrupted run."""

    target: Target | None
    prefixes: np.ndarray
    suffix_length: int
    training: Training | None = None
    seed: int = 0
    finished: Guesses | None = None
    kept_arrays: dict[str, np.ndarray] = field(default_factory=dict)
    committed: list[Guesses] = field(default_factory=list)
    guesses_per_example: int = 1
    announced: dict[str, int] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.target is not None:
            self.target.suffix_length = self.suffix_length

    @property
    def ids(self) -> np.ndarray:
        return np.arange(len(self.prefixes))

    @property
    def vocabulary(self) -> int:
        return 61 if self.target is None else self.target.vocabulary

    @property
    def train(self) -> Training:
        assert self.training is not None
        return self.training

    def rank(
        self, prefixes: np.ndarray, suffixes: np.ndarray, ranker: RankerName, **decoding: np.ndarray
    ) -> np.ndarray:
        assert self.target is not None
        return ranked(ranker, self.target, prefixes, suffixes, **decoding)

    def announce(self, stage: str, trials: int = 1, *, over: Training | None = None, weight: float = 1.0) -> None:
        assert (not self.begun and weight > 0) or trials == 0
        self.announced[stage] = trials

    def batches(
        self,
        trials: int = 1,
        *,
        stage: str = "guess",
        over: Training | None = None,
        size: int | None = None,
        in_order: bool = True,
    ) -> Any:
        self.begun.append(stage)
        rows = self.prefixes if over is None else over.prefixes
        size = size or 64
        for first in range(0, len(rows), size):
            ids = np.arange(first, min(first + size, len(rows)))
            yield Batch(ids, rows[ids], trials, self.seed)

    def keep(self, name: str, array: np.ndarray) -> None:
        self.kept_arrays[name] = np.asarray(array).copy()

    def kept(self, name: str) -> np.ndarray | None:
        return self.kept_arrays.get(name)

    def guesses(self) -> Guesses:
        everything = concatenate_guesses(self.committed, suffix_length=self.suffix_length)
        order = submission_order(
            everything.ids, everything.suffixes, everything.score, per_example=self.guesses_per_example
        )
        return everything.part(order)

    def finish(self, order: Guesses) -> None:
        self.finished = order


def attack_of(name: str, **params: Any) -> Any:
    """Return an instance of the attack in attacks/`name`.py."""
    kind = load_attack(ATTACKS / f"{name}.py")
    return kind(kind.params_type()(**params))


def function_of(attack: str, name: str) -> Any:
    """Return a function of the module attacks/`attack`.py."""
    return inspect.getmodule(load_attack(ATTACKS / f"{attack}.py").run).__dict__[name]


def run(name: str, context: SmallContext, **params: Any) -> Guesses:
    """Run an attack and return its guesses ordered by score, or its final order if it set one."""
    attack = attack_of(name, **params)
    context.guesses_per_example = attack.guesses_per_example
    guesses: Iterator[Guesses] = attack.run(context)
    for part in guesses:
        context.committed.append(part)
    return context.finished if context.finished is not None else context.guesses()
