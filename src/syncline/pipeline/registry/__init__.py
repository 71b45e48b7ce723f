"""Values that a schema registry describes: framed bytes in a topic, structured columns in Spark.

`columns.SchemaRegistry` is what users take. `framing` is the wire format; `avro`, `json_schema` and `protobuf` each
know one kind of schema: its Arrow type, how to read a value and how to write one; `schemas` fetches schemas.
"""
