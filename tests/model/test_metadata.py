"""Images, changes between them, and their written form."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.model.ids import TopicPartition
from syncline.model.metadata import (
    BrokerChanged,
    BrokerRecord,
    BrokerRemoved,
    Change,
    ClusterCreated,
    ConfigResource,
    ConfigsChanged,
    ControllerChanged,
    MetadataImage,
    MoveChanged,
    MoveRecord,
    MoveRemoved,
    PartitionRecord,
    PartitionsChanged,
    ProducerIdsAllocated,
    Recovery,
    ResourceType,
    TopicCreated,
    TopicDeleted,
)
from syncline.model.metadata_delta import difference, touched_count
from syncline.model.metadata_json import MANY, decode_changes, encode_changes

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
T_ID = UUID(int=7)


def record(partition: int, **changes: object) -> PartitionRecord:
    """Return a partition of two replicas, changed."""
    return PartitionRecord(partition, 1, 0, 0, (1, 2), (1, 2))._replace(**changes)


def start() -> MetadataImage:
    """Return an image with a broker, two topics and two configurations."""
    return MetadataImage().apply(
        [
            ClusterCreated("c"),
            BrokerChanged(BrokerRecord(1, 2, "x", "h", 1, "h", 2)),
            TopicCreated("t", T_ID, (record(0), record(1))),
            TopicCreated("u", UUID(int=8), (record(0),)),
            ConfigsChanged(TOPIC, {"a": "1", "b": "2"}),
        ],
        1,
    )


def test_applying_leaves_the_old_image_as_it_was() -> None:
    """Images are values: a change leaves the old one intact."""
    old = start()
    old.apply([PartitionsChanged(T_ID, (record(1, leader=2),)), ConfigsChanged(TOPIC, {"a": None})], 2)

    assert old == start()


def test_partitions_are_replaced_and_appended_by_number() -> None:
    """A known number is changed, the next one is new."""
    new = start().apply([PartitionsChanged(T_ID, (record(1, leader=2), record(2)))], 2)

    assert new.topics["t"].partitions == (record(0), record(1, leader=2), record(2))


def test_difference_names_what_changed_and_nothing_else() -> None:
    """Changed partitions, configurations and brokers; the untouched topic is not looked at."""
    old = start()
    new = old.apply(
        [
            PartitionsChanged(T_ID, (record(1, leader=2),)),
            ConfigsChanged(TOPIC, {"a": None}),
            BrokerChanged(BrokerRecord(2, 3, "y", "h", 1, "h", 2)),
        ],
        2,
    )
    delta = difference(old, new)

    assert delta.partitions == (TopicPartition("t", 1),)
    assert (delta.configs, delta.brokers) == ((TOPIC,), (2,))
    assert delta.deleted_topics == ()
    assert new.topics["u"] is old.topics["u"]


def test_topic_deleted_and_created_again_is_both() -> None:
    """The same name under another id is another topic."""
    old = start()
    new = old.apply([TopicDeleted(T_ID), TopicCreated("t", UUID(int=9), (record(0),))], 2)
    delta = difference(old, new)

    assert [topic.topic_id for topic in delta.deleted_topics] == [T_ID]
    assert delta.partitions == (TopicPartition("t", 0),)


def test_deleted_topic_takes_its_configurations_along() -> None:
    """A later topic of that name does not inherit them."""
    new = start().apply([TopicDeleted(T_ID)], 2)

    assert new.topic_configs("t") == {}
    assert new.topic_by_id(T_ID) is None


def test_snapshot_leads_to_the_same_image() -> None:
    """An image is what its own changes make of the empty one."""
    image = start().apply([ControllerChanged(1, 4), ProducerIdsAllocated(3_000)], 2)
    snapshot = decode_changes(encode_changes(image.as_changes()))

    assert MetadataImage().apply(snapshot, 2) == image


def test_unknown_change_is_refused() -> None:
    """A batch of a newer version is refused, not read in part."""
    with pytest.raises(ValueError, match="newer version"):
        decode_changes('[["levitate",1]]')


brokers = st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)
records = st.builds(
    PartitionRecord,
    partition=st.integers(0, 9_999),
    leader=st.integers(-1, 99),
    leader_epoch=st.integers(0, 2**31 - 1),
    partition_epoch=st.integers(0, 2**31 - 1),
    replicas=brokers,
    isr=brokers,
    elr=brokers,
    last_known_elr=brokers,
    adding=brokers,
    removing=brokers,
    recovery=st.sampled_from(Recovery),
    original=brokers,
    move=st.text(max_size=9),
)
partitions = st.lists(records, max_size=3).map(tuple)
changes = st.one_of(
    st.builds(ClusterCreated, st.text()),
    st.builds(ControllerChanged, st.integers(0, 9), st.integers(0, 2**40)),
    st.builds(
        BrokerChanged,
        st.builds(
            BrokerRecord,
            st.integers(0, 9),
            st.integers(0, 2**60),
            st.text(),
            st.text(),
            st.integers(0, 65_535),
            st.text(),
            st.integers(0, 65_535),
            st.none() | st.text(),
            st.booleans(),
            st.booleans(),
        ),
    ),
    st.builds(BrokerRemoved, st.integers(0, 9)),
    st.builds(TopicCreated, st.text(), st.uuids(), partitions),
    st.builds(PartitionsChanged, st.uuids(), partitions),
    st.builds(TopicDeleted, st.uuids()),
    st.builds(
        ConfigsChanged,
        st.builds(ConfigResource, st.sampled_from(ResourceType), st.text()),
        st.dictionaries(st.text(), st.none() | st.text(), max_size=3),
    ),
    st.builds(ProducerIdsAllocated, st.integers(0, 2**60)),
    st.builds(
        MoveChanged,
        st.builds(
            MoveRecord,
            move_id=st.text(),
            throttle_bytes_per_s=st.integers(-1, 2**60),
            started_ms=st.integers(0, 2**60),
            control=st.text(),
            deadline_ms=st.integers(-1, 2**60),
            impact_percent=st.integers(-1, 100),
            name=st.text(),
        ),
    ),
    st.builds(MoveRemoved, st.text()),
)


@given(st.lists(changes, max_size=5).map(tuple))
def test_written_form_gives_the_same_changes_back(batch: tuple[Change, ...]) -> None:
    """Every change survives the way through JSON."""
    assert decode_changes(encode_changes(batch)) == batch


@pytest.mark.parametrize("count", [MANY - 1, MANY, 3 * MANY])
def test_many_partitions_come_back_whatever_they_share(count: int) -> None:
    """New ones of a topic, and some of a topic, of which a few differ in one field each."""
    alike = tuple(record(number, leader=1 + number % 2) for number in range(count))
    odd = (moving(count), record(count + 5, leader_epoch=3), record(count + 7, recovery=Recovery.RECOVERING))
    batch = (TopicCreated("t", T_ID, alike), PartitionsChanged(T_ID, (*alike[::2], *alike[1::2], *odd)))

    text = encode_changes(batch)
    assert decode_changes(text) == batch
    assert [f'"{tag}"' in text for tag in ("topic+", "topic", "partitions")] == [count >= MANY, count < MANY, False]
    assert '"partitions+"' in text, "three more are many in any case"


@pytest.mark.parametrize(("distinct", "is_short"), [(MANY // 4, True), (MANY // 4 + 1, False), (MANY, False)])
def test_many_partitions_that_share_little_are_written_one_by_one(distinct: int, is_short: bool) -> None:
    """After a long life each has epochs of its own; with places and numbers besides, that would be longer."""
    partitions = tuple(record(number, partition_epoch=number % distinct) for number in range(MANY))
    batch = (TopicCreated("t", T_ID, partitions), PartitionsChanged(T_ID, partitions))
    text = encode_changes(batch)

    assert decode_changes(text) == batch
    assert text.count("+") == (2 if is_short else 0)


def test_many_partitions_take_the_space_of_their_numbers() -> None:
    """A topic of ten thousand partitions was half a megabyte, read and written by each broker while clients waited."""
    partitions = tuple(record(number) for number in range(10_000))
    text = encode_changes([TopicCreated("t", T_ID, partitions)])

    assert len(text) < 10 * len(partitions)
    (read,) = decode_changes(text)
    assert isinstance(read, TopicCreated)
    assert len({id(each.replicas) for each in read.partitions}) == 1


def test_many_partitions_that_were_written_one_by_one_load() -> None:
    """Stores of before have them so."""
    rows = ",".join(f"[{number},1,5,20,[1,2],[1,2],[],[],[],[],0]" for number in range(2 * MANY))
    (change,) = decode_changes(f'[["topic","t","{T_ID.hex}",[{rows}]]]')

    expected = tuple(PartitionRecord(number, 1, 5, 20, (1, 2), (1, 2)) for number in range(2 * MANY))
    assert change == TopicCreated("t", T_ID, expected)


def test_touched_are_all_partitions_of_topics_that_differ() -> None:
    """What a difference could list at most, counted without a look at partitions."""
    old = start()
    same = old.apply([ProducerIdsAllocated(5)], 2)
    one = old.apply([PartitionsChanged(T_ID, (record(1, partition_epoch=1),))], 2)
    more = one.apply([TopicCreated("v", UUID(int=9), (record(0), record(1), record(2)))], 3)
    gone = old.apply([TopicDeleted(T_ID)], 2)

    assert [touched_count(old, each) for each in (old, same, one, more, gone)] == [0, 0, 2, 5, 0]


def test_partitions_written_before_there_were_moves_load() -> None:
    """Their rows end with the recovery state: nothing is reassigned."""
    row = "[0,1,5,20,[1,2],[1,2],[],[],[],[],0]"
    (change,) = decode_changes(f'[["partitions","{T_ID.hex}",[{row}]]]')

    assert change == PartitionsChanged(T_ID, (PartitionRecord(0, 1, 5, 20, (1, 2), (1, 2)),))
    assert isinstance(change, PartitionsChanged)
    assert (change.partitions[0].original, change.partitions[0].move) == ((), "")


def moving(number: int, move: str = "m") -> PartitionRecord:
    """Return a partition that a move owns."""
    return record(number, replicas=(1, 2), isr=(1,), adding=(2,), original=(1,), move=move)


def test_moves_count_what_they_own() -> None:
    """Through changes, other owners and the deletion of topics; a delta names moves that changed."""
    old = start()
    begun = old.apply([MoveChanged(MoveRecord("m", 5)), PartitionsChanged(T_ID, (moving(0), moving(1)))], 2)
    taken = begun.apply([MoveChanged(MoveRecord("n")), PartitionsChanged(T_ID, (moving(1, "n"),))], 3)
    gone = taken.apply([TopicDeleted(T_ID), MoveRemoved("m"), MoveRemoved("n")], 4)

    assert (begun.moves, begun.move_sizes) == ({"m": MoveRecord("m", 5)}, {"m": 2})
    assert taken.move_sizes == {"m": 1, "n": 1}
    assert (gone.moves, gone.move_sizes) == ({}, {})
    assert difference(old, begun).moves == ("m",)
    assert difference(begun, taken).moves == ("n",)
    assert MetadataImage().apply(decode_changes(encode_changes(taken.as_changes())), 3) == taken


GOOD = record(0, replicas=(1, 2, 3), isr=(1, 2), elr=(3,))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        pytest.param({"leader": 3}, "the leader is not in its ISR", id="leader-outside"),
        pytest.param({"isr": (1, 2, 4)}, "in sync without being a replica", id="isr-outside"),
        pytest.param({"elr": (4,)}, "eligible without being a replica", id="elr-outside"),
        pytest.param({"elr": (2,)}, "both in sync and only eligible", id="isr-and-elr"),
        pytest.param({"replicas": (1, 2, 3, 3)}, "a broker has two replicas", id="twice"),
    ],
)
def test_partition_that_no_decision_may_make_trips_an_assertion(wrong: dict[str, object], sentence: str) -> None:
    """A check finds a planted bug in the state, before any reply."""
    GOOD.check_invariants()
    with pytest.raises(AssertionError, match=sentence):
        GOOD._replace(**wrong).check_invariants()


@pytest.mark.parametrize(
    ("changes", "version", "sentence"),
    [
        pytest.param([], 3, "version 3 after 1", id="version-left-out"),
        pytest.param([PartitionsChanged(T_ID, (record(3),))], 2, "3 after 2 partitions", id="hole"),
        pytest.param([PartitionsChanged(T_ID, (record(0, leader_epoch=-1),))], 2, "leader epoch falls", id="term"),
        pytest.param(
            [PartitionsChanged(T_ID, (record(0, partition_epoch=-1),))], 2, "partition epoch falls", id="epoch"
        ),
    ],
)
def test_batch_that_no_controller_may_commit_trips_an_assertion(
    changes: list[Change], version: int, sentence: str
) -> None:
    """Versions are consecutive, numbers without holes, epochs never fall."""
    with pytest.raises(AssertionError, match=sentence):
        start().apply(changes, version)


def test_image_that_no_batch_makes_trips_an_assertion() -> None:
    """Numbers, names and owners fit together over the whole image."""
    sound = start()
    sound.check_invariants()
    orphan = {ConfigResource(ResourceType.TOPIC, "gone"): {"a": "1"}}
    shuffled = {"t": sound.topics["t"]._replace(partitions=(record(1), record(0)))}

    with pytest.raises(AssertionError, match="configurations of the topic gone, which does not exist"):
        replace(sound, configs=orphan).check_invariants()
    with pytest.raises(AssertionError, match="ids and names differ"):
        replace(sound, topic_names={}).check_invariants()
    with pytest.raises(AssertionError, match=r"partitions of t are numbered \[1, 0\]"):
        replace(sound, topics=shuffled, topic_names={T_ID: "t"}).check_invariants()
