package leasehold.faults;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * One client process of the published fault run, with the locks of Redisson: tests/faults/run/peers.rs.
 *
 * <p>Events go to standard output as tests/faults/run/history.rs has them; {@code stop} and
 * {@code block MS} come on standard input.
 */
public final class Client {
    private Client() {}

    public static void main(String[] words) throws Exception {
        var arguments = new Arguments(words);
        var history = new History(arguments.number("process"));
        RedissonClient redisson = Redisson.create(Deployment.config(arguments));
        warmUp(redisson, history.process());
        history.tell(0, "", "started", "\"pid\":" + ProcessHandle.current().pid() + ",\"library\":\"redisson\"");

        var orders = new Orders(arguments.number("seconds"));
        orders.listen();
        history.sampleEverySecond();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < arguments.number("workers"); number++) {
            threads.add(new Thread(new Worker(number, redisson, arguments, history, orders), "worker-" + number));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        // It may still have to delete what guards a release against being repeated.
        redisson.shutdown();
        history.tell(0, "", "ended", "\"counts\":{}");
        Runtime.getRuntime().halt(0);
    }

    /** The JVM loads classes for a while at the first lock: that is none of the waits that are measured. */
    private static void warmUp(RedissonClient redisson, int process) throws InterruptedException {
        RLock lock = redisson.getLock("warm-up:" + process);
        if (lock.tryLock(1, TimeUnit.SECONDS)) {
            lock.unlock();
        }
    }

    /** Nothing that this process says later would be worth anything. */
    static void fail(Exception error) {
        error.printStackTrace();
        Runtime.getRuntime().halt(1);
    }
}
