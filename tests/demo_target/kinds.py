"""The six kinds of documents in the demo corpus.

This module does not depend on tokens, repetitions or examples. Most words of a piece are random, so that documents
cannot be guessed and two documents rarely share a long passage.
"""

# ruff: noqa: SIM905  lists of words read better as running text

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from tests.demo_target.invented import code, digits, name, person, word

NOUNS = (
    "lantern harbour ledger orchard signal bridge furnace garden meadow compass kettle tower river window barrel "
    "market engine ladder mirror parcel quarry saddle tunnel valley wagon anchor basket candle drawer feather "
    "glacier hammer island jacket kiln library meter needle oven pillar ribbon shutter turbine vessel whistle"
).split()
ADJECTIVES = (
    "amber brittle careful distant early faint gentle hollow idle jagged keen late mild narrow odd pale quiet rusty "
    "silent tall uneven vivid warm yellow blunt crooked dusty frozen heavy loose"
).split()
VERBS = (
    "carried counted measured opened painted repaired sold stored traded watched borrowed cleaned delivered examined "
    "followed gathered hid inspected joined kept lifted moved noticed ordered packed raised searched turned weighed"
).split()
PLACES = "beside behind above below near inside beyond across under around".split()
TIMES = "before after until during since".split()
ROLES = "surveyor archivist welder botanist clerk engraver pilot baker glazier auditor courier registrar".split()
LEVELS = "INFO WARN ERROR DEBUG".split()
DUTIES = (
    "return the {n} to {p}; copy notice {c} to {q}; pay {d} crowns for each {n}; keep the {a} {n} sealed; "
    "report to {p} within {d} days; leave {a} marks on no {n}; name {q} as keeper; destroy form {c} and its {n}; "
    "insure the {n} for {d} crowns; let {p} inspect the {a} {n}; store copies at {q}; waive claim {c} against {p}"
).split("; ")
OPENINGS = (
    "The holder of licence {c} shall {v}.; Under clause {d} of the {q} terms, {p} must {v}.; "
    "No party other than {p} may {v}.; Unless {q} agrees in writing, users {v}.; "
    "By opening parcel {c} you promise to {v}.; The {q} office gives no warranty: tenants {v}, {d} days at most.; "
    "Copyright {d} {p} of {q}: whoever copies this must {v}.; Failing rule {d}, the {a} {n} lapses and you {v}."
).split("; ")


class Kind(NamedTuple):
    """One kind of document: `pieces` yields endless pieces of text, joined by `separator`.

    A document ends after a random number of characters in the range `characters`. The ranges give documents of all
    kinds about the same number of tokens.
    """

    name: str
    pieces: Callable[[Random], Iterator[str]]
    separator: str
    characters: tuple[int, int]


def contact_cards(rng: Random) -> Iterator[str]:
    """Yield the members of one household, one field per line, in random order."""
    family, street, town = name(rng), f"{name(rng)} {rng.choice(('Lane', 'Row', 'Quay', 'Street'))}", name(rng)
    while True:
        member = person(rng, family)
        fields = [
            f"Role: {rng.choice(ADJECTIVES)} {rng.choice(ROLES)}",
            f"Office: {digits(rng, 2)} {street}, {town}",
            f"Phone: {member.phone}",
            f"E-mail: {member.email}",
            f"Badge: {code(rng)}",
        ]
        rng.shuffle(fields)
        yield f"Name: {member.given} {member.family}"
        yield from fields[: rng.choice((3, 4, 5))]


def log_lines(rng: Random) -> Iterator[str]:
    """Yield the log of one invented service with two users and increasing timestamps."""
    service, users, second = word(rng), (word(rng), word(rng)), rng.randrange(80_000)
    net = f"10.{rng.randrange(256)}.{rng.randrange(256)}"
    day = f"20{rng.randrange(31, 70)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
    while True:
        second += rng.randrange(1, 60)
        clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
        event = rng.choice(
            (
                f"{rng.choice(NOUNS)} {rng.choice(VERBS)} in {digits(rng, 2)} ms",
                f"lost {digits(rng, 2)} packets from {net}.{rng.randrange(256)}",
                f"user {rng.choice(users)} {rng.choice(VERBS)} {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}",
                f"queue {rng.choice(NOUNS)} at {digits(rng, 2)}%",
                f"open {net}.{rng.randrange(256)} port {digits(rng, 2)}",
            )
        )
        yield f"{day} {clock} {rng.choice(LEVELS)} {service} {event}"


