// Every call of the stock Admin client, and what clients do beside it, one after the other on a cluster of brokers 101
// and 102 (103 was there and has left). One line each: the name, a tab, what came of it. Nothing in a line differs from
// run to run, so the lines of two clusters can be compared.

import java.time.Duration;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnsupportedByAuthenticationException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.message.ApiMessageType.ListenerType;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

public class AdminCalls {
    private static final TopicPartition A0 = new TopicPartition("a", 0);
    private final Set<String> called = new TreeSet<>();
    private final String bootstrap;
    private final int controllerId;
    private Admin admin;
    private String prefix = "";

    AdminCalls(String bootstrap, int controllerId) {
        this.bootstrap = bootstrap;
        this.controllerId = controllerId;
    }

    public static void main(String[] arguments) throws Exception {
        AdminCalls calls = new AdminCalls(arguments[0], Integer.parseInt(arguments[2]));
        calls.throughBrokers();
        calls.throughControllers(arguments[1]);
        calls.nothingLeftOut();
        for (ApiKeys key : ApiKeys.apisForListener(ListenerType.CONTROLLER))
            System.out.println("key " + key.id + "\t" + key.name);
        System.exit(0);
    }

    /** What came of a call: its answer, or the class of its error. The name begins with the Admin client's method. */
    private void call(String name, Callable<Object> body) {
        called.add(name.split("[ ,]")[0]);
        String result;
        try {
            result = String.valueOf(body.call());
        } catch (Throwable e) {
            Throwable cause = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
            result = cause.getClass().getSimpleName();
            System.err.println(prefix + name + ": " + cause);
        }
        System.out.println(prefix + name + "\t" + result);
    }

    /** The same, until it is as wanted: what brokers have to hear of first. */
    private static Object eventually(Object wanted, Callable<Object> body) throws Exception {
        long end = System.currentTimeMillis() + 15_000;
        while (true) {
            try {
                Object found = body.call();
                if (found.equals(wanted) || System.currentTimeMillis() > end) return found;
            } catch (ExecutionException e) {
                if (System.currentTimeMillis() > end) throw e;
            }
            Thread.sleep(100);
        }
    }

    private static Map<String, Object> client(String key, String servers) {
        return Map.of(key, servers, "default.api.timeout.ms", "20000", "request.timeout.ms", "10000");
    }

    private void throughBrokers() throws Exception {
        admin = Admin.create(client("bootstrap.servers", bootstrap));
        topics();
        records();
        configs();
        partitions();
        groups();
        shareAndStreamsGroups();
        transactions();
        rights();
        cluster();
        call("deleteTopics", () -> {
            admin.deleteTopics(List.of("m", "d")).all().get();
            return eventually("gone", () -> Set.of("m", "d").stream().anyMatch(names()::contains) ? "there" : "gone");
        });
        call("deleteTopics, unknown", () -> admin.deleteTopics(List.of("nope")).all().get());
        call("metrics", () -> admin.metrics().isEmpty() ? "none" : "some");
        admin.close();
    }

