import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.ControlRecord;
import org.apache.kafka.raft.VoterSet;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotReader;
import org.apache.kafka.snapshot.FileRawSnapshotWriter;
import org.apache.kafka.snapshot.RecordsSnapshotReader;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;

/** Reads a snapshot as a stock replica does, or writes one: `read|write DIRECTORY END_OFFSET EPOCH`. */
public class Snapshots {
    static final long TIMESTAMP = 1_700_000_000_000L;

    public static void main(String[] args) throws Exception {
        try {
            OffsetAndEpoch id = new OffsetAndEpoch(Long.parseLong(args[2]), Integer.parseInt(args[3]));
            if (args[0].equals("write")) {
                write(Path.of(args[1]), id);
            } else {
                read(Path.of(args[1]), id);
            }
        } catch (RuntimeException e) {
            System.err.println(e);
            System.exit(1);
        }
    }

    static void read(Path directory, OffsetAndEpoch id) {
        try (RecordsSnapshotReader<ApiMessageAndVersion> reader = RecordsSnapshotReader.of(
                FileRawSnapshotReader.open(directory, id), MetadataRecordSerde.INSTANCE,
                BufferSupplier.create(), 8 << 20, true, new LogContext())) {
            System.out.println("timestamp " + reader.lastContainedLogTimestamp());
            while (reader.hasNext()) {
                Batch<ApiMessageAndVersion> batch = reader.next();
                for (ControlRecord control : batch.controlRecords()) {
                    System.out.println(control.type() + " " + control.message());
                }
                for (ApiMessageAndVersion record : batch.records()) {
                    System.out.println(record.message());
                }
            }
        }
    }

    static void write(Path directory, OffsetAndEpoch id) {
        VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
        endpoints.add(new VotersRecord.Endpoint().setName("CONTROLLER").setHost("host").setPort(65000));
        VotersRecord voters = new VotersRecord();
        voters.voters().add(new VotersRecord.Voter()
            .setVoterId(3)
            .setVoterDirectoryId(Uuid.fromString("AAAAAAAAAAAAAAAAAAAABQ"))
            .setEndpoints(endpoints)
            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                .setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1)));
        try (RecordsSnapshotWriter<ApiMessageAndVersion> writer = new RecordsSnapshotWriter.Builder()
                .setLastContainedLogTimestamp(TIMESTAMP)
                .setTime(new Stopped())
                .setMaxBatchSizeBytes(1 << 20)
                .setMemoryPool(MemoryPool.NONE)
                .setRawSnapshotWriter(FileRawSnapshotWriter.create(directory, id))
                .setKraftVersion(KRaftVersion.KRAFT_VERSION_1)
                .setVoterSet(Optional.of(VoterSet.fromVotersRecord(voters)))
                .build(MetadataRecordSerde.INSTANCE)) {
            List<ApiMessageAndVersion> records = new ArrayList<>();
            records.add(new ApiMessageAndVersion(
                new FeatureLevelRecord().setName("metadata.version").setFeatureLevel((short) 29), (short) 0));
            for (int n = 0; n < 5; n++) {
                records.add(new ApiMessageAndVersion(new ConfigRecord()
                    .setResourceType((byte) 2).setResourceName("t").setName("k" + n).setValue("v" + n), (short) 0));
            }
            writer.append(records);
            writer.freeze();
        }
    }

    /** Always the same instant, so that two runs write the same bytes. */
    static class Stopped implements Time {
        public long milliseconds() {
            return TIMESTAMP;
        }

        public long nanoseconds() {
            return 0;
        }

        public void sleep(long ms) { }

        public void waitObject(Object obj, Supplier<Boolean> condition, long deadlineMs) { }
    }
}
