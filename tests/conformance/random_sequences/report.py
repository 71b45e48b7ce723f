"""A failed sequence as text: the differences, then its steps, with both answers where they differ."""

import json

from tests.conformance.random_sequences.side_by_side import Outcome

SHOWN_MAX = 12


def report(outcome: Outcome) -> str:
    """Return all that is needed to understand a failure, and to write it down as a sequence."""
    lines = [f"{outcome.sequence.name}: {len(outcome.left)} differences"]
    lines += [f"  {each}" for each in outcome.left[:SHOWN_MAX]]
    lines += [f"  a broker logged: {each}" for each in outcome.tracebacks]
    lines += [
        f"  topic {short}: {each.replicas} {dict(each.configs)}" for short, each in outcome.sequence.topics.items()
    ]
    differing = {each.step for each in outcome.left}
    for step, row in enumerate(outcome.kafka):
        shown = {name: value for name, value in row.items() if name != "reply"}
        lines.append(f"  step {step}: {_line(shown)}")
        if step in differing:
            lines.append(f"    Kafka    {_line(row.get('reply'))}")
            other = outcome.syncline[step] if step < len(outcome.syncline) else {}
            lines.append(f"    Syncline {_line(other.get('reply', other))}")
    return "\n".join(lines)


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
