import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads a topic from its beginning without a group: "AssignedConsumer BOOTSTRAP TOPIC RECORDS" prints bytes and seconds. */
public class AssignedConsumer {
    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        long wanted = Long.parseLong(arguments[2]);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo each : consumer.partitionsFor(arguments[1])) {
                partitions.add(new TopicPartition(each.topic(), each.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long records = 0, bytes = 0, began = System.nanoTime(), first = 0, deadline = began + 120_000_000_000L;
            while (records < wanted && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(500))) {
                    records++;
                    bytes += each.serializedValueSize();
                }
                if (first == 0 && records > 0) {
                    first = System.nanoTime();
                }
            }
            double seconds = (System.nanoTime() - (first == 0 ? began : first)) / 1e9;
            System.out.println(records + " " + bytes + " " + seconds);
            System.exit(records < wanted ? 1 : 0);
        }
    }
}
