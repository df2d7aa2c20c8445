package leasehold;

import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * A lock is checked from outside it: a counter that is raised on the way in must then be 1. A
 * second key tells which side was in last, so that a side that is starved is seen. Of a fenced lock
 * the token must be higher than the last one, whoever had that; it is kept in a third key.
 */
final class Contention {
    private static final String SIDE = "java";

    private final RLock lock;
    private final boolean isFenced;
    private final RAtomicLong inside;
    private final RBucket<String> last;
    private final RAtomicLong token;
    private final AtomicInteger switches = new AtomicInteger();

    /** {@code plain} must be another client than the one of the lock. */
    Contention(RLock lock, boolean isFenced, RedissonClient plain, String counterKey) {
        this.lock = lock;
        this.isFenced = isFenced; // old versions have no such class to ask
        inside = plain.getAtomicLong(counterKey);
        last = plain.getBucket(counterKey + ":last", StringCodec.INSTANCE);
        token = plain.getAtomicLong(counterKey + ":token");
    }

    String run(Crowd crowd) throws Exception {
        return crowd.run(() -> round(crowd)) + " switches=" + switches;
    }

    private void round(Crowd crowd) throws InterruptedException {
        long asked = System.nanoTime();
        lock.lock();
        try {
            crowd.waitedSince(asked);
            crowd.check(inside.incrementAndGet() == 1);
            if (isFenced) {
                long mine = ((RFencedLock) lock).getToken();
                crowd.check(token.getAndSet(mine) < mine);
            }
            if (!SIDE.equals(last.getAndSet(SIDE))) {
                switches.incrementAndGet();
            }
            crowd.work();
            inside.decrementAndGet();
        } finally {
            lock.unlock();
        }
    }
}
