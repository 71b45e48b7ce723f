"""The clients that are tried, and what each of them has no call for.

A call that a library does not have is no test at all; a skipped test always
means that the library could not be had on this machine.
"""

from tests.interop.samples import NULL_HEADERS, NULL_RECORDS
from tests.interop.toolchains import Client, go, java, javascript, python

CLIENTS = {
    client.name: client
    for client in (
        Client(
            "confluent-kafka",
            lambda: python("confluent_agent"),
            {
                "delete_group_offsets": "no such call",
                "log_dirs": "no such call",
                "reassign": "no such call",
                "cancel_reassignment": "no such call",
            },
        ),
        Client(
            "kafka-python",
            lambda: python("kafka_python_agent"),
            {NULL_RECORDS: "an assertion of its own", NULL_HEADERS: "a TypeError of its own"},
        ),
        Client(
            "aiokafka",
            lambda: python("aiokafka_agent"),
            {
                "alter_configs": "only the older request",
                "delete_group": "no such call",
                "delete_group_offsets": "no such call",
                "log_dirs": "no such call",
                "reassign": "no such call",
                "cancel_reassignment": "no such call",
                "elect_preferred": "no such call",
                NULL_RECORDS: "an assertion of its own",
            },
        ),
        Client(
            "kafkajs",
            javascript,
            {
                "alter_configs": "only the older request",
                "delete_group_offsets": "no such call",
                "log_dirs": "no such call",
                "cancel_reassignment": "refuses a partition without replicas by itself",
                "elect_preferred": "no such call",
                NULL_HEADERS: "written as empty",
            },
        ),
        Client("franz-go", go),
        Client("java", java, {"replace_configs": "gone from version 4"}),
    )
}
