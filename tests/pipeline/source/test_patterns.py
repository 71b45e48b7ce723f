r"""Patterns of topic names mean what they mean to Java. Guards: Java's classes (`\p{Alnum}`) are refused."""

import pytest

from syncline.pipeline.errors import OptionError
from syncline.pipeline.source.patterns import TopicPattern

NAMES = ("flights", "Flights-2", "a.b", "a-b", "a|b", "orders_1", "__x", "aab", "aa", "A9", "t]", "p-q", "l", "[")

# What `java.util.regex` of Java 17 said: which of the names match as a whole. "!!" is a pattern that Java refuses.
JAVA = {
    r"\p{Alnum}+": "flights aab aa A9 l",
    r"\p{Alpha}++": "flights aab aa l",
    r"\P{Punct}*": "flights aab aa A9 l",
    r"[\p{Alnum}&&[^f]]+": "aab aa A9 l",
    r"[a-f[g-z]]+": "flights aab aa l",
    r"[\p{Lower}\p{Digit}_]+": "flights orders_1 __x aab aa l",
    r"a++b": "aab",
    r"a*+ab": "",
    r"\Qa.b\E": "a.b",
    r"\Qa.b": "a.b",
    r"(?<x>a)\k<x>b": "aab",
    r"\x{61}a": "aa",
    r"\0141{2}": "aa",
    r"(?i)FLIGHTS": "flights",
    r"(?iu)flights.*": "flights Flights-2",
    r"(?d)l": "l",
    r"(?i:F)lights": "flights",
    r"[a||b]+": "a|b aab aa",
    r"[[:alpha:]]": "l",
    r"[^\p{Punct}]+": "flights aab aa A9 l",
    r"\p{javaLowerCase}+": "flights aab aa l",
    r"\p{IsLatin}+": "flights aab aa l",
    r"\p{L}\p{Nd}": "A9",
    r"\w+": "flights orders_1 __x aab aa A9 l",
    r"\p{XDigit}+": "aab aa A9",
    r"(?:a|b)+": "aab aa",
    r"(": "!!",
    r"[a": "!!",
    r"a{2,1}": "!!",
    r"*a": "!!",
    r"\p{NoSuch}": "!!",
    r"flights|orders_\d": "flights orders_1",
    r".*": "flights Flights-2 a.b a-b a|b orders_1 __x aab aa A9 t] p-q l [",
    r"(?!__).*": "flights Flights-2 a.b a-b a|b orders_1 aab aa A9 t] p-q l [",
    r"t\]": "t]",
    r"[\Q[]\E]": "[",
    r"[\]t]+": "t]",
    r"\p{Graph}+": "flights Flights-2 a.b a-b a|b orders_1 __x aab aa A9 t] p-q l [",
    r"a(?>b|a)b": "aab",
    r"(?x) f lights": "flights",
    r"[a-z&&[^b-z]]+": "aa",
    r"\p{IsAlphabetic}+": "flights aab aa l",
    r"[\w&&\D]+": "flights __x aab aa l",
}


@pytest.mark.parametrize("pattern", JAVA)
def test_patterns_match_whole_names_as_java_does(pattern: str) -> None:
    """Recorded from Java, name by name."""
    if JAVA[pattern] == "!!":
        with pytest.raises(OptionError, match="not a Java regular expression"):
            TopicPattern(pattern).matches("flights")
        return

    matched = [name for name in NAMES if TopicPattern(pattern).matches(name)]

    assert JAVA[pattern].split() == matched


def test_patterns_that_never_end_are_given_up_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested repetitions take longer than the universe lasts; a query must say so instead."""
    monkeypatch.setattr("syncline.pipeline.source.patterns._MATCH_S_MAX", 0.05)

    with pytest.raises(OptionError, match="without nested repetitions"):
        TopicPattern(r"(a|aa)+$b").matches("a" * 60)
