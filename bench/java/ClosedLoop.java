import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/** How long the operations of a closed loop took, and the one JSON object that a load generator prints about it. */
final class ClosedLoop {
    private ClosedLoop() {}

    /** Nanoseconds of every operation that counts, of each client; `seconds` is how long was measured. */
    static void print(List<List<Long>> latencies, int failures, double seconds) {
        long[] all = latencies.stream().flatMap(List::stream).mapToLong(Long::longValue).toArray();
        Arrays.sort(all);
        System.out.printf(Locale.ROOT,
            "{\"count\": %d, \"failures\": %d, \"per_second\": %.1f, \"p50_ms\": %.3f, \"p90_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f}%n",
            all.length, failures, all.length / seconds, at(all, .5), at(all, .9), at(all, .99), at(all, 1));
    }

    private static double at(long[] all, double share) {
        return all.length == 0 ? -1 : all[Math.min(all.length - 1, (int) (share * all.length))] / 1e6;
    }
}
