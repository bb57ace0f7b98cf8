"""The quantities that a leakage audit reports."""

from harness.audits.leakage.rows import MAX_MATCHES, MODEL_SIZES, PREFIX_LENGTHS
from harness.audits.near_results import NEAR_MEASURES
from harness.audits.probabilities import DISCOVERABLE
from harness.core.measures import Measure, Unit

MEAN_ESP = Measure(
    "mean_esp",
    "mean ESP",
    "the extraction rate: the share of sequences that one query each is expected to return. ESP is the probability "
    "that a query returns the suffix exactly",
)
QUANTILE = Measure("esp_quantile", "ESP", "a quantile of the ESP", at="quantile {}", at_name="level of the quantile")
OVER = Measure(
    "esp_over", "ESP > 1/{at}", "the share of sequences with ESP > 1/X", at_name="X, the queries per sequence"
)
EXCEED = Measure(
    "queries_to_exceed_greedy",
    "queries to exceed greedy",
    "queries X after which more sequences have ESP > 1/X than greedy decoding returns; null beyond 10⁶",
    unit=Unit.NUMBER,
)
EXPECTED_EXCEED = Measure(
    "expected_queries_to_exceed_greedy",
    "expected queries",
    "queries that are expected to return more sequences than greedy decoding; null beyond 10⁶",
    unit=Unit.NUMBER,
)
FACTOR = Measure(
    "underestimate",
    "factor at {at} queries",
    "the share of sequences with ESP > 1/X divided by the extraction rate",
    unit=Unit.NUMBER,
    at_name="X, the queries per sequence",
)
EXPECTED_FACTOR = Measure(
    "expected_underestimate",
    "expected factor at {at} queries",
    "the share of sequences that X queries are expected to return, divided by the extraction rate",
    unit=Unit.NUMBER,
    at_name="X, the queries per sequence",
)
TOKEN = Measure(
    "token_probability",
    "token probability",
    "the mean probability of a suffix token",
    at="position {}",
    at_name="position in the suffix",
)
LAST_TO_FIRST = Measure(
    "last_to_first", "last / first", "the last token's mean probability divided by the first one's", unit=Unit.NUMBER
)
ISP = Measure(
    "isp",
    "n-ISP",
    "the mean probability that a query returns the suffix with exactly n tokens substituted; low and high are bounds",
    at="n = {}",
    at_name="n, the substituted tokens",
)
ISP_ESP = Measure("esp_of_isp", "mean ESP", "the mean ESP of the sequences whose n-ISP is measured", at_name="n")
ISP_EXACT = Measure("isp_exact", "exact", "sequences whose n-ISP is exact", unit=Unit.NUMBER, at_name="n")
ISP_OVER = Measure("isp_over_esp", "ISP > ESP", "the share of sequences with n-ISP > ESP", at="n = {}", at_name="n")
ISP_OVER_MOST = Measure(
    "isp_over_esp_at_most", "share at most", "the share of sequences with n-ISP > ESP, by the upper bounds", at_name="n"
)
WRONG = Measure(
    "wrong_positions",
    "matches",
    f"those of the {MAX_MATCHES} likeliest matches with n substituted tokens that differ at exactly the positions in "
    "`side`; fewer if the search found fewer matches of at least `--least`",
    unit=Unit.NUMBER,
    at="n = {}",
    at_name="n, the substituted tokens",
)
EASIER = {
    MODEL_SIZES: Measure(
        "easier_with_smaller_model",
        "easier with a smaller model",
        "the share of sequences with a larger ESP under some smaller model than under the largest one",
    ),
    PREFIX_LENGTHS: Measure(
        "easier_with_shorter_prefix",
        "easier with a shorter prefix",
        "the share of sequences with a larger ESP after some shorter prefix than after the whole one",
    ),
}
TRENDS = {
    over: Measure(
        f"trend_over_{over.replace(' ', '_')}",
        "class of Tiwari & Suh",
        f"the share of sequences in one of the classes of changes over {over} of Tiwari & Suh, which overlap",
    )
    for over in (MODEL_SIZES, PREFIX_LENGTHS)
}
MEASURES = (
    MEAN_ESP,
    QUANTILE,
    OVER,
    EXCEED,
    EXPECTED_EXCEED,
    FACTOR,
    EXPECTED_FACTOR,
    *DISCOVERABLE.values(),
    TOKEN,
    LAST_TO_FIRST,
    ISP,
    ISP_ESP,
    ISP_EXACT,
    ISP_OVER,
    ISP_OVER_MOST,
    *NEAR_MEASURES,
    WRONG,
    *EASIER.values(),
    *TRENDS.values(),
)
