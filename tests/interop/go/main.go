// franz-go as an agent; commands and answers as in tests/interop/agent.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience = 20 * time.Second
	stale    = 3 // connections, one to each broker
)

// arguments holds everything that any command may bring along.
type arguments struct {
	Topic            string            `json:"topic"`
	Records          []record          `json:"records"`
	Codec            string            `json:"codec"`
	Idempotent       bool              `json:"idempotent"`
	RequestTimeoutMs int               `json:"request_timeout_ms"`
	Singly           bool              `json:"singly"`
	Count            int               `json:"count"`
	Member           string            `json:"member"`
	Group            string            `json:"group"`
	SessionTimeoutMs int               `json:"session_timeout_ms"`
	Partitions       int32             `json:"partitions"`
	Replication      int16             `json:"replication"`
	Configs          map[string]string `json:"configs"`
	Total            int               `json:"total"`
	Partition        int32             `json:"partition"`
	Before           int64             `json:"before"`
	TimestampMs      int64             `json:"timestamp_ms"`
	Kind             string            `json:"kind"`
	Name             string            `json:"name"`
	Offsets          [][2]int64        `json:"offsets"`
	TransactionalID  string            `json:"transactional_id"`
	Replicas         []int32           `json:"replicas"`
}

type command struct {
	ID   int       `json:"id"`
	Do   string    `json:"do"`
	With arguments `json:"with"`
}

// header is a pair of a name and a value; bytes travel as base64, and nil as null.
type header [2]any

