// Stock clients behind a line protocol: one command a line on standard input, one answer a line on standard output.
// An answer begins with "ok" or "failed". It lives as long as a test, so that only one virtual machine has to start.
// Arguments: the addresses of brokers, and perhaps a file of properties for every client, such as who it is.

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.*;

public class ClientShell {
    /** How every client reaches the brokers: `bootstrap.servers`, and how it says who it is. */
    private final Map<String, Object> common;
    private final Admin admin;
    private final Map<String, Load> loads = new HashMap<>();
    private final Map<String, Follower> followers = new HashMap<>();

    ClientShell(Map<String, Object> common) {
        this.common = common;
        this.admin = Admin.create(with(common, "default.api.timeout.ms", "60000"));
    }

    /** A copy with these settings, name and value in turn. */
    private static Map<String, Object> with(Map<String, Object> common, String... settings) {
        Map<String, Object> all = new HashMap<>(common);
        for (int i = 0; i < settings.length; i += 2) all.put(settings[i], settings[i + 1]);
        return all;
    }

    /** Numbered messages, one after the other, until told to stop; remembers which ones were acknowledged. */
    private static final class Load implements Runnable {
        final KafkaProducer<Long, byte[]> producer;
        final String topic;
        final long pauseMicros;
        final AtomicBoolean stop = new AtomicBoolean();
        final AtomicLong sent = new AtomicLong(), acknowledged = new AtomicLong(), longestGapMillis = new AtomicLong();
        final Set<Long> numbers = ConcurrentHashMap.newKeySet();
        final Map<String, AtomicLong> errors = new ConcurrentHashMap<>();
        volatile long lastAck = System.nanoTime();
        final Thread thread = new Thread(this);

        Load(Map<String, Object> common, String topic, long ratePerSecond) {
            this.topic = topic;
            this.pauseMicros = 1_000_000 / ratePerSecond;
            var config = with(common, "acks", "all", "enable.idempotence", "true", "linger.ms", "5",
                "delivery.timeout.ms", "120000", "request.timeout.ms", "10000");
            producer = new KafkaProducer<>(config, new LongSerializer(), new ByteArraySerializer());
            thread.start();
        }

        public void run() {
            byte[] value = new byte[100];
            long next = System.nanoTime();
            while (!stop.get()) {
                long number = sent.getAndIncrement();
                producer.send(new ProducerRecord<>(topic, number, value), (metadata, error) -> {
                    if (error != null) {
                        errors.computeIfAbsent(error.getClass().getSimpleName(), k -> new AtomicLong()).incrementAndGet();
                        return;
                    }
                    long now = System.nanoTime();
                    longestGapMillis.accumulateAndGet((now - lastAck) / 1_000_000, Math::max);
                    lastAck = now;
                    numbers.add(number);
                    acknowledged.incrementAndGet();
                });
                next += pauseMicros * 1000;
                long left = next - System.nanoTime();
                if (left > 0) {
                    try { Thread.sleep(left / 1_000_000, (int) (left % 1_000_000)); } catch (InterruptedException e) { return; }
                }
            }
            producer.flush();
            producer.close();
        }
    }

    /** Reads a topic with a group as long as it lives; remembers which numbers came by. */
    private static final class Follower implements Runnable {
        final Map<String, Object> common;
        final String topic, group;
        final Set<Long> seen = ConcurrentHashMap.newKeySet();
        final AtomicBoolean stop = new AtomicBoolean();
        final Thread thread = new Thread(this);
        volatile Throwable failure;

        Follower(Map<String, Object> common, String topic, String group) {
            this.common = common;
            this.topic = topic;
            this.group = group;
            thread.start();
        }

