import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * Loads and probes a ZooKeeper ensemble through its own client. A write is one setData of a znode.
 *
 *   load SERVERS CLIENTS SECONDS WARMUP_SECONDS VALUE_BYTES    closed loop, one write in flight a client, 100 sessions at most;
 *                                                              one JSON object on stdout
 *   probe SERVERS SECONDS OUTPUT_FILE                          one closed loop a server; prints "ready" with the first commit,
 *                                                              and writes the times of commits into the file
 */
public class ZooKeeperLoad {
    static final int SESSION_MS = 30_000;
    static final int CONNECTIONS = 100;
    static final long PAUSE_MS = 2;
    static final long ANSWER_LIMIT_MS = 15_000;
    static volatile boolean measuring;
    static volatile boolean stopped;
    static final AtomicInteger failures = new AtomicInteger();

    /** A session that is open. Returns null when it can't be had before the time is over. */
    static ZooKeeper open(String servers, long limitMs) throws Exception {
        CountDownLatch known = new CountDownLatch(1);
        boolean[] connected = new boolean[1];
        // The first event of a new handle decides: the client's own pause before it tries again is up to a second.
        ZooKeeper handle = new ZooKeeper(servers, SESSION_MS, event -> {
            connected[0] |= event.getState() == KeeperState.SyncConnected;
            known.countDown();
        });
        if (known.await(limitMs, TimeUnit.MILLISECONDS) && connected[0]) return handle;
        handle.close(1);
        return null;
    }

    static void create(ZooKeeper handle, String path) throws Exception {
        try {
            handle.create(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        } catch (KeeperException.NodeExistsException known) {
            return;
        }
    }

    /** One client: its next write starts when the last one is answered. */
    static final class Client {
        final ZooKeeper handle;
        final String path;
        final byte[] value;
        final List<Long> latencies = new ArrayList<>();
        final CountDownLatch done = new CountDownLatch(1);

        Client(int number, ZooKeeper handle, byte[] value) {
            this.handle = handle;
            this.path = "/bench-" + number;
            this.value = value;
        }

        void next() {
            if (stopped) {
                done.countDown();
                return;
            }
            boolean counted = measuring;
            long start = System.nanoTime();
            handle.setData(path, value, -1, (code, where, context, stat) -> {
                if (code != KeeperException.Code.OK.intValue()) failures.incrementAndGet();
                else if (counted) latencies.add(System.nanoTime() - start);
                next();
            }, null);
        }
    }

    static void load(String servers, int count, double seconds, double warmup, int bytes) throws Exception {
        ZooKeeper[] handles = new ZooKeeper[Math.min(count, CONNECTIONS)];
        for (int i = 0; i < handles.length; i++)
            while (handles[i] == null) handles[i] = open(servers, 10_000);
        byte[] value = "v".repeat(bytes).getBytes(StandardCharsets.US_ASCII);
        List<Client> clients = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Client client = new Client(i, handles[i % handles.length], value);
            create(client.handle, client.path);
            clients.add(client);
        }
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
    }

    /** The loops of all servers share the times of commits; the time to run begins with the first one. */
    static final class Probe {
        final long runMs;
        final List<Double> commits = Collections.synchronizedList(new ArrayList<>());
        volatile long endNanos = Long.MAX_VALUE;

        Probe(double seconds) {
            runMs = (long) (seconds * 1000);
        }

        boolean running() {
            return endNanos == Long.MAX_VALUE || System.nanoTime() < endNanos;
        }

        synchronized void committed() {
            if (endNanos == Long.MAX_VALUE) {
                endNanos = System.nanoTime() + runMs * 1_000_000;
                System.out.println("ready");
                System.out.flush();
            }
            commits.add(System.currentTimeMillis() / 1e3);
        }

        void run(String server) {
            byte[] value = {'v'};
            ZooKeeper handle = null;
            while (running()) {
                try {
                    if (handle == null) handle = open(server, 1000);
                    if (handle != null && write(handle, value)) {
                        committed();
                        continue;
                    }
                    if (handle != null) handle.close(1);
                    handle = null;
                    Thread.sleep(PAUSE_MS);
                } catch (Exception error) {
                    handle = null;
                }
            }
        }

        boolean write(ZooKeeper handle, byte[] value) throws Exception {
            CountDownLatch answered = new CountDownLatch(1);
            int[] outcome = new int[1];
            handle.setData("/probe", value, -1, (code, where, context, stat) -> {
                outcome[0] = code;
                answered.countDown();
            }, null);
            return answered.await(ANSWER_LIMIT_MS, TimeUnit.MILLISECONDS) && outcome[0] == KeeperException.Code.OK.intValue();
        }
    }

    static void probe(String servers, double seconds, Path output) throws Exception {
        ZooKeeper first = null;
        while (first == null) first = open(servers, 10_000);
        create(first, "/probe");
        first.close();
        Probe probe = new Probe(seconds);
        for (String server : servers.split(",")) {
            Thread thread = new Thread(() -> probe.run(server));
            thread.setDaemon(true);
            thread.start();
        }
        while (probe.running()) Thread.sleep(10);
        List<Double> commits;
        synchronized (probe.commits) {
            commits = new ArrayList<>(probe.commits);
        }
        Collections.sort(commits);
        String times = commits.stream().map(time -> String.format(Locale.ROOT, "%.4f", time)).collect(Collectors.joining(", "));
        Files.writeString(output, "{\"commits\": [" + times + "]}\n");
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("load"))
            load(args[1], Integer.parseInt(args[2]), Double.parseDouble(args[3]), Double.parseDouble(args[4]), Integer.parseInt(args[5]));
        else probe(args[1], Double.parseDouble(args[2]), Path.of(args[3]));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
