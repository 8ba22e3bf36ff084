import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.metadata.AbortTransactionRecord;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ClearElrRecord;
import org.apache.kafka.common.metadata.ClientQuotaRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.DelegationTokenRecord;
import org.apache.kafka.common.metadata.EndTransactionRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.NoOpRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.ProducerIdsRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RegisterControllerRecord;
import org.apache.kafka.common.metadata.RemoveAccessControlEntryRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Prints records as Kafka's own classes serialize them, one `name hex` a line. */
public class Records {
    public static void main(String[] args) {
        LeaderChangeMessage change = new LeaderChangeMessage().setLeaderId(1);
        change.voters().add(new LeaderChangeMessage.Voter().setVoterId(1));
        change.voters().add(new LeaderChangeMessage.Voter().setVoterId(2));
        change.grantingVoters().add(new LeaderChangeMessage.Voter().setVoterId(2));
        control("leader-change", change);
        control("kraft-version", new KRaftVersionRecord().setKRaftVersion((short) 1));
        VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
        endpoints.add(new VotersRecord.Endpoint().setName("CONTROLLER").setHost("host").setPort(65000));
        VotersRecord voters = new VotersRecord();
        voters.voters().add(new VotersRecord.Voter()
            .setVoterId(3)
            .setVoterDirectoryId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAABQ"))
            .setEndpoints(endpoints)
            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                .setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1)));
        control("voters", voters);
        metadata("config", new ConfigRecord()
            .setResourceType((byte) 4).setResourceName("1").setName("k").setValue("v".repeat(200)));
        metadata("config-delete", new ConfigRecord()
            .setResourceType((byte) 2).setResourceName("topic").setName("k").setValue(null));
        metadata("feature-level", new FeatureLevelRecord().setName("metadata.version").setFeatureLevel((short) 29));
        metadata("no-op", new NoOpRecord());
        Uuid topicId = Uuid.fromString("AAAAAAAAAAAAAAAAAAAABQ");
        metadata("topic", new TopicRecord().setName("t").setTopicId(topicId));
        metadata("remove-topic", new RemoveTopicRecord().setTopicId(topicId));
        metadata("begin", new BeginTransactionRecord().setName("n"));
        metadata("end", new EndTransactionRecord());
        metadata("abort", new AbortTransactionRecord().setReason("r"));
        nodes(topicId);
        partitions(topicId);
        others(topicId);
    }

    static void nodes(Uuid id) {
        RegisterBrokerRecord broker = new RegisterBrokerRecord().setBrokerId(1).setIncarnationId(id)
            .setBrokerEpoch(300).setRack("r").setFenced(true).setInControlledShutdown(true);
        broker.endPoints().add(new RegisterBrokerRecord.BrokerEndpoint()
            .setName("PLAINTEXT").setHost("h").setPort(9092).setSecurityProtocol((short) 0));
        broker.features().add(new RegisterBrokerRecord.BrokerFeature().setName("metadata.version")
            .setMinSupportedVersion((short) 7).setMaxSupportedVersion((short) 30));
        metadata("broker-1", broker, 1);
        metadata("broker-4", broker.setLogDirs(List.of(id)).setCordonedLogDirs(List.of(id)), 4);
        metadata("broker-change", new BrokerRegistrationChangeRecord().setBrokerId(1).setBrokerEpoch(300)
            .setFenced((byte) -1).setInControlledShutdown((byte) 1).setLogDirs(List.of(id))
            .setCordonedLogDirs(List.of()), 3);
        metadata("unregister", new UnregisterBrokerRecord().setBrokerId(1).setBrokerEpoch(300));
        RegisterControllerRecord controller =
            new RegisterControllerRecord().setControllerId(9).setIncarnationId(id);
        controller.endPoints().add(new RegisterControllerRecord.ControllerEndpoint()
            .setName("PLAINTEXT").setHost("h").setPort(9092).setSecurityProtocol((short) 0));
        controller.features().add(new RegisterControllerRecord.ControllerFeature()
            .setName("metadata.version").setMinSupportedVersion((short) 7).setMaxSupportedVersion((short) 30));
        metadata("controller", controller);
    }

    static void partitions(Uuid id) {
        PartitionRecord partition = new PartitionRecord().setPartitionId(7).setTopicId(id)
            .setReplicas(List.of(3, 1, 2)).setIsr(List.of(3, 1)).setRemovingReplicas(List.of(2))
            .setAddingReplicas(List.of(1)).setLeader(3).setLeaderRecoveryState((byte) 1)
            .setLeaderEpoch(4).setPartitionEpoch(5);
        metadata("partition-0", partition, 0);
        partition.setDirectories(List.of(id, DirectoryId.UNASSIGNED, DirectoryId.LOST));
        metadata("partition-1", partition, 1);
        partition.setEligibleLeaderReplicas(List.of(2)).setLastKnownElr(List.of());
        metadata("partition-2", partition, 2);
        metadata("partition-change-0", new PartitionChangeRecord().setPartitionId(7).setTopicId(id)
            .setIsr(List.of(1)).setLeader(-1).setReplicas(List.of(1, 2)).setRemovingReplicas(List.of())
            .setAddingReplicas(List.of(2)).setLeaderRecoveryState((byte) 0), 0);
        metadata("partition-change-2", new PartitionChangeRecord().setPartitionId(7).setTopicId(id)
            .setDirectories(List.of(DirectoryId.LOST)).setEligibleLeaderReplicas(List.of())
            .setLastKnownElr(List.of(3)), 2);
        metadata("clear-elr", new ClearElrRecord().setTopicName("t"));
    }

    static void others(Uuid id) {
        metadata("producer-ids", new ProducerIdsRecord()
            .setBrokerId(1).setBrokerEpoch(2).setNextProducerId(3000));
        metadata("acl", new AccessControlEntryRecord().setId(id).setResourceType((byte) 2)
            .setResourceName("t").setPatternType((byte) 3).setPrincipal("User:a").setHost("*")
            .setOperation((byte) 3).setPermissionType((byte) 3));
        metadata("remove-acl", new RemoveAccessControlEntryRecord().setId(id));
        metadata("scram", new UserScramCredentialRecord().setName("u").setMechanism((byte) 1)
            .setSalt(new byte[] {1}).setStoredKey(new byte[] {2, 2}).setServerKey(new byte[] {3})
            .setIterations(4096));
        metadata("quota", new ClientQuotaRecord().setKey("k").setValue(1.5).setEntity(List.of(
            new ClientQuotaRecord.EntityData().setEntityType("user").setEntityName(null))));
        metadata("token", new DelegationTokenRecord().setOwner("User:a").setRequester("User:b")
            .setRenewers(List.of("User:c")).setIssueTimestamp(1).setMaxTimestamp(3)
            .setExpirationTimestamp(2).setTokenId("id"));
    }

    static void control(String name, ApiMessage message) {
        print(name, MessageUtil.toByteBufferAccessor(message, (short) 0).buffer());
    }

    static void metadata(String name, ApiMessage message) {
        metadata(name, message, 0);
    }

    static void metadata(String name, ApiMessage message, int version) {
        ApiMessageAndVersion record = new ApiMessageAndVersion(message, (short) version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
        buffer.flip();
        print(name, buffer);
    }

    static void print(String name, ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        System.out.println(name + " " + HexFormat.of().formatHex(bytes));
    }
}
