"""JAAS lines are read as Java reads them, and a broken one is refused without repeating what it hides."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.pipeline.client import jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def _options(line: str) -> dict[str, str]:
    return {name: value.text for name, value in jaas.parse(line).options.items()}


@pytest.mark.parametrize(
    ("line", "options"),
    [
        pytest.param(f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}, id="usual"),
        pytest.param(f"  {PLAIN}\n\tREQUIRED\r\n username = 'a' ;  ", {"username": "a"}, id="blanks, single quotes"),
        pytest.param(f"{PLAIN} optional username=a-b_c.d;", {"username": "a-b_c.d"}, id="unquoted"),
        pytest.param(f"{PLAIN} required;", {}, id="no options"),
        pytest.param(f'{PLAIN} required p="a;b=c // d";', {"p": "a;b=c // d"}, id="signs within quotes"),
        pytest.param(rf'{PLAIN} required p="a\"b\\c\n\101";', {"p": 'a"b\\c\nA'}, id="escapes"),
        pytest.param(f'{PLAIN} required p="it\'s";', {"p": "it's"}, id="the other quotation mark"),
        pytest.param(f'{PLAIN} required // why\n /* a="x" */ p="b";', {"p": "b"}, id="comments"),
        pytest.param(f'{PLAIN} required "p"="";', {"p": ""}, id="quoted name, empty value"),
        pytest.param(f'{PLAIN} required p="pässwörd ☃";', {"p": "pässwörd ☃"}, id="not ASCII"),
        pytest.param(f'{PLAIN} required a="1"b="2";', {"a": "1", "b": "2"}, id="no blank between options"),
    ],
)
def test_line_is_read(line: str, options: dict[str, str]) -> None:
    """The module is known by its name without the package, so that shaded classes are, too."""
    assert jaas.parse(line).module == "PlainLoginModule"
    assert _options(line) == options


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param("", "must begin with", id="empty"),
        pytest.param("username=hush", "must begin with", id="options alone"),
        pytest.param(f"{PLAIN} perhaps p=hush;", "must begin with", id="unknown flag"),
        pytest.param(f"{PLAIN} required p=hush", "end with a semicolon", id="no semicolon"),
        pytest.param(f"{PLAIN} required p=", "end with a semicolon", id="no value"),
        pytest.param(f"{PLAIN} required p=;", "not option=", id="semicolon for a value"),
        pytest.param(f"{PLAIN} required p hush;", "not option=", id="no sign"),
        pytest.param(f'{PLAIN} required p="hush;', "unterminated quotation", id="open quotation"),
        pytest.param(f'{PLAIN} required p="hush\nhush";', "unterminated quotation", id="line end in quotation"),
        pytest.param(f'{PLAIN} required p="hush\\', "unterminated quotation", id="backslash at the end"),
        pytest.param(f"{PLAIN} required p=hush p=hush;", "option p occurs twice", id="twice"),
        pytest.param(f"{PLAIN} required p=hush; {PLAIN} required;", "after the semicolon", id="two modules"),
        pytest.param(f"{PLAIN} required p={{hush}};", "something unexpected", id="braces"),
        pytest.param(f"{PLAIN} required /* hush", "something unexpected", id="open comment"),
        pytest.param("x" * 70_000, "longer than", id="long"),
    ],
)
def test_line_is_refused_without_its_secrets(line: str, told: str) -> None:
    """Where and why, but never what stood there."""
    with pytest.raises(jaas.JaasError, match=told) as refused:
        jaas.parse(line)

    assert "hush" not in str(refused.value)


_values = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=40)


@given(st.dictionaries(st.from_regex(r"[a-z_.-]{1,8}", fullmatch=True), _values, max_size=5))
def test_any_value_can_be_quoted(options: dict[str, str]) -> None:
    """A backslash before each quotation mark and backslash is enough."""
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in options.items()}
    written = " ".join(f'{name}="{value}"' for name, value in quoted.items())

    assert _options(f"{PLAIN} required {written};") == options


@given(st.text(st.sampled_from(list("ab \"'\\=;/*\n{1")), max_size=60))
def test_any_other_text_is_read_or_refused(tail: str) -> None:
    """Nothing but `JaasError` comes out."""
    try:
        jaas.parse(f"{PLAIN} required {tail}")
    except jaas.JaasError:
        return


@pytest.mark.parametrize("part", ['"', "\\", '"\\', "/*", "/* ", "a=", '"" ', "' "])
def test_hostile_lines_take_no_time(part: str) -> None:
    """Time grows with the length alone: the longest line of the worst kind takes far less than a second."""
    line = (f"{PLAIN} required " + part * jaas.LINE_CHARACTERS_MAX)[: jaas.LINE_CHARACTERS_MAX]
    began = time.process_time()
    with pytest.raises(jaas.JaasError):
        jaas.parse(line)

    assert time.process_time() - began < 1


def test_what_was_read_shows_no_value() -> None:
    """An entry may be printed."""
    assert "hush" not in repr(jaas.parse(f"{PLAIN} required password=hush;"))
