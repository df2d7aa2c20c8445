package leasehold.faults;

import java.time.Duration;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** A lock or a semaphore that a worker takes. Its name in the history is its key in Redis. */
interface Place {
    /** The number of permits of a semaphore. */
    int PERMITS = 2;

    /** Picks the lock with this number. */
    interface Choice {
        Place pick(int number);
    }

    static Choice of(String workload, RedissonClient redisson, Random random) {
        return number -> {
            String name = workload + ":" + number;
            return switch (workload) {
                case "plain" -> new OfLock(name, "exclusive", redisson.getLock(name));
                case "fair" -> new OfLock(name, "exclusive", redisson.getFairLock(name));
                // Two readers for each writer.
                case "read-write" -> random.nextInt(3) == 0
                        ? new OfLock(name, "exclusive", redisson.getReadWriteLock(name).writeLock())
                        : new OfLock(name, "shared", redisson.getReadWriteLock(name).readLock());
                case "semaphore" -> new OfSemaphore(name, redisson.getSemaphore(name));
                default -> throw new IllegalArgumentException("unknown workload: " + workload);
            };
        };
    }

    String name();

    /** The mode in the history. */
    String mode();

    /** Whether this is a lock, which has leases and holders and can be re-entered. */
    boolean isLock();

    /** Takes it. With a lease of 0, the watchdog renews it. */
    boolean take(long waitMillis, long leaseMillis) throws InterruptedException;

    /** Checks the lock as the documentation says. */
    boolean isHeld();

    /** Takes the lock again and releases it once. False if it could not be taken. */
    boolean reenter();

    void release();

    /** Creates the permits if they do not exist. A server that restarted empty has lost them. */
    void prepare();

    record OfLock(String name, String mode, RLock lock) implements Place {
        @Override
        public boolean isLock() {
            return true;
        }

        @Override
        public boolean take(long waitMillis, long leaseMillis) throws InterruptedException {
            return leaseMillis == 0
                    ? lock.tryLock(waitMillis, TimeUnit.MILLISECONDS)
                    : lock.tryLock(waitMillis, leaseMillis, TimeUnit.MILLISECONDS);
        }

        @Override
        public boolean isHeld() {
            return lock.isHeldByCurrentThread();
        }

        @Override
        public boolean reenter() {
            boolean taken = lock.tryLock();
            if (taken) {
                lock.unlock();
            }
            return taken;
        }

        @Override
        public void release() {
            lock.unlock();
        }

        @Override
        public void prepare() {}
    }

    record OfSemaphore(String name, RSemaphore semaphore) implements Place {
        @Override
        public String mode() {
            return "permit";
        }

        @Override
        public boolean isLock() {
            return false;
        }

        @Override
        public boolean take(long waitMillis, long leaseMillis) throws InterruptedException {
            return semaphore.tryAcquire(Duration.ofMillis(waitMillis));
        }

        /** Always true, because a semaphore does not know its holders. */
        @Override
        public boolean isHeld() {
            return true;
        }

        @Override
        public boolean reenter() {
            throw new UnsupportedOperationException();
        }

        @Override
        public void release() {
            semaphore.release();
        }

        @Override
        public void prepare() {
            semaphore.trySetPermits(PERMITS);
        }
    }
}
