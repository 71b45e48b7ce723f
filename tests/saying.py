"""What a tool tells the person who watches it, or the process that started it: line by line, each at once."""


def say(text: str) -> None:
    """Print at once, also into a file or a pipe."""
    print(text, flush=True)  # noqa: T201 - tools alone use this
