package leasehold.faults;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** One worker: asks, holds and writes, releases, rests. Its thread is the owner that Redisson knows. */
final class Worker implements Runnable {
    /** How often a section writes to the resource. */
    private static final long STEP_MILLIS = 5;

    private final int number;
    private final RedissonClient redisson;
    private final History history;
    private final Orders orders;
    private final Random random;
    private final String[] names;
    private final int waitMillis;
    private final Arguments.Span hold;
    private final Arguments.Span think;
    private final OutputStream resource;
    private final BufferedReader answers;

    Worker(int number, RedissonClient redisson, Arguments arguments, History history, Orders orders)
            throws IOException {
        this.number = number;
        this.redisson = redisson;
        this.history = history;
        this.orders = orders;
        random = new Random(arguments.seed() ^ ((long) history.process() << 32 | number));
        names = arguments.text("names").split(",");
        waitMillis = arguments.number("wait-ms");
        hold = arguments.span("hold-ms");
        think = arguments.span("think-ms");
        String[] address = arguments.text("resource").split(":");
        var socket = new Socket(address[0], Integer.parseInt(address[1]));
        socket.setTcpNoDelay(true);
        resource = socket.getOutputStream();
        answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
    }

    @Override
    public void run() {
        try {
            while (!orders.stopping()) {
                turn("plain:" + names[random.nextInt(names.length)]);
                orders.pause(oneOf(think));
            }
        } catch (IOException | InterruptedException error) {
            Client.fail(error);
        }
    }

    private void turn(String name) throws IOException, InterruptedException {
        RLock lock = redisson.getLock(name);
        tell(name, "asked", "\"mode\":\"exclusive\"");
        try {
            // Without a lease: the watchdog renews it.
            if (!lock.tryLock(waitMillis, TimeUnit.MILLISECONDS)) {
                tell(name, "refused", "\"error\":\"NotAcquired\",\"timeout\":true");
                return;
            }
        } catch (RuntimeException error) {
            tell(name, "refused", error(error) + ",\"timeout\":false");
            return;
        }
        tell(name, "granted", "");
        section(name);
        tell(name, "releasing", "");
        try {
            lock.unlock();
            tell(name, "released", "");
        } catch (RuntimeException error) {
            tell(name, "released", error(error));
        }
    }

    /** Nothing local says whether the lock is still held: it goes on believing for a random time. */
    private void section(String name) throws IOException, InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(oneOf(hold));
        while (System.nanoTime() - end < 0 && !orders.stopping()) {
            orders.block();
            tell(name, "held", "");
            write(name);
            Thread.sleep(STEP_MILLIS);
        }
    }

    private void write(String name) throws IOException {
        String line = "W " + name + " - " + history.process() + "." + number + "\n";
        resource.write(line.getBytes(StandardCharsets.UTF_8));
        String answer = answers.readLine();
        if (!"ok".equals(answer) && !"refused".equals(answer)) {
            throw new IOException("the resource says " + answer);
        }
        tell(name, "wrote", "\"accepted\":" + answer.equals("ok"));
    }

    private void tell(String name, String event, String more) {
        history.tell(number, name, event, more);
    }

    private long oneOf(Arguments.Span span) {
        return span.from() + random.nextInt(span.to() - span.from() + 1);
    }

    private static String error(RuntimeException error) {
        return "\"error\":\"" + error.getClass().getSimpleName() + "\"";
    }
}
