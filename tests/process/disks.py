"""The replicas of a partition as their files hold them, compared, and damaged, from outside.

Segment files may be cut at different offsets on different brokers (a replica
that was truncated or restarted rolls when its own file is full), so what is
compared is the row of batches, not the row of files.
"""

from pathlib import Path

from syncline.records.batch import crc_matches, iterate


def log_bytes(data: Path, broker_id: int, topic: str, partition: int) -> bytes:
    """Return a replica's batches, all its segments one after the other."""
    directory = data / f"broker-{broker_id}" / f"{topic}-{partition}"
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def batches(log: bytes) -> list[tuple[int, int, bytes]]:
    """Return (base offset, leader epoch, bytes) of each batch; every one must be sound and follow the one before."""
    found = []
    expected = 0
    size = 0
    for position, header in iterate(memoryview(log), 0, len(log)):
        assert crc_matches(log, position, header), f"the batch at offset {header.base_offset} is damaged"
        assert header.base_offset == expected, f"offset {header.base_offset} follows {expected}"
        expected = header.next_offset
        size = position + header.size_bytes
        found.append((header.base_offset, header.leader_epoch, log[position:size]))
    assert size == len(log), f"{len(log) - size} bytes behind the last batch"
    epochs = [epoch for _, epoch, _ in found]
    assert epochs == sorted(epochs), "leader epochs go down"
    return found


def flip_bit(segment: Path, share: float = 0.5) -> int:
    """Flip a bit of a record, in the batch that lies at `share` of a segment file; return the batch's offset."""
    data = segment.read_bytes()
    found = list(iterate(memoryview(data), 0, len(data)))
    assert found, f"{segment} has no batch"
    position, header = found[min(len(found) - 1, int(share * len(found)))]
    at = position + header.size_bytes - 2
    with segment.open("r+b", buffering=0) as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 4]))
    return header.base_offset


def check_identical(data: Path, topic: str, partitions: int, broker_ids: tuple[int, ...] = (1, 2, 3)) -> int:
    """Assert that all replicas of each partition hold the same bytes; return how many bytes one replica has."""
    return sum(check_identical_replicas(data, topic, partition, broker_ids) for partition in range(partitions))


def check_identical_replicas(data: Path, topic: str, partition: int, broker_ids: tuple[int, ...]) -> int:
    """Assert that all replicas of one partition hold the same bytes; return how many bytes one replica has."""
    logs = {broker_id: log_bytes(data, broker_id, topic, partition) for broker_id in broker_ids}
    first = logs[broker_ids[0]]
    if any(log != first for log in logs.values()):
        rows = {broker_id: batches(log) for broker_id, log in logs.items()}
        shortest = min(map(len, rows.values()))
        for index in range(shortest):
            heads = {broker_id: row[index] for broker_id, row in rows.items()}
            assert len(set(heads.values())) == 1, (
                f"{topic}-{partition} differs: { {broker: head[:2] for broker, head in heads.items()} }"
            )
        raise AssertionError(f"{topic}-{partition}: { {broker: len(row) for broker, row in rows.items()} } batches")
    batches(first)
    return len(first)
