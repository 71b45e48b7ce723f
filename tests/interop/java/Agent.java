import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java client as an agent; commands and answers as in tests/interop/agent.py. */
public final class Agent {
    private static final long PATIENCE_S = 20;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;
    private final Admin admin;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<String, Member> members = new HashMap<>();

    private Agent(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Agent agent = new Agent(arguments[0]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("id", command.get("id").asInt());
            try {
                answer.put("answer", agent.perform(command.get("do").asText(), command.get("with")));
            } catch (Exception failed) {
                Throwable cause = failed instanceof ExecutionException ? failed.getCause() : failed;
                cause.printStackTrace();
                answer.put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        System.exit(0);
    }

    private Object perform(String name, JsonNode with) throws Exception {
        String topic = with.path("topic").asText();
        String group = with.path("group").asText();
        TopicPartition place = new TopicPartition(topic, with.path("partition").asInt());
        switch (name) {
            case "produce":
                return produce(topic, with);
            case "begin_transaction":
                beginTransaction(with.get("transactional_id").asText());
                return null;
            case "consume":
                return consume(topic, with.get("count").asInt());
            case "join":
                members.put(with.get("member").asText(), new Member(group, topic, with.get("session_timeout_ms").asInt()));
                return null;
            case "assignment":
                return members.get(with.get("member").asText()).owned;
            case "received":
                return members.get(with.get("member").asText()).received();
            case "leave":
                members.remove(with.get("member").asText()).leave();
                return null;
            case "create_topic":
                NewTopic created = new NewTopic(topic, with.get("partitions").asInt(), (short) with.get("replication").asInt());
                return get(admin.createTopics(List.of(created.configs(texts(with.get("configs"))))).all());
            case "delete_topic":
                return get(admin.deleteTopics(List.of(topic)).all());
            case "list_topics":
                return get(admin.listTopics().names()).stream().sorted().toList();
            case "describe_topic":
                return describeTopic(topic);
            case "create_partitions":
                return get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(with.get("total").asInt()))).all());
            case "delete_records":
                RecordsToDelete below = RecordsToDelete.beforeOffset(with.get("before").asLong());
                return get(admin.deleteRecords(Map.of(place, below)).lowWatermarks().get(place)).lowWatermark();
            case "list_offsets":
                OffsetSpec time = OffsetSpec.forTimestamp(with.get("timestamp_ms").asLong());
                return List.of(offset(place, OffsetSpec.earliest()), offset(place, OffsetSpec.latest()), offset(place, time));
            case "describe_configs":
                return describeConfigs(with);
            case "alter_configs":
                List<AlterConfigOp> changes = new ArrayList<>();
                texts(with.get("configs")).forEach(
                    (key, value) -> changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
                ConfigResource altered = new ConfigResource(ConfigResource.Type.TOPIC, topic);
                return get(admin.incrementalAlterConfigs(Map.of(altered, (Collection<AlterConfigOp>) changes)).all());
            case "describe_cluster":
                var cluster = admin.describeCluster();
                return Map.of("cluster_id", get(cluster.clusterId()),
                    "brokers", get(cluster.nodes()).stream().map(Node::id).sorted().toList());
            case "list_groups":
                return get(admin.listGroups().all()).stream().map(each -> each.groupId()).toList();
            case "describe_group":
                var described = get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
                return Map.of("state", described.groupState().toString(), "members", described.members().size());
            case "delete_group":
                return get(admin.deleteConsumerGroups(List.of(group)).all());
            case "group_offsets":
                Map<String, Long> committed = new TreeMap<>();
                get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).forEach((key, value) -> {
                    if (key.topic().equals(topic)) committed.put(String.valueOf(key.partition()), value.offset());
                });
                return committed;
            case "set_group_offsets":
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (JsonNode each : with.get("offsets")) {
                    offsets.put(new TopicPartition(topic, each.get(0).asInt()), new OffsetAndMetadata(each.get(1).asLong()));
                }
                return get(admin.alterConsumerGroupOffsets(group, offsets).all());
            case "delete_group_offsets":
                return get(admin.deleteConsumerGroupOffsets(group, Set.of(place)).all());
            case "log_dirs":
                return logDirs(topic);
            case "reassign":
                return get(admin.alterPartitionReassignments(Map.of(place, target(with.get("replicas")))).all());
            case "reassignment":
                var listed = get(admin.listPartitionReassignments(Set.of(place)).reassignments()).get(place);
                return listed == null
                    ? null
                    : List.of(listed.replicas(), listed.addingReplicas(), listed.removingReplicas());
            case "elect_preferred":
                return get(admin.electLeaders(ElectionType.PREFERRED, Set.of(place)).all());
            default:
                throw new IllegalArgumentException("no command " + name);
        }
    }

    private static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    private static Optional<NewPartitionReassignment> target(JsonNode replicas) {
        if (replicas.isNull()) return Optional.empty();
        List<Integer> wanted = new ArrayList<>();
        replicas.forEach(each -> wanted.add(each.asInt()));
        return Optional.of(new NewPartitionReassignment(wanted));
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static Map<String, String> texts(JsonNode object) {
        Map<String, String> texts = new HashMap<>();
        object.fields().forEachRemaining(each -> texts.put(each.getKey(), each.getValue().asText()));
        return texts;
    }

    private KafkaProducer<byte[], byte[]> producer(JsonNode with) {
        String codec = with.get("codec").asText();
        boolean idempotent = with.get("idempotent").asBoolean();
        boolean singly = with.get("singly").asBoolean();
        int timeoutMs = with.get("request_timeout_ms").asInt();
        return producers.computeIfAbsent(codec + idempotent + timeoutMs + singly, key -> new KafkaProducer<>(
            Map.of(
                "bootstrap.servers", bootstrap,
                "compression.type", codec,
                "enable.idempotence", idempotent,
                "acks", "all",
                "request.timeout.ms", timeoutMs,
                "delivery.timeout.ms", 30000,
                "retry.backoff.ms", 50,
                "linger.ms", singly ? 0 : 5,
                "batch.size", singly ? 0 : 16384),
            new ByteArraySerializer(), new ByteArraySerializer()));
    }

    private void beginTransaction(String transactionalId) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transactional.id", transactionalId);
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        try {
            producer.initTransactions();
            producer.beginTransaction();
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    private Object produce(String topic, JsonNode with) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(with);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode each : with.get("records")) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, each.get("partition").asInt(),
                each.get("timestamp_ms").asLong(), bytes(each.get("key")), bytes(each.get("value")));
            for (JsonNode header : each.get("headers")) {
                record.headers().add(header.get(0).asText(), bytes(header.get(1)));
            }
            sent.add(producer.send(record));
        }
        List<long[]> places = new ArrayList<>();
        for (Future<RecordMetadata> each : sent) {
            RecordMetadata metadata = each.get(PATIENCE_S, TimeUnit.SECONDS);
            places.add(new long[] {metadata.partition(), metadata.offset()});
        }
        places.sort(Comparator.<long[]>comparingLong(each -> each[0]).thenComparingLong(each -> each[1]));
        return places;
    }

    private Object consume(String topic, int count) {
        Map<String, Object> settings =
            Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "fetch.max.wait.ms", 50);
        List<Map<String, Object>> read = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(consumer.partitionsFor(topic).stream()
                .map(each -> new TopicPartition(topic, each.partition())).toList());
            long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
            while (read.size() < count && System.nanoTime() < deadlineNs) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    List<Object[]> headers = new ArrayList<>();
                    for (Header header : record.headers()) headers.add(new Object[] {header.key(), header.value()});
                    Map<String, Object> one = new LinkedHashMap<>();
                    one.put("partition", record.partition());
                    one.put("offset", record.offset());
                    one.put("key", record.key());
                    one.put("value", record.value());
                    one.put("headers", headers);
                    one.put("timestamp_ms", record.timestamp());
                    read.add(one);
                }
            }
        }
        return read;
    }

    private Object describeTopic(String topic) throws Exception {
        List<Map<String, Object>> partitions = new ArrayList<>();
        get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().forEach(each -> partitions.add(
            Map.of(
                "partition", each.partition(),
                "leader", each.leader().id(),
                "replicas", each.replicas().stream().map(Node::id).toList(),
                "isr", each.isr().stream().map(Node::id).toList())));
        return partitions;
    }

    private Object offset(TopicPartition place, OffsetSpec spec) throws Exception {
        return get(admin.listOffsets(Map.of(place, spec)).partitionResult(place)).offset();
    }

    private Object describeConfigs(JsonNode with) throws Exception {
        ConfigResource.Type kind = ConfigResource.Type.valueOf(with.get("kind").asText().toUpperCase());
        ConfigResource resource = new ConfigResource(kind, with.get("name").asText());
        Map<String, String> described = new HashMap<>();
        get(admin.describeConfigs(List.of(resource)).all()).get(resource).entries()
            .forEach(entry -> described.put(entry.name(), entry.value()));
        return described;
    }

    private Object logDirs(String topic) throws Exception {
        List<Integer> brokers = get(admin.describeCluster().nodes()).stream().map(Node::id).toList();
        Map<String, Long> sizes = new TreeMap<>();
        get(admin.describeLogDirs(brokers).allDescriptions()).forEach((broker, directories) -> directories.values().forEach(
            directory -> directory.replicaInfos().forEach((place, replica) -> {
                if (place.topic().equals(topic)) sizes.merge(String.valueOf(broker), replica.size(), Long::sum);
            })));
        return sizes;
    }

    /** One consumer of a group, polled by a thread of its own. */
    private final class Member implements Runnable {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final List<long[]> read = new ArrayList<>();
        private final Thread thread = new Thread(this);
        private volatile List<Integer> owned = List.of();
        private volatile boolean leaving;

        Member(String group, String topic, int sessionTimeoutMs) {
            consumer = new KafkaConsumer<>(
                Map.of(
                    "bootstrap.servers", bootstrap,
                    "group.id", group,
                    "session.timeout.ms", sessionTimeoutMs,
                    "heartbeat.interval.ms", sessionTimeoutMs / 10,
                    "auto.offset.reset", "earliest",
                    "enable.auto.commit", false,
                    "fetch.max.wait.ms", 100),
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(topic));
            thread.setDaemon(true);
            thread.start();
        }

        @Override
        public void run() {
            while (!leaving) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
                owned = consumer.assignment().stream().map(TopicPartition::partition).sorted().toList();
                if (!records.isEmpty()) {
                    try {
                        consumer.commitSync();
                    } catch (CommitFailedException missed) {
                        // The group did not hear of this member for a while. It joins again, and reads them again.
                        continue;
                    }
                    synchronized (read) {
                        records.forEach(each -> read.add(new long[] {each.partition(), each.offset()}));
                    }
                }
            }
            consumer.close();
        }

        List<long[]> received() {
            synchronized (read) {
                return List.copyOf(read);
            }
        }

        void leave() throws InterruptedException {
            leaving = true;
            thread.join(TimeUnit.SECONDS.toMillis(PATIENCE_S));
        }
    }
}
