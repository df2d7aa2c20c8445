package leasehold.faults;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** What comes on standard input: {@code stop}, or its end; {@code block MS}. */
final class Orders {
    private final long end;
    private final CountDownLatch stop = new CountDownLatch(1);
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
                if (line.startsWith("block ")) {
                    int millis = Integer.parseInt(line.substring("block ".length()));
                    blockedUntil = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
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
     * Keeps the thread that called Redisson from all else, as a careless caller would. Redisson's own threads go on:
     * a pause of the whole JVM cannot be asked for from inside.
     */
    void block() throws InterruptedException {
        for (long left = blockedUntil - System.nanoTime(); left > 0; left = blockedUntil - System.nanoTime()) {
            TimeUnit.NANOSECONDS.sleep(left);
        }
    }

    /** Ends early if the worker is to stop. */
    void pause(long millis) throws InterruptedException {
        long left = Math.min(TimeUnit.MILLISECONDS.toNanos(millis), end - System.nanoTime());
        stop.await(left, TimeUnit.NANOSECONDS);
    }
}
