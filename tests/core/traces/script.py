"""A trace file: story, commands, and what came of each command."""

from pathlib import Path

from .stage import Stage, words_of

HERE = Path(__file__).parent
COMMANDS = (
    *("clock", "deliver", "fence", "fetch", "kill", "metadata", "produce"),
    *("show", "start", "stop", "tick", "unfence", "watch"),
)


class ScriptError(Exception):
    """A line of a trace file that cannot be played."""


def files() -> list[Path]:
    """Return all traces, in the order of their numbers."""
    return sorted(HERE.glob("[0-9][0-9]-*.txt"))


def play(text: str) -> str:
    """Return the file as it should be: its story and its commands, each with what comes of it now."""
    lines: list[str] = []
    stage: Stage | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            if lines and not lines[-1].startswith("#"):
                lines.append("")
            lines.append(line)
        if not line.startswith("> "):
            continue
        if lines and not lines[-1].startswith("#"):
            lines.append("")
        lines.append(line)
        name, *arguments = line[2:].split()
        plain, options = words_of(arguments)
        if name == "cluster":
            stage = Stage(lines.append, **options)
        elif stage is None or name not in COMMANDS:
            raise ScriptError(
                f"line {number}: {line}: the first command is `cluster`, the others: {', '.join(COMMANDS)}"
            )
        else:
            try:
                getattr(stage, name)(*plain, **options)
            except (AssertionError, LookupError, TypeError, ValueError) as error:
                raise ScriptError(f"line {number}: {line}: {error!r}") from error
    return "\n".join(lines) + "\n"
