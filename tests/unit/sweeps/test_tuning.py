"""The parameters that a tuning searches, and the settings that it tries next."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.plugins.search_space import Span, space_of
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.sweeps.tuning import (
    Step,
    Tried,
    best_first,
    best_of,
    importances,
    is_pruned,
    next_step,
    seconds_left,
    settings_tried,
)
from tests.records import new_tuning

SCHEMA = {
    "properties": {
        "trials": {"type": "integer", "minimum": 1, "default": 100},
        "top_k": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        "temperature": {"type": "number", "exclusiveMinimum": 0, "maximum": 2.0, "default": 1.0},
        "combine": {"enum": ["votes", "logits"], "type": "string", "default": "votes"},
        "is_sorted": {"type": "boolean", "default": False},
        "source": {"type": "string", "format": "path"},
    }
}


FOLDS = ("fold0of5", "fold1of5")


def tried(recall: float | None, fold: str = FOLDS[0], **params: Any) -> Tried:
    spec = SimpleNamespace(params=params, round=SimpleNamespace(name=f"demo:{fold}"))
    return Tried(RunFolder(Path("/none")), spec, recall)  # type: ignore[arg-type]


def tried_on_both_folds(recall: float, **params: Any) -> list[Tried]:
    return [tried(recall, fold, **params) for fold in FOLDS]


def test_bounded_parameters_and_choices_are_searched() -> None:
    space = space_of(SCHEMA, [], [])
    assert set(space) == {"top_k", "temperature", "combine", "is_sorted"}
    assert space["top_k"] == Span(1, 50, True) and space["combine"].choices == ("votes", "logits")
    assert 0 < space["temperature"].low < 0.01 and space["temperature"].high == 2


def test_fixed_parameters_are_not_searched_and_varied_ones_are() -> None:
    space = space_of(SCHEMA, ["top_k=3", "combine=votes", "is_sorted=true"], ["trials=2..8", "temperature=0.5,0.7"])
    assert space == {"trials": Span(2, 8, True), "temperature": Span(choices=(0.5, 0.7))}
    assert space_of(SCHEMA, [], ["is_sorted=true,false"])["is_sorted"] == Span(choices=(False, True))


@pytest.mark.parametrize(
    ("fixed", "vary", "message"),
    [
        ([], ["trails=1..2"], "did you mean trials"),
        ([], ["trials=5"], "two values or more"),
        ([], ["trials=5..2"], "the lower one first"),
        ([], ["trials=a..b"], "two numbers"),
        ([], ["is_sorted=yes,no"], "true,false"),
        ([], ["trials=2,few"], "whole numbers"),
        ([], ["trials=1..2.5"], "whole numbers"),
        (["top_k=1", "temperature=1", "combine=votes", "is_sorted=true"], [], "nothing to tune"),
    ],
)
def test_an_invalid_search_space_is_refused(fixed: list[str], vary: list[str], message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        space_of(SCHEMA, fixed, vary)


def test_the_first_run_uses_the_defaults_of_the_attack() -> None:
    space = space_of(SCHEMA, [], [])
    defaults = {"top_k": 10, "temperature": 1.0, "combine": "votes", "is_sorted": False}
    expected = ["top_k=10", "temperature=1", "combine=votes", "is_sorted=false"]
    assert next_step(space, defaults, [], FOLDS, seed=0) == Step(expected, "fold0of5")


def test_a_setting_is_tried_on_the_next_fold_before_a_new_setting() -> None:
    space = {"top_k": Span(1, 50, True)}
    assert next_step(space, None, [tried(0.1, top_k=10)], FOLDS, seed=0) == Step(["top_k=10"], "fold1of5")
    step = next_step(space, None, tried_on_both_folds(0.1, top_k=10), FOLDS, seed=0)
    assert step is not None and step.fold == "fold0of5" and step.settings != ["top_k=10"]


@pytest.mark.parametrize(("recall", "fold"), [(0.1, "fold0of5"), (0.35, "fold1of5"), (None, "fold0of5")])
def test_a_setting_below_the_median_or_without_recall_gets_no_further_fold(recall: float | None, fold: str) -> None:
    space = {"top_k": Span(1, 50, True)}
    past = [run for number in range(5) for run in tried_on_both_folds(0.3 + number / 50, top_k=number + 1)]
    step = next_step(space, None, [*past, tried(recall, top_k=9)], FOLDS, seed=0)
    assert step is not None and step.fold == fold and (step.settings == ["top_k=9"]) == (fold == "fold1of5")


def test_defaults_outside_the_space_are_tried_on_every_fold() -> None:
    space = {"top_k": Span(1, 50, True)}
    assert next_step(space, None, [tried(0.1, top_k=99)], FOLDS, seed=0) == Step(["top_k=99"], "fold1of5")


def test_no_setting_is_repeated_and_the_search_of_a_small_space_ends() -> None:
    space = {"is_sorted": Span(choices=(False, True))}
    past = tried_on_both_folds(0.2, is_sorted=False)
    step = next_step(space, None, past, FOLDS, seed=5)
    assert step == Step(["is_sorted=true"], "fold0of5")
    assert next_step(space, None, [*past, *tried_on_both_folds(0.3, is_sorted=True)], FOLDS, seed=5) is None


def test_every_setting_of_a_finite_space_is_tried() -> None:
    space = {"top_k": Span(1, 8, True), "is_sorted": Span(choices=(False, True))}
    past: list[Tried] = []
    while (step := next_step(space, None, past, FOLDS[:1], seed=2)) is not None:
        chosen = dict(setting.split("=") for setting in step.settings)
        past.append(tried(0.3, top_k=int(chosen["top_k"]), is_sorted=chosen["is_sorted"] == "true"))
    assert len(settings_tried(space, past)) == len(past) == 16


def test_a_setting_of_a_resumed_run_is_tried_on_the_next_fold() -> None:
    space = {"top_k": Span(1, 50, True)}
    past = [*tried_on_both_folds(0.1, top_k=10), tried(0.2, top_k=4), *tried_on_both_folds(0.3, top_k=7)]
    assert next_step(space, None, past, FOLDS, seed=0) == Step(["top_k=4"], "fold1of5")


def test_the_next_settings_are_deterministic_and_inside_the_space() -> None:
    space = {"top_k": Span(1, 50, True), "combine": Span(choices=("votes", "logits"))}
    past = [
        *tried_on_both_folds(0.1, top_k=10, combine="votes"),
        tried(None, top_k=4, combine="votes"),
        *tried_on_both_folds(0.3, top_k=99, combine="x"),
    ]
    first = next_step(space, None, past, FOLDS, seed=3)
    assert first is not None and first == next_step(space, None, past, FOLDS, seed=3)
    values = dict(setting.split("=") for setting in first.settings)
    assert 1 <= int(values["top_k"]) <= 50 and values["combine"] in ("votes", "logits")


def test_a_search_approaches_the_best_value() -> None:
    space = {"temperature": Span(0.0, 1.0)}
    past: list[Tried] = []
    for _ in range(60):
        step = next_step(space, None, past, FOLDS, seed=1)
        assert step is not None
        value = float(step.settings[0].partition("=")[2])
        past.append(tried(1 - abs(value - 0.8), step.fold, temperature=value))
    last_values = [one.params["temperature"] for one in settings_tried(space, past)[-10:]]
    assert abs(sum(last_values) / len(last_values) - 0.8) < 0.15


def test_the_best_setting_was_tried_on_every_fold() -> None:
    space = {"top_k": Span(1, 50, True)}
    past = [
        *tried_on_both_folds(0.3, top_k=1),
        tried(0.5, FOLDS[0], top_k=2),
        *tried_on_both_folds(0.4, top_k=3),
        tried(None, top_k=4),
    ]
    best = best_of(settings_tried(space, past))
    assert best is not None and best.params == {"top_k": 3} and best.recall == pytest.approx(0.4)
    assert best_of(settings_tried(space, [tried(None, top_k=4)])) is None


@pytest.mark.parametrize("order", [FOLDS, FOLDS[::-1]])
@pytest.mark.parametrize("status", [Status.CRASHED, Status.STOPPED, Status.LOST, Status.RUNNING])
def test_a_setting_with_a_failed_fold_has_no_mean_and_is_never_the_best(order: tuple[str, str], status: Status) -> None:
    space = {"top_k": Span(1, 50, True)}
    failed = replace(tried(None, order[1], top_k=2), status=status)
    complete = tried_on_both_folds(0.3, top_k=1)
    settings = settings_tried(space, [*complete, tried(0.9, order[0], top_k=2), failed])
    assert [setting.recall for setting in settings] == [pytest.approx(0.3), None]
    assert best_of(settings) is settings[0] and best_of(settings[1:]) is None
    assert [setting.missing_folds(FOLDS) for setting in settings] == ["", f"1 of 2 folds; {order[1]} {status.words}"]


def test_the_settings_with_the_most_folds_come_first_and_those_without_a_recall_last() -> None:
    space = {"top_k": Span(1, 50, True)}
    past = [tried(0.9, top_k=1), tried(None, top_k=2), *tried_on_both_folds(0.3, top_k=3), tried(0.95, top_k=4)]
    assert [setting.params["top_k"] for setting in best_first(settings_tried(space, past))] == [3, 4, 1, 2]


def test_the_time_that_is_left_follows_from_three_runs_that_ended() -> None:
    tuning = new_tuning(FOLDS).model_copy(update={"runs": 10})
    ended = [replace(tried(0.1), status=Status.FINISHED, elapsed_s=seconds) for seconds in (10.0, 20.0, 30.0)]
    at_work = replace(tried(None), status=Status.RUNNING, elapsed_s=5.0)
    assert seconds_left(tuning, [*ended[:2], at_work]) is None
    assert seconds_left(tuning, [*ended, at_work]) == pytest.approx(7 * 20.0 - 5.0)
    # A long run takes nothing from those after it, and two at a time take half as long.
    late = replace(at_work, elapsed_s=50.0)
    assert seconds_left(tuning, [*ended, late]) == pytest.approx(6 * 20.0)
    assert seconds_left(tuning, [*ended, late, at_work]) == pytest.approx((5 * 20.0 + 15.0) / 2)
    assert seconds_left(tuning.model_copy(update={"runs": 3}), [*ended, at_work]) is None


def test_a_setting_that_was_not_tried_on_every_fold_says_on_how_many() -> None:
    (setting,) = settings_tried({}, [tried(0.5)])
    assert setting.recall == 0.5 and setting.missing_folds(FOLDS) == "1 of 2 folds"


def test_the_importance_of_parameters_needs_four_complete_settings() -> None:
    space = {"trials": Span(1, 9, True), "temperature": Span(0.1, 2.0, False)}
    runs = [one for trials in (1, 3, 5) for one in tried_on_both_folds(trials / 10, trials=trials, temperature=1.0)]
    assert importances(space, settings_tried(space, runs), FOLDS) == {}
    for trials, temperature in ((1, 0.5), (3, 0.5), (9, 0.5), (9, 1.0)):
        runs += tried_on_both_folds(trials / 10, trials=trials, temperature=temperature)
    found = importances(space, settings_tried(space, runs), FOLDS)
    assert next(iter(found)) == "trials" and sum(found.values()) == pytest.approx(1.0)


def test_equal_recalls_say_nothing_about_importance() -> None:
    space = {"trials": Span(1, 9, True)}
    runs = [one for trials in range(1, 6) for one in tried_on_both_folds(0.3, trials=trials)]
    assert importances(space, settings_tried(space, runs), FOLDS) == {}


def test_a_setting_below_the_median_after_its_first_fold_is_pruned() -> None:
    space = {"trials": Span(1, 9, True)}
    runs = [one for trials in range(1, 6) for one in tried_on_both_folds(0.5, trials=trials)]
    past = settings_tried(space, [*runs, tried(0.1, trials=6)])
    assert is_pruned(space, past, FOLDS) and not is_pruned(space, past[:5], FOLDS)
