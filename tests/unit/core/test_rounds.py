"""Round files: fields, bases, errors and folds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import HarnessError
from harness.core.examples import (
    folds_by_cluster,
    load_answers,
    load_clusters,
    load_prefixes,
    load_training,
    require_fitting_files,
)
from harness.core.rounds import built_in_rounds, load_round, preset_text
from harness.core.times import moment_text

PLAIN = """
name = "small"
title = "A small round"
prefix_file = "prefix.npy"
answer_file = "suffix.npy"
train_prefix_file = "train_prefix.npy"
train_suffix_file = "train_suffix.npy"
prefix_length = 40
suffix_length = 3
vocabulary = 100
target = "./model"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    (tmp_path / "small.toml").write_text(PLAIN)
    random = np.random.default_rng(0)
    families = random.integers(0, 100, (12, 43))
    rows = families[random.integers(0, 12, 60)].astype(np.uint16)  # rows of one family share every window
    np.save(tmp_path / "prefix.npy", rows[:20, :40])
    np.save(tmp_path / "suffix.npy", rows[:20, 40:])
    np.save(tmp_path / "train_prefix.npy", rows[20:, :40])
    np.save(tmp_path / "train_suffix.npy", rows[20:, 40:])
    return tmp_path


def error_of(path, text):
    path.write_text(text)
    with pytest.raises(HarnessError) as caught:
        load_round(str(path))
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    return message


def test_every_built_in_round_loads_by_its_name():
    assert {"satml-dev", "satml-val", "satml-test"} <= set(built_in_rounds())
    for name in built_in_rounds():
        assert load_round(name).name == name


def test_the_challenge_rounds_have_the_challenge_rules():
    round_ = load_round("satml-dev")
    assert (round_.error_cap, round_.row_cap, round_.budget, round_.vocabulary) == (100, 100_000, 86400.0, 50257)
    assert (round_.answer_rows, round_.train_rows) == ((14000, 15000), (0, 14000))
    assert load_round("satml-test").answer_file is None and load_round("satml-test").is_blind


def test_a_round_file_finds_the_files_next_to_it(folder):
    round_ = load_round(str(folder / "small.toml"))
    assert round_.prefix_file == folder / "prefix.npy"
    assert round_.target == str(folder / "model")
    assert load_prefixes(round_).shape == (20, 40) and load_answers(round_).shape == (20, 3)
    assert len(load_training(round_)) == 40


def test_other_files_are_looked_up_in_the_data_directory(folder):
    (folder / "prefix.npy").unlink()
    assert load_round(str(folder / "small.toml")).prefix_file == folder / "data" / "prefix.npy"


def test_a_round_inherits_fields_from_its_base(folder):
    (folder / "other.toml").write_text('base = "small.toml"\nname = "other"\nanswer_file = ""\nerror_cap = 7\n')
    base, other = load_round(str(folder / "small.toml")), load_round(str(folder / "other.toml"))
    assert (other.name, other.error_cap, other.answer_file) == ("other", 7, None)
    assert (other.prefix_file, other.title, other.prefix_length) == (base.prefix_file, base.title, 40)
    assert other.is_blind and not base.is_blind


def test_presets_are_merged_over_those_of_the_base(folder):
    base = PLAIN + "[presets.one]\ntrials = 4\nfast = true\n[presets.two]\nwidth = 1\n[presets.three]\nwidth = 2\n"
    (folder / "small.toml").write_text(base)
    (folder / "other.toml").write_text('base = "small.toml"\n[presets]\nthree = ""\n[presets.one]\ntrials = 9\n')
    assert load_round(str(folder / "small.toml")).presets["one"] == {"trials": 4, "fast": True}
    other = load_round(str(folder / "other.toml"))
    assert other.presets == {"one": {"trials": 9}, "two": {"width": 1}}
    assert other.derived_fold(0).presets == other.presets
    assert preset_text({"trials": 9, "fast": True, "lengths": "50 20"}) == "trials=9, fast=true, lengths=50 20"


def test_presets_are_no_rules(folder):
    assert "presets" not in load_round("demo").model_dump()
    assert load_round("demo").presets["baseline"] == {"trials": 4} and load_round("satml-dev").presets == {}


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("[presets]\none = 4", "one: must be a table"),
        ("presets = 4", "must be a table of tables"),
        ("[presets.one]\ntrials = [4]", "one.trials: must be text, a finite number, true or false"),
        ("[presets.one]\nrate = nan", "one.rate: must be"),
        ("[presets.one]\nwhen = 2020-01-01", "one.when: must be"),
        ('[presets.one]\n"two words" = 4', "'two words' is not a valid name"),
        ('[presets."no-name"]\ntrials = 4', "'no-name' is not a valid name"),
    ],
)
def test_a_faulty_preset_is_named(folder, lines, fault):
    assert f"presets: {fault}" in error_of(folder / "faulty.toml", f"{PLAIN}{lines}\n")


