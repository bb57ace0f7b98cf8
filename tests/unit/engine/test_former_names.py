import subprocess
import sys

# What the attacks of this repository imported when the engine was called `target`.
FORMER = """
from harness.target.walk import Walk
from harness.target.prompt_training import PromptPlan, trained_prompt
from harness.target.prompt_tuning import Schedule
from harness import View
from harness.rankers import RANKER_HELP, Ranker, compressed_bytes, mean_loss, official_loss, ranked
from harness.core.arrays import Bools, Floats, Ints, Tokens, mapped_array
from harness.core.examples import folds_by_cluster
from harness.core.grouping import place_among_equals
from harness.core.stitch import stitched
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.core.training import Training
import harness, harness.engine.walk

assert Walk is harness.engine.walk.Walk and View is harness.PrefixView
"""


def test_attacks_of_stored_runs_find_their_former_imports():
    subprocess.run([sys.executable, "-c", FORMER], check=True)
