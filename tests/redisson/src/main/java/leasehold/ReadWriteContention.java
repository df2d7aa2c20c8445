package leasehold;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/**
 * A read/write lock is checked from outside it. Everybody raises a counter of his kind on the way
 * in and only then looks at the other one: of two that must not be in together, the later one sees
 * the earlier.
 */
final class ReadWriteContention {
    private final RReadWriteLock lock;
    private final int writePercent;
    private final RAtomicLong readers;
    private final RAtomicLong writers;
    private final AtomicInteger reads = new AtomicInteger();
    private final AtomicInteger writes = new AtomicInteger();
    private final AtomicLong mostReaders = new AtomicLong();

    /** {@code plain} must be another client than the one of the lock. */
    ReadWriteContention(
            RReadWriteLock lock, RedissonClient plain, String counterKey, int writePercent) {
        this.lock = lock;
        this.writePercent = writePercent;
        readers = plain.getAtomicLong(counterKey + ":readers");
        writers = plain.getAtomicLong(counterKey + ":writers");
    }

    String run(Crowd crowd) throws Exception {
        String counted = crowd.run(() -> round(crowd));
        return counted + " reads=" + reads + " writes=" + writes + " most_readers=" + mostReaders;
    }

    private void round(Crowd crowd) throws InterruptedException {
        if (ThreadLocalRandom.current().nextInt(100) < writePercent) {
            write(crowd);
        } else {
            read(crowd);
        }
    }

    private void write(Crowd crowd) throws InterruptedException {
        RLock side = lock.writeLock();
        long asked = System.nanoTime();
        side.lock();
        try {
            crowd.waitedSince(asked);
            crowd.check(writers.incrementAndGet() == 1 && readers.get() == 0);
            crowd.work();
            writers.decrementAndGet();
        } finally {
            side.unlock();
        }
        writes.incrementAndGet();
    }

    private void read(Crowd crowd) throws InterruptedException {
        RLock side = lock.readLock();
        long asked = System.nanoTime();
        side.lock();
        try {
            crowd.waitedSince(asked);
            mostReaders.accumulateAndGet(readers.incrementAndGet(), Math::max);
            crowd.check(writers.get() == 0);
            crowd.work();
            readers.decrementAndGet();
        } finally {
            side.unlock();
        }
        reads.incrementAndGet();
    }
}
