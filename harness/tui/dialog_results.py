"""The result of a dialog, and the action that it leads to."""

from collections.abc import Callable
from typing import TypeVar

AnswerT = TypeVar("AnswerT")


def if_answered(action: Callable[[AnswerT], object]) -> Callable[[AnswerT | None], None]:
    """Return a callback for a dialog: it calls `action` with the answer, but not after No or Escape."""

    def callback(answer: AnswerT | None) -> None:
        if answer is not None and answer is not False:
            action(answer)

    return callback
