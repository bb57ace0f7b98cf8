"""Write the generated parts of docs/reference/ again: `make reference`."""

from tests.reference.pages import PAGES, filled


def main() -> None:
    """Fill every page, and print those that changed."""
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        if (new := filled(old)) != old:
            page.write_text(new, encoding="utf-8")
            print(page)


if __name__ == "__main__":
    main()
