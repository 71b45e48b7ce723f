// kafkajs as an agent; commands and answers as in tests/interop/agent.py.
"use strict";

const readline = require("node:readline");
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require("kafkajs");
const lz4 = require("lz4-napi");
const snappy = require("snappyjs");
const zstd = require("@bokuweb/zstd-wasm");

// kafkajs ships gzip alone and takes the others from its user.
const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00]);

function fromXerial(data) {
  if (!data.subarray(0, 8).equals(XERIAL_MAGIC)) return Buffer.from(snappy.uncompress(data));
  const chunks = [];
  for (let at = 16; at < data.length; ) {
    const size = data.readUInt32BE(at);
    chunks.push(Buffer.from(snappy.uncompress(data.subarray(at + 4, at + 4 + size))));
    at += 4 + size;
  }
  return Buffer.concat(chunks);
}

CompressionCodecs[CompressionTypes.Snappy] = () => ({
  compress: async (encoder) => Buffer.from(snappy.compress(encoder.buffer)),
  decompress: async (data) => fromXerial(data),
});
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (data) => lz4.decompressFrame(data),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (data) => Buffer.from(zstd.decompress(data)),
});

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};
const KINDS = { topic: ConfigResourceTypes.TOPIC, broker: ConfigResourceTypes.BROKER };

const brokers = process.argv[2].split(",");
const producers = new Map();
const members = new Map();
let connectedAdmin = null;

function client(settings = {}) {
  const retry = { initialRetryTime: 50, maxRetryTime: 500, retries: 20 };
  return new Kafka({ clientId: "kafkajs", brokers, logLevel: logLevel.NOTHING, retry, ...settings });
}

async function admin() {
  if (connectedAdmin === null) {
    connectedAdmin = client().admin();
    await connectedAdmin.connect();
  }
  return connectedAdmin;
}

const decode = (text) => (text === null ? null : Buffer.from(text, "base64"));
const encode = (data) => (data === null || data === undefined ? null : Buffer.from(data).toString("base64"));

function headersOf(record) {
  const headers = {};
  for (const [name, value] of record.headers) {
    if (name in headers) headers[name] = [].concat(headers[name], [decode(value)]);
    else headers[name] = decode(value);
  }
  return headers;
}

function listed(headers) {
  return Object.entries(headers || {}).flatMap(([name, value]) =>
    Array.isArray(value) ? value.map((each) => [name, encode(each)]) : [[name, encode(value)]],
  );
}

async function producer(codec, idempotent, timeoutMs) {
  const key = [idempotent, timeoutMs].join();
  if (!producers.has(key)) {
    const made = client({ requestTimeout: timeoutMs }).producer({
      idempotent,
      maxInFlightRequests: idempotent ? 1 : null,
    });
    await made.connect();
    producers.set(key, made);
  }
  return producers.get(key);
}

function message(record) {
  return {
    key: decode(record.key),
    value: decode(record.value),
    partition: record.partition,
    headers: headersOf(record),
    timestamp: String(record.timestamp_ms),
  };
}

