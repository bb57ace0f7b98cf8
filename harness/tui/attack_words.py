"""What an attack does, in the words that stand beside the list: first what its file says, then its parameters."""

from harness.core.text import sanitize
from harness.plugins.discovery import AttackFile
from harness.plugins.parameters import parameters_in
from harness.plugins.schema import AttackSchema


def in_short(attack: AttackFile) -> str:
    """What is known of the attack without asking it: its summary, or why it is broken."""
    if attack.error is not None:
        return f"{sanitize(attack.name)} is broken\n\n{sanitize(attack.error)}"
    return f"{sanitize(attack.shown_name)}\n\n{sanitize(attack.summary)}"


def in_full(attack: AttackFile, schema: AttackSchema) -> str:
    """All that the attack says of itself: its docstring, its reference and its parameters."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in schema.doc.split("\n\n")]
    lines = [sanitize(attack.shown_name), "", *(f"{sanitize(paragraph)}\n" for paragraph in paragraphs)]
    if attack.reference:
        lines += [f"reference: {sanitize(attack.reference)}", ""]
    lines += [sanitize(f"{parameter.name}: {parameter.in_words}") for parameter in parameters_in(schema.schema)]
    return "\n".join(lines)
