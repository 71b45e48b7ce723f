"""What Metadata requests use of a broker."""

from typing import NamedTuple

from syncline.node.cluster_view import ClusterView
from syncline.node.departures import Departures
from syncline.node.live_configs import LiveConfigs
from syncline.node.metadata_rows import MetadataRows
from syncline.node.topic_creation import TopicCreation


class Describing(NamedTuple):
    """The parts of one broker that answer Metadata requests."""

    cluster: ClusterView
    configs: LiveConfigs
    departures: Departures
    rows: MetadataRows
    topics: TopicCreation
