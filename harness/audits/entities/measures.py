"""The measures of an entities audit, and the names of what they are of."""

from harness.core.measures import Measure, Unit

M_MEM = Measure(
    "m_mem",
    "M-MEM",
    "the share of pairs of one trained and one other name in which the trained name has the higher confidence",
)
TIES = Measure("ties", "ties", "pairs with equal confidences, which count as not recognized", unit=Unit.NUMBER)
PROMPTS_M_MEM = Measure("m_mem_of_prompts", "M-MEM of the prompts", "the mean, largest or smallest M-MEM of a prompt")
PROMPTS_RANGE = Measure(
    "m_mem_range", "range of M-MEM", "the largest M-MEM of a prompt minus the smallest", unit=Unit.CHANGE
)
CHANCE_ERROR = Measure(
    "chance_error", "standard error under chance", "the largest standard error of M-MEM without memorization"
)
COCHRAN = Measure(
    "cochran_q",
    "Cochran's Q",
    "do all prompts win equally many pairs? Pairs that share a name are taken as independent, as in the source",
    unit=Unit.NUMBER,
)
COCHRAN_P = Measure("cochran_p_value", "p of Cochran's Q", "too small, because pairs share names", unit=Unit.P_VALUE)
LEAD = Measure(
    "lead", "best − worst prompt", "the largest minus the smallest M-MEM, in a bootstrap over names", unit=Unit.CHANGE
)
LEAD_P = Measure(
    "equal_prompts_p_value", "p of equal prompts", "the bootstrap's p-value of equal prompts", unit=Unit.P_VALUE
)
TAU = Measure("kendall_tau", "Kendall's τ", "the rank correlation of the prompts' M-MEM", unit=Unit.NUMBER)
TAU_P = Measure("kendall_p_value", "p of Kendall's τ", "of prompts whose orders do not correlate", unit=Unit.P_VALUE)
BY_TYPE = Measure("m_mem_by_type", "mean M-MEM", "the mean M-MEM of the prompts of a sentence type")
BY_POSITION = Measure(
    "m_mem_by_position",
    "mean M-MEM",
    "the mean M-MEM of the prompts with the name at a position",
    at="{} before the name",
    at_name="words and punctuation marks before the name",
)
BY_LENGTH = Measure(
    "m_mem_by_length",
    "mean M-MEM",
    "the mean M-MEM of the prompts of a length",
    at="{} words",
    at_name="words and punctuation marks of the prompt",
)
ATTENTION = Measure(
    "attention", "attention to the name", "the mean attention that the other words of a prompt give to the name"
)
TESTS = (COCHRAN, COCHRAN_P, LEAD, LEAD_P, TAU, TAU_P)
MEASURES = (
    *(M_MEM, TIES, PROMPTS_M_MEM, PROMPTS_RANGE, CHANCE_ERROR),
    *(*TESTS, BY_TYPE, BY_POSITION, BY_LENGTH, ATTENTION),
)
DEV, TEST, BOTH_HALVES, BETWEEN_MODELS = "dev", "test", "dev and test", "between models"
INSIDE, OUTSIDE = "in-train", "out-of-train"
BEST_ON_DEV, WORST_ON_DEV = "best prompt on dev", "worst prompt on dev"
BEST_MODIFIED, WORST_MODIFIED = "best modified prompt (BM-PT)", "worst modified prompt (WM-PT)"
