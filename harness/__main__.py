"""Entry point of `harness` and of `python -m harness`."""

from harness.cli.interrupts import keep_interrupts


def main() -> None:
    """Run the command line, from its first import on with interrupts that count."""
    keep_interrupts()
    from harness.cli import app

    app.main()


if __name__ == "__main__":
    main()
