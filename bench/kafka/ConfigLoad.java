import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Closed loop of incrementalAlterConfigs through Kafka's own client, one admin client and one call in flight a client.
 * Arguments: CONTROLLERS CLIENTS SECONDS WARMUP_SECONDS VALUE_BYTES [PROPERTIES_FILE]. One JSON object on stdout.
 */
public class ConfigLoad {
    static volatile boolean measuring;
    static volatile boolean stopped;
    static final AtomicInteger failures = new AtomicInteger();

    /** One client: its next call starts when the last one is answered. */
    static final class Client {
        final Admin admin;
        final ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, "");
        final List<AlterConfigOp> change;
        final List<Long> latencies = new ArrayList<>();
        final CountDownLatch done = new CountDownLatch(1);

        Client(int number, String controllers, String value, Properties common) {
            Properties properties = new Properties();
            properties.putAll(common);
            properties.put("bootstrap.controllers", controllers);
            properties.put("client.id", "bench-" + number);
            admin = Admin.create(properties);
            change = List.of(new AlterConfigOp(new ConfigEntry("bench-" + number, value), AlterConfigOp.OpType.SET));
        }

        void next() {
            if (stopped) {
                done.countDown();
                return;
            }
            boolean counted = measuring;
            long start = System.nanoTime();
            admin.incrementalAlterConfigs(Map.of(resource, change)).all().whenComplete((nothing, error) -> {
                if (error != null) failures.incrementAndGet();
                else if (counted) latencies.add(System.nanoTime() - start);
                next();
            });
        }
    }

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[1]);
        double seconds = Double.parseDouble(args[2]);
        double warmup = Double.parseDouble(args[3]);
        String value = "v".repeat(Integer.parseInt(args[4]));
        Properties common = new Properties();
        if (args.length > 5) {
            try (Reader file = Files.newBufferedReader(Path.of(args[5]))) {
                common.load(file);
            }
        }
        List<Client> clients = new ArrayList<>();
        for (int i = 0; i < count; i++) clients.add(new Client(i, args[0], value, common));
        for (Client client : clients) client.next();
        Thread.sleep((long) (warmup * 1000));
        long start = System.nanoTime();
        measuring = true;
        Thread.sleep((long) (seconds * 1000));
        measuring = false;
        double elapsed = (System.nanoTime() - start) / 1e9;
        stopped = true;
        for (Client client : clients) client.done.await();
        ClosedLoop.print(clients.stream().map(client -> client.latencies).toList(), failures.get(), elapsed);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
