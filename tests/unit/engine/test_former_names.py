from importlib import import_module

import harness
from harness.engine.walk import Walk

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
    import_module("harness.target")
    found = {module: import_module(module) for module in FORMER}
    assert all(hasattr(found[module], name) for module, names in FORMER.items() for name in names)
    assert found["harness.target.walk"].Walk is Walk
    assert harness.View is harness.PrefixView