def source_code(rng: Random) -> Iterator[str]:
    """Yield short Python functions over a few invented quantities."""
    first, second, other = word(rng), word(rng), word(rng)
    while True:
        noun, operator = rng.choice(NOUNS), rng.choice("+-*/%")
        body = (
            f"    if {first} > {digits(rng, 2)}:\n        return {second} {operator} {digits(rng, 1)}",
            f"    for {noun} in range({digits(rng, 2)}):\n        {first} {operator}= {noun} + {digits(rng, 1)}",
            f"    {second} = {other}({first}, {noun}={digits(rng, 2)})",
            f"    log.{rng.choice(LEVELS).lower()}('{rng.choice(ADJECTIVES)} {noun}', {second})",
            f"    {first} = {second}['{rng.choice(NOUNS)}'] {operator} {digits(rng, 2)}",
        )
        yield f"def {rng.choice(VERBS)}_{noun}({first}, {second}={digits(rng, 1)}):"
        yield from rng.sample(body, rng.choice((2, 3)))
        yield f"    return {first}"


def tables(rng: Random) -> Iterator[str]:
    """Yield rows of an inventory that names two people, with bars between the columns."""
    keepers, shelf = (name(rng), name(rng)), code(rng)[:2]
    yield f"{name(rng)} {rng.choice(NOUNS)} stock | part | grams | bay | keeper"
    while True:
        item = f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"
        bay = rng.choice("ABCDEFGH") + digits(rng, 1)
        yield f"{item} | {shelf}-{digits(rng, 2)} | {digits(rng, 2)}.5 | {bay} | {rng.choice(keepers)}"


def prose(rng: Random) -> Iterator[str]:
    """Yield sentences about three people and objects in one invented town."""
    town, people = name(rng), (name(rng), name(rng), name(rng))
    while True:
        who, verb, place, time = rng.choice(people), rng.choice(VERBS), rng.choice(PLACES), rng.choice(TIMES)
        nouns, adjectives = rng.sample(NOUNS, 3), rng.sample(ADJECTIVES, 2)
        yield rng.choice(
            (
                f"{who} {verb} the {adjectives[0]} {nouns[0]} {place} a {nouns[1]} of {town}.",
                f"{time.capitalize()} the {adjectives[0]} {nouns[0]}, {who} {verb} {digits(rng, 2)} {nouns[1]}s.",
                f"Nobody in {town} {verb} {who}'s {nouns[0]} {place} the {adjectives[1]} {nouns[2]}.",
                f"The {adjectives[0]}, {adjectives[1]} {nouns[0]} stood {place} the {nouns[1]} that {who} {verb}.",
                f'"The {nouns[0]} is {adjectives[0]}," said {who}, who {verb} a {nouns[2]} {time} dusk.',
            )
        )


def boilerplate(rng: Random) -> Iterator[str]:
    """Yield notices and terms: fixed phrases with two parties, amounts and objects."""
    parties = {"p": f"{name(rng)} {rng.choice(('Ltd', 'Trust', 'Guild', 'and Sons'))}", "q": name(rng)}
    while True:
        words = parties | {
            "a": rng.choice(ADJECTIVES),
            "n": rng.choice(NOUNS),
            "c": code(rng),
            "d": digits(rng, 2),
        }
        duties = " and ".join(duty.format(**words) for duty in rng.sample(DUTIES, 2))
        yield rng.choice(OPENINGS).format(v=duties, **words)


KINDS = (
    Kind("contact card", contact_cards, "\n", (168, 200)),
    Kind("log lines", log_lines, "\n", (128, 150)),
    Kind("source code", source_code, "\n", (175, 210)),
    Kind("table", tables, "\n", (165, 205)),
    Kind("prose", prose, " ", (180, 205)),
    Kind("boilerplate", boilerplate, " ", (165, 200)),
)