        public void run() {
            try (var consumer = new KafkaConsumer<>(reading(common, group), new LongDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(List.of(topic));
                while (!stop.get())
                    for (var record : consumer.poll(Duration.ofMillis(500))) seen.add(record.key());
            } catch (Throwable e) {
                failure = e;
            }
        }

        /** How many of these numbers never came by, once all have or the time is over. */
        int missing(Set<Long> numbers, long timeoutMillis) throws Exception {
            long end = System.currentTimeMillis() + timeoutMillis;
            while (!seen.containsAll(numbers) && failure == null && System.currentTimeMillis() < end) Thread.sleep(50);
            stop.set(true);
            thread.join();
            if (failure != null) throw new ExecutionException(failure);
            Set<Long> left = new HashSet<>(numbers);
            left.removeAll(seen);
            return left.size();
        }
    }

    private static Map<String, Object> reading(Map<String, Object> common, String group) {
        return with(common, "group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "true", "metadata.max.age.ms", "5000");
    }

    /**
     * Until every partition is served by its leader. A leader that doesn't know yet that it is one refuses the first batch
     * of an idempotent producer and may accept the second, which no retry gets over.
     */
    private long served(String topic, int partitions) throws Exception {
        long end = System.currentTimeMillis() + 60_000;
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (int i = 0; i < partitions; i++) asked.put(new TopicPartition(topic, i), OffsetSpec.latest());
        while (true) {
            try {
                if (described(topic).size() == partitions) {
                    long messages = 0;
                    for (var each : admin.listOffsets(asked).all().get().values()) messages += each.offset();
                    return messages;
                }
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof RetriableException)) throw e;
            }
            if (System.currentTimeMillis() > end) throw new IllegalStateException(topic + " is not served");
            Thread.sleep(100);
        }
    }

    private List<TopicPartitionInfo> described(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
    }

