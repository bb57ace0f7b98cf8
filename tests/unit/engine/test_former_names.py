from importlib import import_module

import harness
from harness.engine import walk

# The imports of the attacks of this repository when the engine was called `target`.
FORMER = {
    "harness": ["View"],
    "harness.target.walk": ["Walk"],
    "harness.target.prompt_training": ["PromptPlan", "trained_prompt"],
    "harness.target.prompt_tuning": ["Schedule"],
    "harness.rankers": ["RANKER_HELP", "Ranker", "compressed_bytes", "mean_loss", "official_loss", "ranked"],
    "harness.core.arrays": ["Bools", "Floats", "Ints", "Tokens", "mapped_array"],
    "harness.core.examples": ["folds_by_cluster"],
    "harness.core.grouping": ["place_among_equals"],
    "harness.core.stitch": ["stitched"],
    "harness.core.submission_reader": ["SubmissionRules", "read_submission"],
    "harness.core.training": ["Training"],
}


def test_attacks_of_stored_runs_find_their_former_imports():
    for module, names in FORMER.items():
        for name in names:
            getattr(import_module(module), name)
    assert harness.View is harness.PrefixView
    assert import_module("harness.target.walk").Walk is walk.Walk
