"""Rules of topics, as elections read them from configurations."""

import pytest

from syncline.core.cluster.decision import TopicRules, topic_rules
from syncline.model.metadata import CLUSTER_DEFAULTS, ConfigsChanged
from tests.core.controller_world import ELR, image


@pytest.mark.parametrize("is_own", [False, True])
def test_values_are_read_with_whatever_blanks_java_cuts_off(is_own: bool) -> None:
    """Guards: they are stored as they were written, and one that the controller could not read ended all elections."""
    texts = {"min.insync.replicas": "\x01 2", "unclean.leader.election.enable": "\x00TRUE\x01"}
    start = image(configs=texts) if is_own else image().apply([ConfigsChanged(CLUSTER_DEFAULTS, dict(texts))], 201)

    assert topic_rules(start, "t", ELR) == TopicRules(2, unclean=True)