def test_the_challenge_rounds_have_the_dates_of_the_challenge():
    dates = ("code_deadline", "prefixes_released", "closes", "answers_released")
    shown = {
        name: [None if (at := getattr(load_round(name), date)) is None else moment_text(at) for date in dates]
        for name in ("satml-dev", "satml-val", "satml-test")
    }
    assert shown == {
        "satml-dev": [None, None, None, None],
        "satml-val": [None, "2022-11-14 AoE", "2022-12-09 AoE", "2022-12-14 AoE"],
        "satml-test": ["2023-01-20 AoE", "2023-01-23 AoE", "2023-01-27 AoE", None],
    }
    assert all(load_round(name).training_data_search == "forbidden" for name in shown)


@pytest.mark.parametrize(
    ("model", "is_forbidden"),
    [
        ("EleutherAI/gpt-neo-1.3B", False),
        ("eleutherai/GPT-Neo-1.3b", False),
        ("gpt2", False),
        ("openai-community/gpt2-xl", False),
        ("EleutherAI/gpt-neo-2.7B", True),
        ("EleutherAI/gpt-neox-20b", True),
        ("EleutherAI/gpt-j-6b", True),
        ("eleutherai/PYTHIA-2.8b-deduped", True),
        ("somebody/pythia-160m-copy", True),
        ("pythia-160m", True),
        ("/models/pythia-160m/", True),
        ("/cache/models--EleutherAI--pythia-160m/snapshots/0123", True),
        ("/cache/models--EleutherAI--gpt-neo-1.3B/snapshots/0123", False),
        ("facebook/opt-1.3b", True),
        pytest.param("x" * 1_000_000 + "/pythia-1b", True, id="long"),
        ("somebody/renamed", False),
    ],
)
def test_models_trained_on_the_pile_are_forbidden_except_for_the_target(model, is_forbidden):
    round_ = load_round("satml-test")
    assert round_.forbidden_model(["gpt2", model]) == (model if is_forbidden else None)
    assert load_round("demo").forbidden_model([model]) is None


def test_rules_of_the_contest_change_no_record_of_the_round(folder):
    (folder / "base.toml").write_text(PLAIN)
    dates = "code_deadline = 2023-01-20\nprefixes_released = 2023-01-23T12:00:00+01:00\ncloses = '2023-01-27'\n"
    models = 'forbidden_models = ["one/*"]\ntraining_data_search = "forbidden"\n'
    (folder / "small.toml").write_text(PLAIN + dates + models)
    plain, ruled = load_round(str(folder / "base.toml")), load_round(str(folder / "small.toml"))
    assert ruled.model_dump(exclude={"source"}) == plain.model_dump(exclude={"source"})
    assert moment_text(ruled.prefixes_released) == "2023-01-23 12:00:00 UTC+01:00"
    assert ruled.derived_fold(0).forbidden_model(["one/two"]) == "one/two"
    (folder / "other.toml").write_text('base = "small.toml"\nname = "o"\ncloses = ""\ncode_deadline = 2023-01-21\n')
    other = load_round(str(folder / "other.toml"))
    assert (other.closes, moment_text(other.code_deadline)) == (None, "2023-01-21 AoE")


def test_a_circular_base_is_refused(folder):
    (folder / "small.toml").write_text('base = "other.toml"\n')
    assert "leads back" in error_of(folder / "other.toml", 'base = "small.toml"\n')


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("error_cap = 0", "error_cap"),
        ('prefix_length = "fifty"', "prefix_length"),
        ('budget = "soon"', "budget"),
        ("answer_rows = [5, -1]", "answer_rows"),
        ("answer_rows = [5]", "answer_rows"),
        ('clusters = "some"', "clusters"),
        ("colour = 3", "colour"),
        ("closes = 2023-01-27T12:00:00", "closes: '2023-01-27 12:00:00' is not a date"),
        ("closes = 7", "closes"),
        ("closes = 07:30:00", "closes"),
        ("closes = 2023-01-27\ncode_deadline = 2023-01-28", "closes is before code_deadline"),
        ("closes = 2023-01-27\nprefixes_released = 2023-01-27T23:59:59.999999-13:00", "closes is before prefixes"),
        ("closes = 2023-01-27\nanswers_released = 2023-01-26", "answers_released is before closes"),
        ("forbidden_models = 'one/*'", "forbidden_models"),
        ("forbidden_models = [7]", "forbidden_models"),
        ("training_data_search = true", "training_data_search"),
        ("", "title"),
        ("name = [[[", "TOML"),
    ],
)
def test_a_faulty_field_is_named(folder, line, field):
    fields = [other for other in PLAIN.splitlines() if not other.startswith(field)]
    assert field in error_of(folder / "faulty.toml", "\n".join([*fields, line]))


