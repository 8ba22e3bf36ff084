import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.common.config.ConfigResource;

/** `CONTROLLERS NAME VALUE`: sets a cluster-wide value through the stock client and reads it back; `-` deletes. */
public class Configs {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.controllers", args[0]);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, "");
        boolean delete = args[2].equals("-");
        AlterConfigOp change = new AlterConfigOp(
            new ConfigEntry(args[1], delete ? null : args[2]),
            delete ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET);
        try (Admin admin = Admin.create(properties)) {
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
            ConfigEntry entry = config.get(args[1]);
            System.out.println("value=" + (entry == null ? "none" : entry.value()));
            QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
            System.out.println("leader=" + quorum.leaderId());
            System.out.println("nodes=" + quorum.nodes().keySet().stream().sorted().toList());
            quorum.voters().forEach(voter -> System.out.println("voter=" + voter.replicaId() + " "
                + voter.replicaDirectoryId() + " " + voter.logEndOffset()));
        }
    }
}
