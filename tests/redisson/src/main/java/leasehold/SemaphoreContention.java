package leasehold;

import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RedissonClient;

/** A semaphore is checked from outside it: never are more in than there are permits. */
final class SemaphoreContention {
    /** Waits for one permit; what is returned gives it back. */
    interface Permits {
        Runnable take() throws InterruptedException;
    }

    private final Permits permits;
    private final RAtomicLong inside;
    private final long limit;
    private final AtomicLong most = new AtomicLong();

    /** {@code plain} must be another client than the one of the semaphore. */
    SemaphoreContention(Permits permits, RedissonClient plain, String counterKey, long limit) {
        this.permits = permits;
        this.limit = limit;
        inside = plain.getAtomicLong(counterKey);
    }

    String run(Crowd crowd) throws Exception {
        return crowd.run(() -> round(crowd)) + " most=" + most;
    }

    private void round(Crowd crowd) throws InterruptedException {
        long asked = System.nanoTime();
        Runnable giveBack = permits.take();
        try {
            crowd.waitedSince(asked);
            long now = inside.incrementAndGet();
            most.accumulateAndGet(now, Math::max);
            crowd.check(now <= limit);
            crowd.work();
            inside.decrementAndGet();
        } finally {
            giveBack.run();
        }
    }
}
