package leasehold;

import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * Several threads that take one lock again and again, and check from outside the lock that nobody
 * else is in: a counter that is raised on the way in must then be 1. A second key tells which side
 * was in last, so that a side that is starved is seen.
 */
final class Contention {
    private static final String SIDE = "java";

    private final RLock lock;
    private final RAtomicLong inside;
    private final RBucket<String> last;
    private final AtomicInteger rounds = new AtomicInteger();
    private final AtomicInteger violations = new AtomicInteger();
    private final AtomicInteger switches = new AtomicInteger();
    private final AtomicLong longestWait = new AtomicLong();

    /** {@code plain} must be another client than the one of the lock. */
    Contention(RLock lock, RedissonClient plain, String counterKey) {
        this.lock = lock;
        inside = plain.getAtomicLong(counterKey);
        last = plain.getBucket(counterKey + ":last", StringCodec.INSTANCE);
    }

    String run(int threads, int roundsEach) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            var runs = new ArrayList<Callable<Void>>();
            for (int i = 0; i < threads; i++) {
                runs.add(() -> repeat(roundsEach));
            }
            for (Future<Void> run : pool.invokeAll(runs)) {
                run.get();
            }
        } finally {
            pool.shutdownNow();
        }
        return "rounds=" + rounds + " violations=" + violations + " switches=" + switches
                + " longest_wait_ms=" + longestWait.get() / 1_000_000;
    }

    private Void repeat(int times) {
        for (int i = 0; i < times; i++) {
            long asked = System.nanoTime();
            lock.lock();
            try {
                longestWait.accumulateAndGet(System.nanoTime() - asked, Math::max);
                if (inside.incrementAndGet() != 1) {
                    violations.incrementAndGet();
                }
                if (!SIDE.equals(last.getAndSet(SIDE))) {
                    switches.incrementAndGet();
                }
                inside.decrementAndGet();
            } finally {
                lock.unlock();
            }
            rounds.incrementAndGet();
        }
        return null;
    }
}
