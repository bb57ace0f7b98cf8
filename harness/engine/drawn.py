"""What a target answers: drawn suffixes and scored ones, as NumPy arrays on the host."""

from dataclasses import dataclass

from harness.core.arrays import Floats, Ints, Tokens


@dataclass(frozen=True)
class Drawn:
    """Sampled suffixes, one row for each distinct suffix of each prefix, by prefix and then by suffix.

    row: [rows] int64, index into the prefixes; suffixes: [rows, length] uint16 or uint32; count: [rows] int64, how
    many trials drew it (sums to `trials` for each prefix); token_logprobs: [rows, length] float64, natural logarithms
    under the model itself (temperature 1, no filter); policy_logprob: [rows] float64, the suffix's log-probability
    under the policy that drew it; last_prefix_logprob: [prefixes] float64, the model's log-probability of a prefix's
    last token given the earlier ones (NaN for prefixes of one token).
    """

    row: Ints
    suffixes: Tokens
    count: Ints
    token_logprobs: Floats
    policy_logprob: Floats
    last_prefix_logprob: Floats

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Found:
    """Likely distinct suffixes, by prefix and then by probability under the policy, the likeliest first.

    row, suffixes, token_logprobs, policy_logprob, last_prefix_logprob: as in `Drawn`. certificate: [prefixes] float64,
    the largest log-probability of a beginning that was dropped: every suffix that is not here is at most as likely
    under the policy. -inf where nothing was dropped.
    """

    row: Ints
    suffixes: Tokens
    token_logprobs: Floats
    policy_logprob: Floats
    last_prefix_logprob: Floats
    certificate: Floats

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Scored:
    """Given suffixes under the model itself, in natural units.

    token_logprobs: [rows, length] float64; margin: [rows, length] float64, by how much the log-probability of the most
    likely token exceeds that of the second; rank: [rows, length] int64, how many tokens are more likely (0: the most
    likely; equal ones by id); entropy: [rows, length] float64, of the next-token distribution; last_prefix_logprob:
    [rows] float64, as in `Drawn`.
    """

    token_logprobs: Floats
    margin: Floats
    rank: Ints
    entropy: Floats
    last_prefix_logprob: Floats

    def __len__(self) -> int:
        return len(self.token_logprobs)
