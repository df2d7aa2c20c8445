package leasehold;

import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** Threads that take the same thing again and again, and what is counted whatever it is. */
final class Crowd {
    /** Enters, checks, works and leaves, once. */
    interface Round {
        void run() throws Exception;
    }

    private final int threads;
    private final int roundsEach;
    private final long workMillis;
    private final long restMillis;
    private final AtomicInteger rounds = new AtomicInteger();
    private final AtomicInteger violations = new AtomicInteger();
    private final AtomicLong longestWaitNanos = new AtomicLong();

    Crowd(int threads, int roundsEach, long workMillis, long restMillis) {
        this.threads = threads;
        this.roundsEach = roundsEach;
        this.workMillis = workMillis;
        this.restMillis = restMillis;
    }

    /** Returns when every thread has had all its rounds, and what was counted meanwhile. */
    String run(Round round) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            var runs = new ArrayList<Callable<Void>>();
            for (int i = 0; i < threads; i++) {
                runs.add(() -> repeat(round));
            }
            for (Future<Void> run : pool.invokeAll(runs)) {
                run.get();
            }
        } finally {
            pool.shutdownNow();
        }
        return "rounds=" + rounds + " violations=" + violations
                + " longest_wait_ms=" + longestWaitNanos.get() / 1_000_000;
    }

    /** For a round that got in: it began to wait at this {@link System#nanoTime}. */
    void waitedSince(long nanos) {
        longestWaitNanos.accumulateAndGet(System.nanoTime() - nanos, Math::max);
    }

    /** For a round that is in: what must be true of those who are in with it. */
    void check(boolean holds) {
        if (!holds) {
            violations.incrementAndGet();
        }
    }

    void work() throws InterruptedException {
        if (workMillis > 0) {
            Thread.sleep(workMillis);
        }
    }

    private void rest() throws InterruptedException {
        if (restMillis > 0) {
            Thread.sleep(ThreadLocalRandom.current().nextLong(restMillis));
        }
    }

    private Void repeat(Round round) throws Exception {
        for (int i = 0; i < roundsEach; i++) {
            round.run();
            rounds.incrementAndGet();
            rest();
        }
        return null;
    }
}
