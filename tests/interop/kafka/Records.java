import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.metadata.AbortTransactionRecord;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.EndTransactionRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.NoOpRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
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
    }

    static void control(String name, ApiMessage message) {
        print(name, MessageUtil.toByteBufferAccessor(message, (short) 0).buffer());
    }

    static void metadata(String name, ApiMessage message) {
        ApiMessageAndVersion record = new ApiMessageAndVersion(message, (short) 0);
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
