import java.io.File;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.raft.ElectionState;
import org.apache.kafka.raft.FileQuorumStateStore;
import org.apache.kafka.raft.ReplicaKey;
import org.apache.kafka.server.common.KRaftVersion;

/** Reads a quorum-state file with Kafka's own class, or writes one: `read FILE`, `write FILE EPOCH VOTED_ID VOTED_DIRECTORY_ID`, `write-v0 FILE EPOCH VOTED_ID`. */
public class QuorumStateStore {
    public static void main(String[] args) throws Exception {
        try {
            run(args);
        } catch (RuntimeException e) {
            // Kafka's own exceptions carry no stack, on which the source launcher stumbles.
            System.err.println(e);
            System.exit(1);
        }
    }

    static void run(String[] args) throws Exception {
        FileQuorumStateStore store = new FileQuorumStateStore(new File(args[1]));
        if (args[0].equals("write")) {
            ReplicaKey voted = ReplicaKey.of(Integer.parseInt(args[3]), Uuid.fromString(args[4]));
            ElectionState state = ElectionState.withVotedCandidate(Integer.parseInt(args[2]), voted, Set.of());
            store.writeElectionState(state, KRaftVersion.KRAFT_VERSION_1);
            return;
        }
        if (args[0].equals("write-v0")) {
            ReplicaKey voted = ReplicaKey.of(Integer.parseInt(args[3]), ReplicaKey.NO_DIRECTORY_ID);
            ElectionState state = ElectionState.withVotedCandidate(Integer.parseInt(args[2]), voted, Set.of(1, 2, 3));
            store.writeElectionState(state, KRaftVersion.KRAFT_VERSION_0);
            return;
        }
        Optional<ElectionState> state = store.readElectionState();
        System.out.println("epoch=" + state.get().epoch());
        System.out.println("leader=" + state.get().leaderIdOrSentinel());
        state.get().optionalVotedKey().ifPresent(key -> {
            System.out.println("voted=" + key.id());
            System.out.println("directory=" + key.directoryId().map(Uuid::toString).orElse("unknown"));
        });
    }
}