    private Set<String> names() {
        try {
            return admin.listTopics().names().get();
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    private void topics() {
        call("createTopics", () -> {
            var made = admin.createTopics(List.of(new NewTopic("a", 3, (short) 2).configs(Map.of("retention.ms", "3600000"))));
            return made.numPartitions("a").get() + " partitions, " + made.replicationFactor("a").get() + " replicas, retention "
                + made.config("a").get().get("retention.ms").value() + " " + made.config("a").get().get("retention.ms").source()
                + ", configs returned: " + (made.config("a").get().entries().size() > 20 ? "all" : "those that were set");
        });
        call("createTopics, defaults", () -> {
            var made = admin.createTopics(List.of(new NewTopic("d", Optional.empty(), Optional.empty())));
            return made.numPartitions("d").get() + " partitions, " + made.replicationFactor("d").get() + " replicas";
        });
        call("createTopics, replicas named", () -> {
            admin.createTopics(List.of(new NewTopic("m", Map.of(0, List.of(102, 101))))).all().get();
            return "made";
        });
        call("createTopics, validate only", () -> {
            var options = new CreateTopicsOptions().validateOnly(true);
            return admin.createTopics(List.of(new NewTopic("v", 1, (short) 1)), options).replicationFactor("v").get();
        });
        call("createTopics, exists", () -> admin.createTopics(List.of(new NewTopic("a", 1, (short) 1))).all().get());
        call("createTopics, a replica on a fenced broker", () -> admin.createTopics(List.of(new NewTopic("r", 1, (short) 3))).all().get());
        call("listTopics", () -> eventually("[a, d, m]", () -> new TreeSet<>(names()).toString()));
        call("describeTopics", () -> eventually("[101, 102] led by 102", () -> {
            var found = admin.describeTopics(List.of("m")).allTopicNames().get().get("m").partitions().get(0);
            return found.isr().stream().map(Node::id).sorted().toList() + " led by " + found.leader().id();
        }));
        call("createPartitions", () -> {
            admin.createPartitions(Map.of("a", NewPartitions.increaseTo(4))).all().get();
            return eventually(4, () -> admin.describeTopics(List.of("a")).allTopicNames().get().get("a").partitions().size());
        });
        call("createPartitions, fewer", () -> admin.createPartitions(Map.of("a", NewPartitions.increaseTo(2))).all().get());
    }

    private void records() {
        call("Producer, idempotent", () -> produced(Map.of("acks", "all", "enable.idempotence", "true")));
        call("Consumer, classic group", () -> consumed("classic-group", Map.of("group.protocol", "classic")));
        call("Consumer, consumer group", () -> consumed("consumer-group", Map.of("group.protocol", "consumer")));
        call("listOffsets", () -> admin.listOffsets(Map.of(A0, OffsetSpec.latest())).all().get().get(A0).offset());
        call("deleteRecords", () -> admin.deleteRecords(Map.of(A0, RecordsToDelete.beforeOffset(3))).lowWatermarks().get(A0).get().lowWatermark());
        call("describeProducers", () -> admin.describeProducers(List.of(A0)).all().get().get(A0).activeProducers().size());
    }

    private String produced(Map<String, Object> settings) throws Exception {
        Map<String, Object> config = new HashMap<>(settings);
        config.put("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 10; i++) producer.send(new ProducerRecord<>("a", 0, "k", "v" + i)).get();
        }
        return "10 messages";
    }

    private String consumed(String group, Map<String, Object> settings) {
        Map<String, Object> config = new HashMap<>(settings);
        config.putAll(Map.of("bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest"));
        int found = 0;
        long end = System.currentTimeMillis() + 30_000;
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("a"));
            while (found < 10 && System.currentTimeMillis() < end) found += consumer.poll(Duration.ofMillis(200)).count();
            consumer.commitSync();
        }
        return found + " messages";
    }

    private void configs() {
        ConfigResource topic = resource(ConfigResource.Type.TOPIC, "a"), broker = resource(ConfigResource.Type.BROKER, "101");
        call("incrementalAlterConfigs, topic", () -> changed(topic, "segment.bytes", "10485760"));
        call("incrementalAlterConfigs, wrong value", () -> changed(topic, "segment.bytes", "many"));
        call("incrementalAlterConfigs, broker", () -> changed(broker, "log.cleaner.threads", "2"));
        call("incrementalAlterConfigs, all brokers", () -> changed(resource(ConfigResource.Type.BROKER, ""), "message.max.bytes", "2000000"));
        call("incrementalAlterConfigs, group", () -> changed(resource(ConfigResource.Type.GROUP, "sg"), "share.auto.offset.reset", "earliest"));
        call("incrementalAlterConfigs, client metrics", () -> changed(resource(ConfigResource.Type.CLIENT_METRICS, "cm"), "interval.ms", "1000"));
        call("incrementalAlterConfigs, logger", () -> changed(resource(ConfigResource.Type.BROKER_LOGGER, "101"), "kafka.server", "INFO"));
        call("describeConfigs, topic", () -> told(topic, "segment.bytes"));
        call("describeConfigs, topic's default", () -> told(topic, "min.insync.replicas"));
        call("describeConfigs, broker", () -> told(broker, "log.cleaner.threads"));
        call("describeConfigs, of all brokers", () -> told(broker, "message.max.bytes"));
        call("describeConfigs, group", () -> told(resource(ConfigResource.Type.GROUP, "sg"), "share.auto.offset.reset"));
        call("listConfigResources", () -> admin.listConfigResources().all().get().stream().map(each -> each.type() + " " + each.name())
            .filter(each -> !each.endsWith(" 103")).sorted().toList());
        call("listClientMetricsResources", () -> admin.listClientMetricsResources().all().get().size());
    }

