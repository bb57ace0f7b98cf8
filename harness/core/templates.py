"""Fill in the templates of texts that are not HTML: nothing in a value is escaped."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def filled_in(package: str, template: str, **values: Any) -> str:
    """Return the template of this name in the folder `templates` of `package`, with `values` in it."""
    templates = Environment(
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - shell, YAML and Markdown
    )
    return templates.get_template(f"{template}.j2").render(values)
