"""The text about an attack: its summary first, then its docstring, reference and parameters."""

from harness.core.text import sanitize
from harness.plugins.discovery import AttackFile
from harness.plugins.parameters import parameters_in
from harness.plugins.schema import AttackSchema


def attack_description(attack: AttackFile, schema: AttackSchema | None = None) -> str:
    """Return the text that Home shows about `attack`; without its schema, only its summary or why it is broken."""
    if attack.error is not None:
        return f"{sanitize(attack.name)} is broken\n\n{sanitize(attack.error)}"
    if schema is None:
        return f"{sanitize(attack.shown_name)}\n\n{sanitize(attack.summary)}"
    paragraphs = [" ".join(paragraph.split()) for paragraph in schema.doc.split("\n\n")]
    lines = [sanitize(attack.shown_name), "", *(f"{sanitize(paragraph)}\n" for paragraph in paragraphs)]
    if attack.reference:
        lines += [f"Reference: {sanitize(attack.reference)}", ""]
    lines += [sanitize(f"{parameter.name}: {parameter.in_words}") for parameter in parameters_in(schema.schema)]
    return "\n".join(lines)