type record struct {
	Partition   int32    `json:"partition"`
	Offset      *int64   `json:"offset,omitempty"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []header `json:"headers"`
	TimestampMs int64    `json:"timestamp_ms"`
}

type member struct {
	client *kgo.Client
	done   chan struct{}
	mu     sync.Mutex
	owned  map[int32]bool
	read   [][2]int64
}

type agent struct {
	seeds     []string
	client    *kgo.Client
	admin     *kadm.Client
	producers map[string]*kgo.Client
	members   map[string]*member
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func (a *agent) producer(with arguments) (*kgo.Client, error) {
	key := fmt.Sprint(with.Codec, with.Idempotent, with.RequestTimeoutMs, with.Singly)
	if found, ok := a.producers[key]; ok {
		return found, nil
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(a.seeds...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[with.Codec]),
		kgo.ProduceRequestTimeout(time.Duration(with.RequestTimeoutMs/2) * time.Millisecond),
		kgo.RequestTimeoutOverhead(time.Duration(with.RequestTimeoutMs/2) * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}
	if !with.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if with.Singly {
		options = append(options, kgo.ProducerBatchMaxBytes(512), kgo.ProducerLinger(0))
	}
	made, err := kgo.NewClient(options...)
	if err == nil {
		a.producers[key] = made
	}
	return made, err
}

func (a *agent) produce(ctx context.Context, with arguments) (any, error) {
	producer, err := a.producer(with)
	if err != nil {
		return nil, err
	}
	records := make([]*kgo.Record, 0, len(with.Records))
	for _, each := range with.Records {
		made := &kgo.Record{
			Topic:     with.Topic,
			Partition: each.Partition,
			Key:       each.Key,
			Value:     each.Value,
			Timestamp: time.UnixMilli(each.TimestampMs),
		}
		for _, pair := range each.Headers {
			var value []byte
			if text, ok := pair[1].(string); ok {
				quoted, _ := json.Marshal(text)
				if err := json.Unmarshal(quoted, &value); err != nil {
					return nil, err
				}
			}
			made.Headers = append(made.Headers, kgo.RecordHeader{Key: pair[0].(string), Value: value})
		}
		records = append(records, made)
	}
	results := producer.ProduceSync(ctx, records...)
	if err := results.FirstErr(); err != nil {
		return nil, err
	}
	places := make([][2]int64, 0, len(results))
	for _, result := range results {
		places = append(places, [2]int64{int64(result.Record.Partition), result.Record.Offset})
	}
	slices.SortFunc(places, func(one, other [2]int64) int { return slices.Compare(one[:], other[:]) })
	return places, nil
}

// beginTransaction also sends a record: this client asks for its producer id when it needs one.
func (a *agent) beginTransaction(ctx context.Context, with arguments) (any, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(a.seeds...), kgo.TransactionalID(with.TransactionalID))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return nil, err
	}
	return nil, client.ProduceSync(ctx, &kgo.Record{Topic: with.Topic, Value: []byte("x")}).FirstErr()
}

func (a *agent) consume(ctx context.Context, with arguments) (any, error) {
	topics, err := a.admin.ListTopics(ctx, with.Topic)
	if err != nil {
		return nil, err
	}
	beginnings := map[int32]kgo.Offset{}
	for partition := range topics[with.Topic].Partitions {
		beginnings[partition] = kgo.NewOffset().AtStart()
	}
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(a.seeds...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{with.Topic: beginnings}),
		kgo.FetchMaxWait(50*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	read := []record{}
	for len(read) < with.Count && ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		fetches.EachRecord(func(each *kgo.Record) {
			headers := []header{}
			for _, pair := range each.Headers {
				headers = append(headers, header{pair.Key, pair.Value})
			}
			read = append(read, record{
				Partition:   each.Partition,
				Offset:      &each.Offset,
				Key:         each.Key,
				Value:       each.Value,
				Headers:     headers,
				TimestampMs: each.Timestamp.UnixMilli(),
			})
		})
	}
	return read, nil
}

func (m *member) poll() {
	defer close(m.done)
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := m.client.CommitUncommittedOffsets(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "commit:", err)
			continue
		}
		m.mu.Lock()
		fetches.EachRecord(func(each *kgo.Record) {
			m.read = append(m.read, [2]int64{int64(each.Partition), each.Offset})
		})
		m.mu.Unlock()
	}
}

func (a *agent) join(with arguments) (any, error) {
	joined := &member{done: make(chan struct{}), owned: map[int32]bool{}}
	own := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			joined.mu.Lock()
			defer joined.mu.Unlock()
			for _, partition := range changed[with.Topic] {
				if owns {
					joined.owned[partition] = true
				} else {
					delete(joined.owned, partition)
				}
			}
		}
	}
	session := time.Duration(with.SessionTimeoutMs) * time.Millisecond
	client, err := kgo.NewClient(
		kgo.SeedBrokers(a.seeds...),
		kgo.ConsumerGroup(with.Group),
		kgo.ConsumeTopics(with.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(session/10),
		kgo.DisableAutoCommit(),
		kgo.MetadataMinAge(50*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.OnPartitionsAssigned(own(true)),
		kgo.OnPartitionsRevoked(own(false)),
		kgo.OnPartitionsLost(own(false)),
	)
	if err != nil {
		return nil, err
	}
	joined.client = client
	a.members[with.Member] = joined
	go joined.poll()
	return nil, nil
}

func (a *agent) leave(with arguments) (any, error) {
	leaving := a.members[with.Member]
	delete(a.members, with.Member)
	leaving.client.Close()
	<-leaving.done
	return nil, nil
}

func (a *agent) assignment(with arguments) (any, error) {
	asked := a.members[with.Member]
	asked.mu.Lock()
	defer asked.mu.Unlock()
	owned := []int32{}
	for partition := range asked.owned {
		owned = append(owned, partition)
	}
	slices.Sort(owned)
	return owned, nil
}

func (a *agent) received(with arguments) (any, error) {
	asked := a.members[with.Member]
	asked.mu.Lock()
	defer asked.mu.Unlock()
	return append([][2]int64{}, asked.read...), nil
}

func (a *agent) createTopic(ctx context.Context, with arguments) (any, error) {
	configs := map[string]*string{}
	for name, value := range with.Configs {
		configs[name] = &value
	}
	created, err := a.admin.CreateTopic(ctx, with.Partitions, with.Replication, configs, with.Topic)
	if err != nil && created.ErrMessage != "" {
		err = fmt.Errorf("%w: %s", err, created.ErrMessage)
	}
	return nil, err
}

func (a *agent) describeTopic(ctx context.Context, with arguments) (any, error) {
	topics, err := a.admin.ListTopics(ctx, with.Topic)
	if err != nil {
		return nil, err
	}
	described := []map[string]any{}
	for _, each := range topics[with.Topic].Partitions.Sorted() {
		described = append(described, map[string]any{
			"partition": each.Partition, "leader": each.Leader, "replicas": each.Replicas, "isr": each.ISR,
		})
	}
	return described, nil
}

func (a *agent) createPartitions(ctx context.Context, with arguments) (any, error) {
	answers, err := a.admin.UpdatePartitions(ctx, with.Total, with.Topic)
	if err != nil {
		return nil, err
	}
	if answer := answers[with.Topic]; answer.Err != nil {
		return nil, fmt.Errorf("%w: %s", answer.Err, answer.ErrMessage)
	}
	return nil, nil
}

func (a *agent) deleteRecords(ctx context.Context, with arguments) (any, error) {
	offsets := kadm.Offsets{}
	offsets.AddOffset(with.Topic, with.Partition, with.Before, -1)
	answers, err := a.admin.DeleteRecords(ctx, offsets)
	if err != nil {
		return nil, err
	}
	answer, _ := answers.Lookup(with.Topic, with.Partition)
	return answer.LowWatermark, answer.Err
}

func (a *agent) listOffsets(ctx context.Context, with arguments) (any, error) {
	at := func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return a.admin.ListOffsetsAfterMilli(ctx, with.TimestampMs, topics...)
	}
	found := []int64{}
	for _, ask := range []func(context.Context, ...string) (kadm.ListedOffsets, error){
		a.admin.ListStartOffsets, a.admin.ListEndOffsets, at,
	} {
		listed, err := ask(ctx, with.Topic)
		if err != nil {
			return nil, err
		}
		offset, _ := listed.Lookup(with.Topic, with.Partition)
		if offset.Err != nil {
			return nil, offset.Err
		}
		found = append(found, offset.Offset)
	}
	return found, nil
}

func (a *agent) describeConfigs(ctx context.Context, with arguments) (any, error) {
	var answers kadm.ResourceConfigs
	var err error
	if with.Kind == "broker" {
		var id int32
		if _, err = fmt.Sscan(with.Name, &id); err == nil {
			answers, err = a.admin.DescribeBrokerConfigs(ctx, id)
		}
	} else {
		answers, err = a.admin.DescribeTopicConfigs(ctx, with.Name)
	}
	if err != nil {
		return nil, err
	}
	described := map[string]*string{}
	for _, resource := range answers {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, config := range resource.Configs {
			described[config.Key] = config.Value
		}
	}
	return described, nil
}

type alter func(context.Context, []kadm.AlterConfig, ...string) (kadm.AlterConfigsResponses, error)

func alterConfigs(ctx context.Context, with arguments, request alter) (any, error) {
	changes := []kadm.AlterConfig{}
	for name, value := range with.Configs {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	answers, err := request(ctx, changes, with.Topic)
	if err != nil {
		return nil, err
	}
	for _, answer := range answers {
		if answer.Err != nil {
			return nil, fmt.Errorf("%w: %s", answer.Err, answer.ErrMessage)
		}
	}
	return nil, nil
}

func (a *agent) describeCluster(ctx context.Context) (any, error) {
	metadata, err := a.admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	ids := metadata.Brokers.NodeIDs()
	slices.Sort(ids)
	return map[string]any{"cluster_id": metadata.Cluster, "brokers": ids}, nil
}

func (a *agent) describeGroup(ctx context.Context, with arguments) (any, error) {
	groups, err := a.admin.DescribeGroups(ctx, with.Group)
	if err != nil {
		return nil, err
	}
	group := groups[with.Group]
	return map[string]any{"state": group.State, "members": len(group.Members)}, group.Err
}

func (a *agent) groupOffsets(ctx context.Context, with arguments) (any, error) {
	fetched, err := a.admin.FetchOffsets(ctx, with.Group)
	if err != nil {
		return nil, err
	}
	committed := map[int32]int64{}
	for partition, each := range fetched[with.Topic] {
		committed[partition] = each.At
	}
	return committed, nil
}

func (a *agent) setGroupOffsets(ctx context.Context, with arguments) (any, error) {
	offsets := kadm.Offsets{}
	for _, each := range with.Offsets {
		offsets.AddOffset(with.Topic, int32(each[0]), each[1], -1)
	}
	return nil, a.admin.CommitAllOffsets(ctx, with.Group, offsets)
}

func (a *agent) deleteGroupOffsets(ctx context.Context, with arguments) (any, error) {
	partitions := kadm.TopicsSet{}
	partitions.Add(with.Topic, with.Partition)
	answers, err := a.admin.DeleteOffsets(ctx, with.Group, partitions)
	if err != nil {
		return nil, err
	}
	return nil, answers.Error()
}

func (a *agent) logDirs(ctx context.Context, with arguments) (any, error) {
	topics, err := a.admin.ListTopics(ctx, with.Topic)
	if err != nil {
		return nil, err
	}
	brokers, err := a.admin.DescribeAllLogDirs(ctx, topics.TopicsSet())
	if err != nil {
		return nil, err
	}
	sizes := map[int32]int64{}
	brokers.Each(func(directory kadm.DescribedLogDir) { sizes[directory.Broker] += directory.Size() })
	return sizes, nil
}

// reassign gives a partition other replicas; null cancels.
func (a *agent) reassign(ctx context.Context, with arguments) (any, error) {
	var request kadm.AlterPartitionAssignmentsReq
	request.Assign(with.Topic, with.Partition, with.Replicas)
	answers, err := a.admin.AlterPartitionAssignments(ctx, request)
	if err != nil {
		return nil, err
	}
	if answer := answers[with.Topic][with.Partition]; answer.Err != nil {
		return nil, fmt.Errorf("%w: %s", answer.Err, answer.ErrMessage)
	}
	return nil, nil
}

func (a *agent) reassignment(ctx context.Context, with arguments) (any, error) {
	wanted := kadm.TopicsSet{}
	wanted.Add(with.Topic, with.Partition)
	answers, err := a.admin.ListPartitionReassignments(ctx, wanted)
	if err != nil {
		return nil, err
	}
	if listed, ok := answers[with.Topic][with.Partition]; ok {
		return [][]int32{listed.Replicas, listed.AddingReplicas, listed.RemovingReplicas}, nil
	}
	return nil, nil
}

func (a *agent) electPreferred(ctx context.Context, with arguments) (any, error) {
	wanted := kadm.TopicsSet{}
	wanted.Add(with.Topic, with.Partition)
	answers, err := a.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, wanted)
	if err != nil {
		return nil, err
	}
	return nil, answers[with.Topic][with.Partition].Err
}

func (a *agent) perform(ctx context.Context, name string, with arguments) (any, error) {
	switch name {
	case "produce":
		return a.produce(ctx, with)
	case "begin_transaction":
		return a.beginTransaction(ctx, with)
	case "consume":
		return a.consume(ctx, with)
	case "join":
		return a.join(with)
	case "assignment":
		return a.assignment(with)
	case "received":
		return a.received(with)
	case "leave":
		return a.leave(with)
	case "create_topic":
		return a.createTopic(ctx, with)
	case "delete_topic":
		// This client holds on to the topic that it knew, and fails a later one of the same name until told to forget.
		for _, producer := range a.producers {
			producer.PurgeTopicsFromProducing(with.Topic)
		}
		answer, err := a.admin.DeleteTopic(ctx, with.Topic)
		return nil, errors.Join(err, answer.Err)
	case "list_topics":
		topics, err := a.admin.ListTopics(ctx)
		return topics.Names(), err
	case "describe_topic":
		return a.describeTopic(ctx, with)
	case "create_partitions":
		return a.createPartitions(ctx, with)
	case "delete_records":
		return a.deleteRecords(ctx, with)
	case "list_offsets":
		return a.listOffsets(ctx, with)
	case "describe_configs":
		return a.describeConfigs(ctx, with)
	case "alter_configs":
		return alterConfigs(ctx, with, a.admin.AlterTopicConfigs)
	case "replace_configs":
		return alterConfigs(ctx, with, a.admin.AlterTopicConfigsState)
	case "describe_cluster":
		return a.describeCluster(ctx)
	case "list_groups":
		groups, err := a.admin.ListGroups(ctx)
		return groups.Groups(), err
	case "describe_group":
		return a.describeGroup(ctx, with)
	case "delete_group":
		answer, err := a.admin.DeleteGroup(ctx, with.Group)
		return nil, errors.Join(err, answer.Err)
	case "group_offsets":
		return a.groupOffsets(ctx, with)
	case "set_group_offsets":
		return a.setGroupOffsets(ctx, with)
	case "delete_group_offsets":
		return a.deleteGroupOffsets(ctx, with)
	case "log_dirs":
		return a.logDirs(ctx, with)
	case "reassign":
		return a.reassign(ctx, with)
	case "reassignment":
		return a.reassignment(ctx, with)
	case "elect_preferred":
		return a.electPreferred(ctx, with)
	}
	return nil, fmt.Errorf("no command %q", name)
}

func main() {
	seeds := strings.Split(os.Args[1], ",")
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	serving := &agent{
		seeds: seeds, client: client, admin: kadm.NewClient(client),
		producers: map[string]*kgo.Client{}, members: map[string]*member{},
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked command
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		result, err := serving.perform(ctx, asked.Do, asked.With)
		// A coordinator is looked up once only, on whatever connection there is, were its broker killed long ago.
		for range stale {
			if !errors.Is(err, io.EOF) {
				break
			}
			result, err = serving.perform(ctx, asked.Do, asked.With)
		}
		cancel()
		answer := map[string]any{"id": asked.ID, "answer": result}
		if err != nil {
			answer = map[string]any{"id": asked.ID, "error": err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			os.Exit(1)
		}
	}
}
