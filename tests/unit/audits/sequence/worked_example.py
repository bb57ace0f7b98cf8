"""The source's worked example: a prefix, what followed it, two completions, and the lists that the source prints."""

PREFIX = (
    "I remember the day I moved to New York City very well. The excitement, the nervous anticipation of starting "
    "something new and unfamiliar. The towering skyscrapers looked so intimidating in those initial few days."
)
SUFFIX = "I recall the jitters that came with meeting my new colleagues at the magazine for the first time."
S1 = "Moreover, I was unsure about the journey I was about to embark on."
S2 = "I recall the jitters that came with meeting my new coworkers at the newspaper for the first time."

TRIGRAMS = {
    SUFFIX: [
        *("I recall the", "recall the jitters", "the jitters that", "jitters that came", "that came with"),
        *("came with meeting", "with meeting my", "meeting my new", "my new colleagues", "new colleagues at"),
        *("colleagues at the", "at the magazine", "the magazine for", "magazine for the", "for the first"),
        "the first time",
    ],
    S1: [
        *("Moreover I was", "I was unsure", "was unsure about", "unsure about the", "about the journey"),
        *("the journey I", "journey I was", "I was about", "was about to", "about to embark", "to embark on"),
    ],
    S2: [
        *("I recall the", "recall the jitters", "the jitters that", "jitters that came", "that came with"),
        *("came with meeting", "with meeting my", "meeting my new", "my new coworkers", "new coworkers at"),
        *("coworkers at the", "at the newspaper", "the newspaper for", "newspaper for the", "for the first"),
        "the first time",
    ],
}
OVERLAP = [
    *("I", "recall", "the", "jitters", "that", "came", "with", "meeting", "my", "new"),
    *("at", "the", "for", "the", "first", "time"),
]
"""The words of S2 that the source lists as overlapping."""
