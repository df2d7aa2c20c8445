package leasehold.faults;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The orders from standard input: {@code stop}, {@code freeze-before-write UNTIL} and {@code block MS}. The end of the input
 * means {@code stop}.
 */
final class Orders {
    /** Stops a process, and returns when it is stopped, so that the caller does not run on for a moment. */
    private static final String STOP = "kill -STOP $0; for i in $(seq 100); do "
            + "grep -q '^State:.T' /proc/$0/status && exit; sleep 0.01; done";

    private final long end;
    private final CountDownLatch stop = new CountDownLatch(1);
    /** This and {@code blockedUntil} are times of the monotonic clock. */
    private final AtomicLong freezeUntil = new AtomicLong();

    private volatile long blockedUntil = System.nanoTime();

    Orders(int seconds) {
        end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    }

    void listen() {
        var thread = new Thread(this::read, "orders");
        thread.setDaemon(true);
        thread.start();
    }

    private void read() {
        try {
            var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null && !line.equals("stop"); line = in.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "freeze-before-write" -> freezeUntil.set(Long.parseLong(words[1]));
                    case "block" -> blockedUntil =
                            System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Long.parseLong(words[1]));
                    default -> {}
                }
            }
            stop.countDown();
        } catch (IOException error) {
            Client.fail(error);
        }
    }

    boolean stopping() {
        return stop.getCount() == 0 || System.nanoTime() - end >= 0;
    }

    /**
     * Stops the process if that was ordered and no other worker has done it yet. Returns when the process continues. A
     * shell sends the signal, because the JVM cannot send itself one.
     */
    void freeze() throws IOException, InterruptedException {
        if (System.nanoTime() < freezeUntil.getAndSet(0)) {
            String pid = Long.toString(ProcessHandle.current().pid());
            new ProcessBuilder("sh", "-c", STOP, pid).start().waitFor();
        }
    }

    /**
     * Blocks the thread that called Redisson, as a careless caller would. Redisson's own threads continue, because a
     * program cannot pause its whole JVM.
     */
    void block() throws InterruptedException {
        for (long left = blockedUntil - System.nanoTime(); left > 0; left = blockedUntil - System.nanoTime()) {
            TimeUnit.NANOSECONDS.sleep(left);
        }
    }

    /** Sleeps. Returns early if the worker must stop. */
    void pause(long millis) throws InterruptedException {
        long left = Math.min(TimeUnit.MILLISECONDS.toNanos(millis), end - System.nanoTime());
        stop.await(left, TimeUnit.NANOSECONDS);
    }
}
