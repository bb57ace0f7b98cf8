import subprocess
import sys

# The imports of `contrastive`, `soft_prompt` and `ethicist` when the engine was called `target`.
FORMER = """
from harness.target.walk import Walk
from harness.target.prompt_training import PromptPlan, trained_prompt
from harness.target.prompt_tuning import Schedule
from harness import View
from harness.rankers import RANKER_HELP, Ranker, mean_loss, ranked
import harness, harness.engine.walk

assert Walk is harness.engine.walk.Walk and View is harness.PrefixView
"""


def test_attacks_of_stored_runs_find_the_engine_under_its_former_name():
    subprocess.run([sys.executable, "-c", FORMER], check=True)
