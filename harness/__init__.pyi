"""The names that attack authors and notebooks import. `__init__.py` reads the module of each one from these lines.

No name may be that of a module in this package, which would replace it when imported.
"""

from harness.candidate_ranker import CandidateRanker as CandidateRanker
from harness.candidate_ranker import candidate_features as candidate_features
from harness.candidate_ranker import drawn_candidates as drawn_candidates
from harness.candidate_ranker import prior_features as prior_features
from harness.candidate_ranker import searched_candidates as searched_candidates
from harness.candidate_ranker import united_candidates as united_candidates
from harness.candidate_ranker import with_prior as with_prior
from harness.candidate_text import text_of as text_of
from harness.core.arrays import Bools as Bools
from harness.core.arrays import Floats as Floats
from harness.core.arrays import Ints as Ints
from harness.core.arrays import Tokens as Tokens
from harness.core.arrays import mapped_array as mapped_array
from harness.core.arrays import place_among_equals as place_among_equals
from harness.core.attack import Attack as Attack
from harness.core.attack import Batch as Batch
from harness.core.attack import Context as Context
from harness.core.attack import Field as Field
from harness.core.attack import Params as Params
from harness.core.errors import HarnessError as HarnessError
from harness.core.examples import Schedule as Schedule
from harness.core.examples import Training as Training
from harness.core.examples import folds_by_cluster as folds_by_cluster
from harness.core.guesses import Guesses as Guesses
from harness.core.policy import Combination as Combination
from harness.core.policy import Policy as Policy
from harness.core.policy import PrefixView as PrefixView
from harness.core.submission_reader import SubmissionRules as SubmissionRules
from harness.core.submission_reader import read_submission as read_submission
from harness.core.version import __version__ as __version__
from harness.core.windows import stitched as stitched
from harness.engine.prompt_training import PromptPlan as PromptPlan
from harness.engine.prompt_training import announce_training as announce_training
from harness.engine.prompt_training import trained_prompt as trained_prompt
from harness.engine.target import Target as Target
from harness.engine.walk import Walk as Walk
from harness.notebook.runs import Run as Run
from harness.notebook.runs import RunList as RunList
from harness.notebook.runs import list_runs as list_runs
from harness.notebook.runs import open_run as open_run
from harness.notebook.scores import Score as Score
from harness.notebook.scores import score as score
from harness.notebook.starting import Comparison as Comparison
from harness.notebook.starting import compare as compare
from harness.notebook.starting import run as run
from harness.rankers import Ranker as Ranker
from harness.rankers import compressed_bytes as compressed_bytes
from harness.rankers import mean_loss as mean_loss
from harness.rankers import official_loss as official_loss