def test_a_fold_shares_no_cluster_with_its_training_rows(folder):
    whole = load_training(load_round(str(folder / "small.toml")))
    attacked = 0
    for index in range(3):
        fold = load_round(f"{folder / 'small.toml'}:fold{index}of3")
        prefixes, training = load_prefixes(fold), load_training(fold)
        assert len(prefixes) + len(training) == len(whole)
        assert not set(load_clusters(fold)) & set(training.clusters)
        assert not {row.tobytes() for row in prefixes} & {row.tobytes() for row in training.prefixes}
        attacked += len(prefixes)
    assert attacked == len(whole)


@given(st.lists(st.integers(0, 15), min_size=1, max_size=80), st.integers(2, 6))
def test_folds_keep_clusters_whole_and_have_similar_sizes(clusters, folds):
    clusters = np.array(clusters)
    fold_of_row = folds_by_cluster(clusters, folds)
    for cluster in set(clusters.tolist()):
        assert len(set(fold_of_row[clusters == cluster].tolist())) == 1
    sizes = np.bincount(fold_of_row, minlength=folds)
    assert sizes.max() - sizes.min() <= np.bincount(clusters).max()


@pytest.mark.parametrize(
    ("field", "rows", "message"),
    [
        ("preprefix", np.zeros((19, 5), np.uint16), r"preprefix\.npy: 19 rows for 20 attacked"),
        ("preprefix", np.zeros((20, 5)), r"preprefix\.npy: expected integers"),
        (
            "train_preprefix",
            np.zeros((41, 5), np.uint16),
            r"train_preprefix\.npy: 41 rows for 40 training",
        ),
        ("train_preprefix", np.full((40, 5), 100), r"train_preprefix\.npy: row 0 contains a token outside 0\.\.99"),
        ("train_prefix", np.zeros((39, 40), np.uint16), r"train_suffix\.npy: 40 rows for 39 training"),
        (
            "train_suffix",
            np.zeros((40, 4), np.uint16),
            r"train_suffix\.npy: expected rows of 3 tokens, as in the round, found 4",
        ),
        ("train_suffix", np.full((40, 3), 100), r"train_suffix\.npy: row 0 contains a token outside 0\.\.99"),
        (
            "prefix",
            np.zeros((20, 39), np.uint16),
            r"prefix\.npy: expected rows of 40 tokens, as in the round, found 39",
        ),
        ("prefix", np.zeros((20, 40)), r"prefix\.npy: expected integers of shape \[rows, tokens\]"),
        ("prefix", np.full((20, 40), 100), r"prefix\.npy: row 0 contains a token outside 0\.\.99"),
    ],
)
def test_the_files_of_a_round_are_checked(folder, field, rows, message):
    np.save(folder / f"{field}.npy", rows)
    named = f'{field}_file = "{field}.npy"\n' if field.endswith("preprefix") else ""
    (folder / "unfit.toml").write_text(PLAIN + named)
    with pytest.raises(HarnessError, match=message):
        require_fitting_files(load_round(str(folder / "unfit.toml")))


def test_pre_prefixes_may_be_absent(folder):
    (folder / "small.toml").write_text(PLAIN + 'preprefix_file = "p.npy"\ntrain_preprefix_file = "t.npy"\n')
    require_fitting_files(load_round(str(folder / "small.toml")))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("~no-such-user/round.toml", "unknown user"),
        ("/dev/zero", "not a regular file"),
        ("./", "not a regular file"),
        ("satml-dve", "did you mean satml-dev"),
        ("demo:fold3of3", "the folds are 0 to 2"),
    ],
)
def test_a_round_that_does_not_exist_is_refused(name: str, message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        load_round(name)


def test_a_fold_of_a_blind_round_is_not_blind(folder):
    (folder / "small.toml").write_text(PLAIN.replace('answer_file = "suffix.npy"\n', ""))
    blind = load_round(str(folder / "small.toml"))
    assert blind.is_blind and not blind.derived_fold(0, 2).is_blind
