"""Which parameters a tuning searches, and what it tries next."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.plugins.parameter_space import Span, space_of
from harness.runs.folder import RunFolder
from harness.runs.tuning import Step, Tried, best_of, next_step, settings_tried

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


def on_both(recall: float, **params: Any) -> list[Tried]:
    return [tried(recall, fold, **params) for fold in FOLDS]


def test_what_has_two_bounds_or_a_list_of_values_is_searched() -> None:
    space = space_of(SCHEMA, [], [])
    assert set(space) == {"top_k", "temperature", "combine", "is_sorted"}
    assert space["top_k"] == Span(1, 50, True) and space["combine"].choices == ("votes", "logits")
    assert 0 < space["temperature"].low < 0.01 and space["temperature"].high == 2


def test_what_is_set_is_not_searched_and_what_is_varied_is() -> None:
    space = space_of(SCHEMA, ["top_k=3", "combine=votes", "is_sorted=true"], ["trials=2..8", "temperature=0.5,0.7"])
    assert space == {"trials": Span(2, 8, True), "temperature": Span(choices=(0.5, 0.7))}
    assert space_of(SCHEMA, [], ["is_sorted=true,false"])["is_sorted"] == Span(choices=(False, True))


@pytest.mark.parametrize(
    ("fixed", "vary", "sentence"),
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
def test_a_space_that_cannot_be_searched_is_one_sentence(fixed: list[str], vary: list[str], sentence: str) -> None:
    with pytest.raises(HarnessError, match=sentence):
        space_of(SCHEMA, fixed, vary)


def test_the_first_run_has_the_attacks_defaults() -> None:
    space = space_of(SCHEMA, [], [])
    defaults = {"top_k": 10, "temperature": 1.0, "combine": "votes", "is_sorted": False}
    wanted = ["top_k=10", "temperature=1", "combine=votes", "is_sorted=false"]
    assert next_step(space, defaults, [], FOLDS, seed=0) == Step(wanted, "fold0of5")


def test_a_setting_goes_to_the_next_fold_before_another_one_begins() -> None:
    space = {"top_k": Span(1, 50, True)}
    assert next_step(space, None, [tried(0.1, top_k=10)], FOLDS, seed=0) == Step(["top_k=10"], "fold1of5")
    step = next_step(space, None, on_both(0.1, top_k=10), FOLDS, seed=0)
    assert step is not None and step.fold == "fold0of5" and step.settings != ["top_k=10"]


@pytest.mark.parametrize(("recall", "fold"), [(0.1, "fold0of5"), (0.35, "fold1of5"), (None, "fold0of5")])
def test_a_setting_below_the_median_or_without_recall_gets_no_further_fold(recall: float | None, fold: str) -> None:
    space = {"top_k": Span(1, 50, True)}
    past = [run for place in range(5) for run in on_both(0.3 + place / 50, top_k=place + 1)]
    step = next_step(space, None, [*past, tried(recall, top_k=9)], FOLDS, seed=0)
    assert step is not None and step.fold == fold and (step.settings == ["top_k=9"]) == (fold == "fold1of5")


def test_defaults_outside_the_space_go_through_every_fold() -> None:
    space = {"top_k": Span(1, 50, True)}
    assert next_step(space, None, [tried(0.1, top_k=99)], FOLDS, seed=0) == Step(["top_k=99"], "fold1of5")


def test_nothing_is_tried_twice_and_a_small_space_comes_to_an_end() -> None:
    space = {"is_sorted": Span(choices=(False, True))}
    past = on_both(0.2, is_sorted=False)
    step = next_step(space, None, past, FOLDS, seed=5)
    assert step == Step(["is_sorted=true"], "fold0of5")
    assert next_step(space, None, [*past, *on_both(0.3, is_sorted=True)], FOLDS, seed=5) is None


def test_every_setting_of_a_space_with_an_end_is_tried_before_it_ends() -> None:
    space = {"top_k": Span(1, 8, True), "is_sorted": Span(choices=(False, True))}
    past: list[Tried] = []
    while (step := next_step(space, None, past, FOLDS[:1], seed=2)) is not None:
        chosen = dict(setting.split("=") for setting in step.settings)
        past.append(tried(0.3, top_k=int(chosen["top_k"]), is_sorted=chosen["is_sorted"] == "true"))
    assert len(settings_tried(space, past)) == len(past) == 16


def test_a_setting_whose_run_was_lost_and_resumed_goes_on_to_its_next_fold() -> None:
    space = {"top_k": Span(1, 50, True)}
    past = [*on_both(0.1, top_k=10), tried(0.2, top_k=4), *on_both(0.3, top_k=7)]
    assert next_step(space, None, past, FOLDS, seed=0) == Step(["top_k=4"], "fold1of5")


def test_the_next_settings_follow_from_what_was_tried_and_lie_in_the_space() -> None:
    space = {"top_k": Span(1, 50, True), "combine": Span(choices=("votes", "logits"))}
    past = [
        *on_both(0.1, top_k=10, combine="votes"),
        tried(None, top_k=4, combine="votes"),
        *on_both(0.3, top_k=99, combine="x"),
    ]
    first = next_step(space, None, past, FOLDS, seed=3)
    assert first is not None and first == next_step(space, None, past, FOLDS, seed=3)
    values = dict(setting.split("=") for setting in first.settings)
    assert 1 <= int(values["top_k"]) <= 50 and values["combine"] in ("votes", "logits")


def test_a_search_finds_the_better_end_of_a_span() -> None:
    space = {"temperature": Span(0.0, 1.0)}
    past: list[Tried] = []
    for _ in range(60):
        step = next_step(space, None, past, FOLDS, seed=1)
        assert step is not None
        value = float(step.settings[0].partition("=")[2])
        past.append(tried(1 - abs(value - 0.8), step.fold, temperature=value))
    late = [one.params["temperature"] for one in settings_tried(space, past)[-10:]]
    assert abs(sum(late) / len(late) - 0.8) < 0.15


def test_the_best_setting_is_one_of_those_that_went_through_every_fold() -> None:
    space = {"top_k": Span(1, 50, True)}
    past = [*on_both(0.3, top_k=1), tried(0.5, FOLDS[0], top_k=2), *on_both(0.4, top_k=3), tried(None, top_k=4)]
    best = best_of(settings_tried(space, past))
    assert best is not None and best.params == {"top_k": 3} and best.recall == pytest.approx(0.4)
    assert best_of(settings_tried(space, [tried(None, top_k=4)])) is None
