import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Replays logs (values in hex, one a line; `end` ends a log) as a stock replica does; prints what each amounts to. */
public class Images {
    public static void main(String[] args) throws Exception {
        MetadataImage image = MetadataImage.EMPTY;
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            if (line.equals("end")) {
                print(image);
                image = MetadataImage.EMPTY;
                continue;
            }
            byte[] value = HexFormat.of().parseHex(line);
            ApiMessageAndVersion record = MetadataRecordSerde.INSTANCE.read(
                new ByteBufferAccessor(ByteBuffer.wrap(value)), value.length);
            MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
            try {
                delta.replay(record.message());
                image = delta.apply(new MetadataProvenance(1, 1, 1, true));
            } catch (IllegalStateException e) {
                // A change of a registration that is gone: it changes nothing.
                System.err.println(e.getMessage());
            }
        }
    }

    static void print(MetadataImage image) {
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, new ImageWriterOptions.Builder(image).build());
        StringBuilder lines = new StringBuilder();
        for (ApiMessageAndVersion record : writer.records()) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
            MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
            lines.append(HexFormat.of().formatHex(buffer.array())).append('\n');
        }
        System.out.print(lines.append("end\n"));
    }
}