const commands = {
  async produce({ topic, records, codec, idempotent, request_timeout_ms: timeoutMs, singly }) {
    const sender = await producer(codec, idempotent, timeoutMs);
    // kafkajs sends one batch per partition and call, and tells the first offset of each.
    const calls = singly ? records.map((record) => [record]) : [records];
    const places = [];
    for (const call of calls) {
      const metadata = await sender.send({ topic, acks: -1, compression: CODECS[codec], messages: call.map(message) });
      for (const { partition, baseOffset } of metadata) {
        const count = call.filter((record) => record.partition === partition).length;
        for (let number = 0; number < count; number += 1) places.push([partition, Number(baseOffset) + number]);
      }
    }
    return places.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  },

  async begin_transaction({ transactional_id: transactionalId }) {
    const made = client().producer({ idempotent: true, maxInFlightRequests: 1, transactionalId });
    await made.connect();
    try {
      await made.transaction();
    } finally {
      await made.disconnect();
    }
  },

  async consume({ topic, count }) {
    // There is no consumer without a group here: a group of its own, for one reading.
    const consumer = client().consumer({ groupId: `reader-${topic}-${process.pid}-${Date.now()}`, maxWaitTimeInMs: 50 });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    const read = [];
    await new Promise((resolve, reject) => {
      setTimeout(resolve, 20000).unref();
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      consumer
        .run({
          autoCommit: false,
          eachMessage: async ({ partition, message: each }) => {
            read.push({
              partition,
              offset: Number(each.offset),
              key: encode(each.key),
              value: encode(each.value),
              headers: listed(each.headers),
              timestamp_ms: Number(each.timestamp),
            });
            if (read.length >= count) resolve();
          },
        })
        .catch(reject);
    });
    await consumer.disconnect();
    return read;
  },

  async join({ member, group, topic, session_timeout_ms: sessionTimeout }) {
    const consumer = client().consumer({
      groupId: group,
      sessionTimeout,
      rebalanceTimeout: 10000,
      heartbeatInterval: Math.floor(sessionTimeout / 10),
      maxWaitTimeInMs: 100,
    });
    const joined = { consumer, owned: [], read: [] };
    members.set(member, joined);
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      joined.owned = payload.memberAssignment[topic] || [];
    });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message: each }) => {
        await consumer.commitOffsets([{ topic, partition, offset: String(Number(each.offset) + 1) }]);
        joined.read.push([partition, Number(each.offset)]);
      },
    });
  },

  async assignment({ member }) {
    return [...members.get(member).owned].sort((one, other) => one - other);
  },

  async received({ member }) {
    return members.get(member).read;
  },

  async leave({ member }) {
    await members.get(member).consumer.disconnect();
    members.delete(member);
  },

  async create_topic({ topic, partitions, replication, configs }) {
    const created = await (await admin()).createTopics({
      topics: [
        {
          topic,
          numPartitions: partitions,
          replicationFactor: replication,
          configEntries: Object.entries(configs).map(([name, value]) => ({ name, value })),
        },
      ],
      waitForLeaders: true,
    });
    if (!created) throw new Error("the topic already exists"); // the library tells it by its result alone
  },

  async delete_topic({ topic }) {
    await (await admin()).deleteTopics({ topics: [topic] });
  },

  async list_topics() {
    return (await (await admin()).listTopics()).sort();
  },

  async describe_topic({ topic }) {
    const { topics } = await (await admin()).fetchTopicMetadata({ topics: [topic] });
    return topics[0].partitions.map((each) => ({
      partition: each.partitionId,
      leader: each.leader,
      replicas: each.replicas,
      isr: each.isr,
    }));
  },

  async create_partitions({ topic, total }) {
    await (await admin()).createPartitions({ topicPartitions: [{ topic, count: total }] });
  },

  async delete_records({ topic, partition, before }) {
    await (await admin()).fetchTopicOffsets(topic); // the library knows only leaders that it was made to look up
    await (await admin()).deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] });
    return (await commands.list_offsets({ topic, partition, timestamp_ms: 0 }))[0];
  },

  async list_offsets({ topic, partition, timestamp_ms: timestampMs }) {
    const asked = await admin();
    const here = (each) => each.partition === partition;
    const ends = (await asked.fetchTopicOffsets(topic)).find(here);
    const found = (await asked.fetchTopicOffsetsByTimestamp(topic, timestampMs)).find(here);
    return [Number(ends.low), Number(ends.high), Number(found.offset)];
  },

  async describe_configs({ kind, name }) {
    const { resources } = await (await admin()).describeConfigs({
      includeSynonyms: false,
      resources: [{ type: KINDS[kind], name }],
    });
    return Object.fromEntries(resources[0].configEntries.map((each) => [each.configName, each.configValue]));
  },

  async replace_configs({ topic, configs }) {
    await (await admin()).alterConfigs({
      validateOnly: false,
      resources: [
        {
          type: ConfigResourceTypes.TOPIC,
          name: topic,
          configEntries: Object.entries(configs).map(([name, value]) => ({ name, value })),
        },
      ],
    });
  },

  async reassign({ topic, partition, replicas }) {
    const partitionAssignment = [{ partition, replicas }];
    await (await admin()).alterPartitionReassignments({ topics: [{ topic, partitionAssignment }] });
  },

  async reassignment({ topic, partition }) {
    const { topics } = await (await admin()).listPartitionReassignments({ topics: [{ topic, partitions: [partition] }] });
    const [listed] = topics.flatMap((each) => each.partitions);
    return listed && [listed.replicas, listed.addingReplicas, listed.removingReplicas];
  },

  async describe_cluster() {
    const cluster = await (await admin()).describeCluster();
    return { cluster_id: cluster.clusterId, brokers: cluster.brokers.map((each) => each.nodeId).sort() };
  },

  async list_groups() {
    return (await (await admin()).listGroups()).groups.map((each) => each.groupId);
  },

  async describe_group({ group }) {
    const { groups } = await (await admin()).describeGroups([group]);
    return { state: groups[0].state, members: groups[0].members.length };
  },

  async delete_group({ group }) {
    await (await admin()).deleteGroups([group]);
  },

  async group_offsets({ group, topic }) {
    const [answered] = await (await admin()).fetchOffsets({ groupId: group, topics: [topic] });
    const committed = answered.partitions.filter((each) => Number(each.offset) >= 0);
    return Object.fromEntries(committed.map((each) => [each.partition, Number(each.offset)]));
  },

  async set_group_offsets({ group, topic, offsets }) {
    const partitions = offsets.map(([partition, offset]) => ({ partition, offset: String(offset) }));
    await (await admin()).setOffsets({ groupId: group, topic, partitions });
  },
};

// What went wrong lies at several depths: in the cause, by partition or in a list.
function told(error) {
  const inner = [error.cause, ...(error.errors || []), ...(error.partitions || []).map((each) => each.error)];
  return [`${error.name}: ${error.message}`, ...inner.filter(Boolean).map(told)].join("; ");
}

async function main() {
  await zstd.init();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    let answer;
    try {
      answer = { id: command.id, answer: (await commands[command.do](command.with)) ?? null };
    } catch (error) {
      console.error(error);
      answer = { id: command.id, error: told(error) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  process.exit(0);
}

main();
