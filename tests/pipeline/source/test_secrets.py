"""No secret of the options is shown by anything that Spark shows."""

import contextlib
import io
import os
import pickle
from pathlib import Path

import pytest

from syncline.pipeline.source.options import SourceOptions

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SECRET = "hush-hush"
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hush-hush-1";'
OPTIONS = {
    # Nobody listens there.
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "subscribe": "flights",
    "kafkaConsumer.pollTimeoutMs": "200",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": LOGIN,
    "kafka.ssl.truststore.location": "/no/trust.p12",
    "kafka.ssl.truststore.password": "hush-hush-2",
    # As Kafka takes keys, so no word of Spark's default list needs to be in it.
    "kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nhush-hush-3\n-----END PRIVATE KEY-----",
    "kafka.ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----",
    "kafka.ssl.key.password": "hush-hush-4",
}


def _explained(frame) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain(mode="extended")
        frame.explain(mode="formatted")
    return printed.getvalue() + frame._jdf.queryExecution().toString()


def test_secrets_are_in_no_plan_error_checkpoint_or_repr(spark, tmp_path: Path, capfd) -> None:
    """Guards: "secrets never in logs, plans or checkpoints": batch, stream, and what both print when they fail."""
    batch = spark.read.format("syncline").options(**OPTIONS).load()
    stream = spark.readStream.format("syncline").options(**OPTIONS).load()
    shown = [_explained(batch), _explained(stream)]
    assert "RelationV2" in shown[0]
    assert "kafka.sasl.mechanism=PLAIN" in shown[1], "the plan of a stream lists options, so what follows is worth it"

    with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as failed:
        batch.count()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as stopped:
        query.awaitTermination()
    printed = capfd.readouterr()
    shown += [str(failed.value), str(stopped.value), str(query.exception()), str(query.status), *printed]
    shown += [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    options = SourceOptions.parse(OPTIONS, streaming=True)
    shown += [repr(options), str(options.client), repr(pickle.loads(pickle.dumps(options))), repr(os.environ)]

    assert [text for text in shown if SECRET in text] == []
