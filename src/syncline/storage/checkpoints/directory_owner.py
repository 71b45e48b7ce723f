"""Which node and which cluster a data directory belongs to.

One hard idea: records under the wrong name are worse than no records. A
directory that belongs to another node or cluster, or does not name its owner, is
refused before anything in it is touched, and so is one whose file is of a version
that this code does not know: its entries may mean something else.

Format: Kafka's `meta.properties`, version 1 (KIP-631, KIP-858).
"""

from collections.abc import Callable
from typing import Final

from syncline.storage.checkpoints.formats import decode_properties, encode_properties
from syncline.storage.disk import Disk
from syncline.storage.errors import StorageError, WrongOwnerError

PROPERTIES_FILE: Final = "meta.properties"
VERSION: Final = "1"


def claim(
    disk: Disk, path: str, node_id: int, cluster_id: str, directory_id: str, *, holds_logs: Callable[[], bool]
) -> str:
    """Return the directory's id, after checking that it belongs to this node (or to none yet).

    `holds_logs` returns whether the directory contains logs. Raises StorageError.
    """
    properties_path = f"{path}/{PROPERTIES_FILE}"
    mine = {"version": VERSION, "node.id": str(node_id), "directory.id": directory_id, "cluster.id": cluster_id}
    try:
        found = decode_properties(disk.read_file(properties_path))
    except FileNotFoundError:
        if holds_logs():
            raise StorageError(
                f"The data directory {path} holds logs, but {PROPERTIES_FILE} is missing, which names their owner. "
                "Put it back, or use another directory."
            ) from None
        disk.replace_file(properties_path, encode_properties(mine))
        return directory_id
    if not found.get("node.id") or "cluster.id" not in found:
        raise StorageError(
            f"{properties_path} is damaged: it does not say whose data this is. Replace it with a good copy, "
            "or use another directory."
        )
    version = found.get("version", "")
    if version != VERSION:
        raise StorageError(
            f"{properties_path} is of version {version or 'unknown'}, and only version {VERSION} is known here: "
            + (
                "it is from an old Apache Kafka with ZooKeeper. "
                if version == "0"
                else "a newer release or another program wrote it. "
            )
            + "Use another directory, or the program that wrote this one."
        )
    for name in ("cluster.id", "node.id"):
        # A broker learns its cluster's id only when it joins.
        if mine[name] and found.get(name) and found[name] != mine[name]:
            raise WrongOwnerError(
                f"The data directory {path} belongs to {name} {found.get(name)}, this is {mine[name]}. "
                "Use another directory, or remove this one if you do not need its data."
            )
    return found.get("directory.id", directory_id)


def cluster_of(disk: Disk, path: str) -> str:
    """Return the id of the cluster whose records are here, "" if no broker has joined a cluster with them yet."""
    return decode_properties(disk.read_file(f"{path}/{PROPERTIES_FILE}")).get("cluster.id", "")


def belong_to(disk: Disk, path: str, cluster_id: str) -> None:
    """Record which cluster the records belong to: another cluster would take them for strays and delete them."""
    properties_path = f"{path}/{PROPERTIES_FILE}"
    properties = decode_properties(disk.read_file(properties_path))
    if properties.get("cluster.id") != cluster_id:
        disk.replace_file(properties_path, encode_properties({**properties, "cluster.id": cluster_id}))
