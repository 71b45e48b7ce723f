"""What Metadata requests use of a broker."""

from typing import NamedTuple

from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.departures import Departures
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.metadata.metadata_rows import MetadataRows
from syncline.node.metadata.topic_creation import TopicCreation


class Describing(NamedTuple):
    """The parts of one broker that answer Metadata requests."""

    cluster: ClusterView
    configs: LiveConfigs
    departures: Departures
    rows: MetadataRows
    topics: TopicCreation
