"""The most likely token at every step, ranked by mean log-probability.

Memorization is commonly defined by this attack alone: a suffix is extractable if greedy decoding from its prefix yields
it. The attack generates one suffix per prefix and is deterministic.
"""

from collections.abc import Iterator

from harness import Attack, Context, Guesses, Params, Policy


class Greedy(Attack[Params]):
    name = "greedy"
    reference = "Carlini et al., Quantifying Memorization Across Neural Language Models, ICLR 2023"

    def run(self, context: Context) -> Iterator[Guesses]:
        for batch in context.batches(size=256):
            drawn = context.target.sample(batch.prefixes, Policy(top_k=1), trials=1, seed=batch.seed)
            yield Guesses(batch.ids[drawn.row], drawn.suffixes, score=drawn.token_logprobs.mean(axis=1))
