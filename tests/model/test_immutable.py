"""Immutable records: they are equal, hash and print as those of `dataclasses` do."""

import pickle
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from syncline.model.immutable import Immutable


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Place(Immutable):
    """A record with a field that is not compared."""

    partition: int
    offset: int = 0
    note: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OtherPlace(Immutable):
    """The same in another class."""

    partition: int
    offset: int = 0
    note: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Nowhere(Immutable):
    """No field is compared or shown."""

    hidden: str = field(default="", compare=False, repr=False)


def test_equal_fields_of_one_class_are_equal_and_hash_alike() -> None:
    """Fields that are not compared make no difference, another class does."""
    assert Place(1, 2) == Place(1, 2, note="seen")
    assert hash(Place(1, 2)) == hash(Place(1, 2, note="seen"))
    assert Place(1, 2) != Place(1, 3)
    assert Place(1, 2) != OtherPlace(1, 2)
    assert Place(1, 2) != (1, 2)
    assert Nowhere("a") == Nowhere("b")
    assert {Place(1, 2), Place(1, 2), Place(2, 2)} == {Place(1, 2), Place(2, 2)}


def test_text_has_the_fields_that_are_shown() -> None:
    """As `dataclasses` writes it."""
    assert repr(Place(1, 2, "x")) == "Place(partition=1, offset=2, note='x')"
    assert repr(Nowhere("secret")) == "Nowhere()"


def test_records_stay_immutable_and_small() -> None:
    """No attribute can be set, none can be added, and a copy is equal."""
    with pytest.raises(FrozenInstanceError):
        Place(1).offset = 3  # type: ignore[misc]
    assert not hasattr(Place(1), "__dict__")
    assert pickle.loads(pickle.dumps(Place(1, 2))) == Place(1, 2)
