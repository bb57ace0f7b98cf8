"""The colours of a theme, made readable: a contrast of 4.5 to 1 for text (WCAG 2.2, 1.4.3)."""

from collections.abc import Mapping

from textual.color import Color, ColorParseError

MIN_CONTRAST = 4.5
_TEXTS = ("text-success", "text-error", "text-warning", "text-primary", "text-accent", "text-secondary")
_BACKGROUNDS = ("background", "surface", "panel", "primary-muted")
_STEPS = 20


def readable_variables(variables: Mapping[str, str], *, is_dark: bool) -> dict[str, str]:
    """Return the variables of a theme with texts that are readable on its backgrounds and under the cursor.

    Colours of the terminal stay as they are, because they have no value here.
    """
    changed = {"text-muted": "auto 75%", "text-disabled": "auto 65%"}
    try:
        backs = [Color.parse(variables[name]) for name in _BACKGROUNDS]
        backs.append(cursor_colour(backs[0], Color.parse(variables["block-cursor-background"]), is_dark=is_dark))
        changed["input-selection-background"] = Color.parse(variables["primary"]).with_alpha(0.25).hex
        for name in _TEXTS:
            changed[name] = _readable(Color.parse(variables[name]), backs).hex
    except (KeyError, ColorParseError):
        pass
    return {**variables, **changed}


def cursor_colour(background: Color, cursor: Color, *, is_dark: bool) -> Color:
    """Return the background of the row under the cursor, pale enough for the colours of the cells."""
    return background.blend(cursor, 0.35 if is_dark else 0.12)


def contrast(front: Color, back: Color) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted(map(_luminance, (front, back)))
    return (high + 0.05) / (low + 0.05)


def _readable(colour: Color, backs: list[Color]) -> Color:
    target = backs[0].get_contrast_text(1.0)
    for step in range(_STEPS):
        candidate = colour.blend(target, step / _STEPS)
        if all(contrast(candidate, back) >= MIN_CONTRAST for back in backs):
            return candidate
    return target


def _luminance(colour: Color) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