    private static ConfigResource resource(ConfigResource.Type type, String name) {
        return new ConfigResource(type, name);
    }

    private String changed(ConfigResource resource, String name, String value) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        return "set";
    }

    /** Value and source, once the change before has arrived; the value of a default may be anything. */
    private Object told(ConfigResource resource, String name) throws Exception {
        long end = System.currentTimeMillis() + 5_000;
        while (true) {
            ConfigEntry entry = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
            String found = entry == null ? "not returned" : entry.value() + ", " + entry.source();
            if (found.contains("DYNAMIC") || System.currentTimeMillis() > end) return found;
            Thread.sleep(100);
        }
    }

    private void partitions() {
        call("electLeaders, preferred", () -> {
            var found = admin.electLeaders(ElectionType.PREFERRED, Set.of(new TopicPartition("m", 0))).partitions().get();
            return found.values().iterator().next().map(each -> each.getClass().getSimpleName()).orElse("elected");
        });
        call("electLeaders, unclean", () -> {
            var found = admin.electLeaders(ElectionType.UNCLEAN, Set.of(new TopicPartition("m", 0))).partitions().get();
            return found.values().iterator().next().map(each -> each.getClass().getSimpleName()).orElse("elected");
        });
        call("alterPartitionReassignments, fewer", () -> moved(101));
        call("alterPartitionReassignments, to another broker", () -> moved(102));
        call("alterPartitionReassignments, cancel none", () ->
            admin.alterPartitionReassignments(Map.of(new TopicPartition("m", 0), Optional.empty())).all().get());
        call("listPartitionReassignments", () -> eventually(0, () -> admin.listPartitionReassignments().reassignments().get().size()));
        call("describeLogDirs", () -> admin.describeLogDirs(List.of(101)).allDescriptions().get().get(101).size() + " directories");
        call("describeReplicaLogDirs", () -> {
            var replica = new TopicPartitionReplica("a", 0, 101);
            return admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica).getCurrentReplicaLogDir() != null;
        });
        call("alterReplicaLogDirs", () -> {
            var replica = new TopicPartitionReplica("a", 0, 101);
            String from = admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica).getCurrentReplicaLogDir();
            String to = admin.describeLogDirs(List.of(101)).allDescriptions().get().get(101).keySet().stream()
                .filter(each -> !each.equals(from)).findFirst().orElse(from);
            admin.alterReplicaLogDirs(Map.of(replica, to)).all().get();
            return eventually("moved", () -> admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica)
                .getCurrentReplicaLogDir().equals(to) ? "moved" : "not moved");
        });
    }

    private Object moved(int broker) throws Exception {
        var target = Optional.of(new NewPartitionReassignment(List.of(broker)));
        admin.alterPartitionReassignments(Map.of(new TopicPartition("m", 0), target)).all().get();
        return eventually("[" + broker + "]", () -> admin.describeTopics(List.of("m")).allTopicNames().get().get("m").partitions().get(0)
            .isr().stream().map(Node::id).toList().toString());
    }

    private void groups() {
        Set<String> consumers = Set.of("classic-group", "consumer-group");
        call("listGroups", () -> admin.listGroups().all().get().stream().map(each -> each.groupId() + " " + each.type().get()).sorted().toList());
        call("listConsumerGroups", () -> admin.listConsumerGroups().all().get().size());
        call("describeConsumerGroups", () -> admin.describeConsumerGroups(consumers).all().get().values().stream()
            .map(each -> each.groupId() + " " + each.groupState()).sorted().toList());
        call("describeClassicGroups", () -> admin.describeClassicGroups(List.of("classic-group")).all().get().get("classic-group").state());
        call("listConsumerGroupOffsets", () ->
            admin.listConsumerGroupOffsets("classic-group").partitionsToOffsetAndMetadata().get().get(A0).offset());
        call("alterConsumerGroupOffsets", () -> {
            admin.alterConsumerGroupOffsets("classic-group", Map.of(A0, new OffsetAndMetadata(5))).all().get();
            return admin.listConsumerGroupOffsets("classic-group").partitionsToOffsetAndMetadata().get().get(A0).offset();
        });
        call("deleteConsumerGroupOffsets", () -> {
            admin.deleteConsumerGroupOffsets("classic-group", Set.of(A0)).all().get();
            return "deleted";
        });
        call("removeMembersFromConsumerGroup", () -> {
            admin.removeMembersFromConsumerGroup("classic-group", new RemoveMembersFromConsumerGroupOptions()).all().get();
            return "nobody left";
        });
        call("deleteConsumerGroups", () -> {
            admin.deleteConsumerGroups(consumers).all().get();
            return "deleted";
        });
    }

    private void shareAndStreamsGroups() {
        call("ShareConsumer", () -> {
            int found = 0;
            long end = System.currentTimeMillis() + 30_000;
            Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "group.id", "sg");
            try (var consumer = new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of("a"));
                while (found < 7 && System.currentTimeMillis() < end) found += consumer.poll(Duration.ofMillis(200)).count();
                consumer.commitSync();
            }
            return found + " messages";
        });
        call("describeShareGroups", () -> eventually("Empty", () -> admin.describeShareGroups(List.of("sg")).all().get().get("sg").groupState().toString()));
        call("listShareGroupOffsets", () -> eventually(10L, () -> admin.listShareGroupOffsets(Map.of("sg",
            new ListShareGroupOffsetsSpec().topicPartitions(List.of(A0)))).partitionsToOffsetInfo("sg").get().get(A0).startOffset()));
        call("alterShareGroupOffsets", () -> {
            admin.alterShareGroupOffsets("sg", Map.of(A0, 5L)).all().get();
            return "set";
        });
        call("deleteShareGroupOffsets", () -> {
            admin.deleteShareGroupOffsets("sg", Set.of("a")).all().get();
            return "deleted";
        });
        call("deleteShareGroups", () -> {
            admin.deleteShareGroups(List.of("sg")).all().get();
            return "deleted";
        });
        call("describeStreamsGroups, unknown", () -> admin.describeStreamsGroups(List.of("st")).all().get());
        call("listStreamsGroupOffsets, unknown", () ->
            admin.listStreamsGroupOffsets(Map.of("st", new ListStreamsGroupOffsetsSpec())).all().get());
        call("alterStreamsGroupOffsets, unknown", () -> {
            admin.alterStreamsGroupOffsets("st", Map.of(A0, new OffsetAndMetadata(1))).all().get();
            return "set";
        });
        call("deleteStreamsGroupOffsets, unknown", () -> admin.deleteStreamsGroupOffsets("nope", Set.of(A0)).all().get());
        call("deleteStreamsGroups, unknown", () -> admin.deleteStreamsGroups(List.of("nope")).all().get());
    }

    private void transactions() {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "transactional.id", "tx", "max.block.ms", "20000");
        call("Producer, transactional", () -> {
            try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("a", 1, "k", "v")).get();
                producer.commitTransaction();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("a", 1, "k", "v")).get();
                producer.abortTransaction();
            }
            return "one committed, one aborted";
        });
        call("listTransactions", () -> admin.listTransactions().all().get().size());
        call("describeTransactions", () -> eventually("COMPLETE_ABORT", () ->
            admin.describeTransactions(List.of("tx")).all().get().get("tx").state().toString().toUpperCase(Locale.ROOT).replace("COMPLETEABORT", "COMPLETE_ABORT")));
        call("abortTransaction, another epoch", () ->
            admin.abortTransaction(new AbortTransactionSpec(new TopicPartition("a", 1), 12345L, (short) 3, -1)).all().get());
        call("fenceProducers", () -> {
            admin.fenceProducers(List.of("tx")).all().get();
            return "fenced";
        });
        call("forceTerminateTransaction", () -> {
            admin.forceTerminateTransaction("tx").result().get();
            return "terminated";
        });
    }

    private void rights() {
        var entry = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "a", PatternType.LITERAL),
            new AccessControlEntry("User:x", "*", AclOperation.READ, AclPermissionType.ALLOW));
        call("createAcls", () -> {
            admin.createAcls(List.of(entry)).all().get();
            return "made";
        });
        call("describeAcls", () -> eventually(1, () -> admin.describeAcls(AclBindingFilter.ANY).values().get().size()));
        call("deleteAcls", () -> admin.deleteAcls(List.of(entry.toFilter())).all().get().size());
        call("alterUserScramCredentials", () -> {
            var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("u", info, "secret"))).all().get();
            return "set";
        });
        call("describeUserScramCredentials", () -> eventually("[4096]", () -> admin.describeUserScramCredentials(List.of("u")).all().get()
            .get("u").credentialInfos().stream().map(ScramCredentialInfo::iterations).toList().toString()));
        var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "u"));
        call("alterClientQuotas", () -> {
            admin.alterClientQuotas(List.of(quota(entity, "producer_byte_rate", 1e6))).all().get();
            return "set";
        });
        call("alterClientQuotas, wrong", () -> admin.alterClientQuotas(List.of(quota(entity, "nope", 1.0))).all().get());
        call("describeClientQuotas", () -> eventually("{producer_byte_rate=1000000.0}", () ->
            String.valueOf(admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().get(entity))));
        call("createDelegationToken", () -> refused(() -> admin.createDelegationToken().delegationToken().get()));
        call("renewDelegationToken", () -> refused(() -> admin.renewDelegationToken(new byte[] {1}).expiryTimestamp().get()));
        call("expireDelegationToken", () -> refused(() -> admin.expireDelegationToken(new byte[] {1}).expiryTimestamp().get()));
        call("describeDelegationToken", () -> refused(() -> admin.describeDelegationToken().delegationTokens().get().size()));
    }

    /** By a broker because nobody has logged in, or by the client because the broker doesn't announce such an API. */
    private static Object refused(Callable<Object> body) throws Exception {
        try {
            return body.call();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnsupportedByAuthenticationException || e.getCause() instanceof UnsupportedVersionException)
                return "refused";
            throw e;
        }
    }

    private static ClientQuotaAlteration quota(ClientQuotaEntity entity, String key, double value) {
        return new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op(key, value)));
    }

    private void cluster() {
        call("describeCluster", () -> admin.describeCluster().nodes().get().size() + " brokers");
        call("describeCluster, fenced brokers too", () ->
            admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true)).nodes().get().size() + " brokers");
        call("describeFeatures", this::finalized);
        call("updateFeatures, validate only", () -> updated("group.version", 1, FeatureUpdate.UpgradeType.UPGRADE, true));
        call("updateFeatures, down", () -> updated("streams.version", 0, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE, false));
        call("updateFeatures, up", () -> updated("streams.version", 1, FeatureUpdate.UpgradeType.UPGRADE, false));
        call("updateFeatures, too high", () -> updated("streams.version", 9, FeatureUpdate.UpgradeType.UPGRADE, false));
        call("updateFeatures, metadata.version down", () -> updated("metadata.version", 29, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE, false));
        call("describeMetadataQuorum", () -> quorum(admin));
        call("addRaftVoter, nobody there", () ->
            admin.addRaftVoter(9, Uuid.randomUuid(), Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1))).all().get());
        call("removeRaftVoter, no voter", () -> admin.removeRaftVoter(9, Uuid.randomUuid()).all().get());
        call("unregisterBroker", () -> {
            admin.unregisterBroker(103).all().get();
            return eventually("2 brokers", () ->
                admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true)).nodes().get().size() + " brokers");
        });
        call("unregisterBroker, unknown", () -> admin.unregisterBroker(999).all().get());
        call("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(5)) != null);
    }

    private Object finalized() throws Exception {
        return admin.describeFeatures().featureMetadata().get().finalizedFeatures().entrySet().stream()
            .map(each -> each.getKey() + " " + each.getValue().maxVersionLevel()).sorted().collect(Collectors.joining(", "));
    }

    private String updated(String name, int level, FeatureUpdate.UpgradeType way, boolean validateOnly) throws Exception {
        var options = new UpdateFeaturesOptions().validateOnly(validateOnly);
        admin.updateFeatures(Map.of(name, new FeatureUpdate((short) level, way)), options).all().get();
        return "done";
    }

    private static String quorum(Admin admin) throws Exception {
        QuorumInfo found = admin.describeMetadataQuorum().quorumInfo().get();
        var brokers = found.observers().stream().map(QuorumInfo.ReplicaState::replicaId).filter(each -> each == 101 || each == 102).sorted();
        return found.voters().size() + " voters, brokers " + brokers.toList() + (found.leaderId() > 0 ? ", a leader" : ", no leader");
    }

    /** The calls that a controller takes from clients itself. */
    private void throughControllers(String controllers) {
        prefix = "to controllers: ";
        admin = Admin.create(client("bootstrap.controllers", controllers));
        ConfigResource topic = resource(ConfigResource.Type.TOPIC, "a"), itself = resource(ConfigResource.Type.BROKER, "" + controllerId);
        call("describeCluster", () -> admin.describeCluster().nodes().get().size() + " controllers");
        call("describeFeatures", this::finalized);
        call("updateFeatures, validate only", () -> updated("group.version", 1, FeatureUpdate.UpgradeType.UPGRADE, true));
        call("describeMetadataQuorum", () -> quorum(admin));
        call("incrementalAlterConfigs, controller", () -> changed(itself, "log.cleaner.threads", "2"));
        call("incrementalAlterConfigs, all brokers", () -> changed(resource(ConfigResource.Type.BROKER, ""), "message.max.bytes", "3000000"));
        call("incrementalAlterConfigs, topic", () -> changed(topic, "segment.bytes", "10485761"));
        call("describeConfigs, controller", () -> told(itself, "process.roles"));
        call("describeConfigs, controller's own", () -> told(itself, "log.cleaner.threads"));
        call("describeConfigs, topic", () -> told(topic, "segment.bytes"));
        call("describeConfigs, topic's default", () -> told(topic, "min.insync.replicas"));
        call("createAcls", () -> {
            var entry = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "b", PatternType.LITERAL),
                new AccessControlEntry("User:x", "*", AclOperation.READ, AclPermissionType.ALLOW));
            admin.createAcls(List.of(entry)).all().get();
            return "made";
        });
        call("describeAcls", () -> eventually(1, () -> admin.describeAcls(AclBindingFilter.ANY).values().get().size()));
        call("deleteAcls", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get().size());
        call("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments().get().size());
        call("alterPartitionReassignments", () -> {
            var target = Optional.of(new NewPartitionReassignment(List.of(101, 102)));
            admin.alterPartitionReassignments(Map.of(A0, target)).all().get();
            return "begun";
        });
        call("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(A0)).partitions().get().size());
        call("describeUserScramCredentials", () -> admin.describeUserScramCredentials(List.of("u")).all().get().size());
        call("alterClientQuotas", () -> {
            admin.alterClientQuotas(List.of(quota(new ClientQuotaEntity(Map.of(ClientQuotaEntity.IP, "10.0.0.1")), "connection_creation_rate", 9))).all().get();
            return "set";
        });
        call("unregisterBroker, unknown", () -> admin.unregisterBroker(999).all().get());
        call("createTopics", () -> admin.createTopics(List.of(new NewTopic("z", 1, (short) 1))).all().get());
        admin.close();
    }

    /** Every method of Admin was called, but for those that send nothing. */
    private void nothingLeftOut() {
        Set<String> left = Arrays.stream(Admin.class.getMethods()).map(java.lang.reflect.Method::getName).collect(Collectors.toCollection(TreeSet::new));
        left.removeAll(called);
        left.removeAll(Set.of("close", "create", "registerMetricForSubscription", "unregisterMetricFromSubscription"));
        if (!left.isEmpty()) throw new IllegalStateException("no call of " + left);
    }
}