    /** So many messages of so many bytes, spread evenly over the partitions. */
    private String fill(String topic, int count, int bytes) throws Exception {
        Map<String, Object> config = with(common, "acks", "all");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(config, new LongSerializer(), new ByteArraySerializer())) {
            int partitions = producer.partitionsFor(topic).size();
            for (long i = 0; i < count; i++)
                sent.add(producer.send(new ProducerRecord<>(topic, (int) (i % partitions), i, new byte[bytes])));
            for (var each : sent) each.get();
        }
        return "filled";
    }

    /** A client that asks the next controller again may hear that the last one did it before it died. */
    private static void onceAtLeast(KafkaFuture<Void> asked, Class<?> alreadyDone) throws Exception {
        try {
            asked.get();
        } catch (ExecutionException error) {
            if (!alreadyDone.isInstance(error.getCause())) throw error;
        }
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "create": {
                NewTopic topic = new NewTopic(words[1], Integer.parseInt(words[2]), Short.parseShort(words[3]));
                Map<String, String> configs = new HashMap<>();
                for (int i = 4; i < words.length; i++) configs.put(words[i].split("=")[0], words[i].split("=")[1]);
                onceAtLeast(admin.createTopics(List.of(topic.configs(configs))).all(), TopicExistsException.class);
                served(words[1], topic.numPartitions());
                return "created";
            }
            case "delete":
                admin.deleteTopics(List.of(words[1])).all().get();
                return "deleted";
            case "topics":
                return new TreeSet<>(admin.listTopics().names().get()).toString();
            case "grow":
                var count = NewPartitions.increaseTo(Integer.parseInt(words[2]));
                onceAtLeast(admin.createPartitions(Map.of(words[1], count)).all(), InvalidPartitionsException.class);
                served(words[1], Integer.parseInt(words[2]));
                return "grown";
            case "describe": {
                StringBuilder text = new StringBuilder();
                for (var p : described(words[1]))
                    text.append(p.partition()).append(":").append(p.leader() == null ? -1 : p.leader().id()).append("/")
                        .append(ids(p.replicas())).append("/").append(ids(p.isr())).append(" ");
                return text.toString().trim();
            }
            case "end-of":
                return String.valueOf(served(words[1], Integer.parseInt(words[2])));
            case "config": {
                ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, words[1]);
                var change = new AlterConfigOp(new ConfigEntry(words[2], words[3]), AlterConfigOp.OpType.SET);
                admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
                return "set";
            }
            case "config-of": {
                ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, words[1]);
                return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(words[2]).value();
            }
            case "brokers": {
                TreeSet<Integer> found = new TreeSet<>();
                for (Node node : admin.describeCluster().nodes().get()) found.add(node.id());
                return found.toString();
            }
            case "features":
                return new TreeMap<>(admin.describeFeatures().featureMetadata().get().finalizedFeatures()).toString();
            case "reassign": {
                Map<TopicPartition, Optional<NewPartitionReassignment>> moves = new HashMap<>();
                for (int i = 2; i < words.length; i++) {
                    String[] halves = words[i].split(":");
                    List<Integer> target = new ArrayList<>();
                    for (String id : halves[1].split(",")) target.add(Integer.parseInt(id));
                    moves.put(new TopicPartition(words[1], Integer.parseInt(halves[0])), Optional.of(new NewPartitionReassignment(target)));
                }
                admin.alterPartitionReassignments(moves).all().get();
                return "reassigning";
            }
            case "reassignments":
                return String.valueOf(admin.listPartitionReassignments().reassignments().get().size());
            case "load":
                loads.put(words[1], new Load(common, words[1], Long.parseLong(words[2])));
                return "started";
            case "fill":
                return fill(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "follow":
                followers.put(words[1], new Follower(common, words[1], words[2]));
                return "following";
            case "followed":
                return String.valueOf(followers.get(words[1]).missing(loads.get(words[1]).numbers, Long.parseLong(words[2])));
            case "progress": {
                Load load = loads.get(words[1]);
                return load.acknowledged.get() + " " + load.errors;
            }
            case "stop": {
                Load load = loads.get(words[1]);
                load.stop.set(true);
                load.thread.join();
                return load.acknowledged.get() + " " + load.sent.get() + " " + load.longestGapMillis.get() + " " + load.errors;
            }
            case "check":
                return check(words[1], words[2], Long.parseLong(words[3]));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Reads a topic with a group until every acknowledged number was there: missing, doubled, unknown, order breaks. */
    private String check(String topic, String group, long timeoutMillis) {
        Load load = loads.get(topic);
        Set<Long> missing = new HashSet<>(load.numbers), seen = new HashSet<>();
        long doubled = 0, disordered = 0;
        Map<Integer, Long> last = new HashMap<>();
        long end = System.currentTimeMillis() + timeoutMillis;
        try (var consumer = new KafkaConsumer<>(reading(common, group), new LongDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!missing.isEmpty() && System.currentTimeMillis() < end) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    if (!seen.add(record.key())) doubled++;
                    missing.remove(record.key());
                    Long before = last.put(record.partition(), record.key());
                    if (before != null && before >= record.key()) disordered++;
                }
            }
        }
        return missing.size() + " " + doubled + " " + disordered + " " + seen.size();
    }

    private static String ids(List<Node> nodes) {
        StringJoiner text = new StringJoiner(",");
        for (Node node : nodes) text.add(String.valueOf(node.id()));
        return text.toString();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> common = new HashMap<>();
        if (arguments.length > 1) {
            Properties properties = new Properties();
            try (var in = new FileInputStream(arguments[1])) { properties.load(in); }
            for (String name : properties.stringPropertyNames()) common.put(name, properties.getProperty(name));
        }
        common.put("bootstrap.servers", arguments[0]);
        ClientShell shell = new ClientShell(common);
        System.out.println("ok ready");
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                System.out.println("ok " + shell.run(line.trim().split(" +")));
            } catch (Throwable e) {
                Throwable cause = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
                System.out.println("failed " + cause.getClass().getSimpleName() + " " + String.valueOf(cause.getMessage()).replace('\n', ' '));
            }
        }
        System.exit(0);
    }
}
