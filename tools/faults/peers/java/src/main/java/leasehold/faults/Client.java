package leasehold.faults;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * A client process of the published fault run that uses the locks of Redisson: tools/faults/src/peers.rs.
 *
 * <p>It writes events to standard output in the format of tools/faults/src/history.rs. {@link Orders} reads orders from
 * standard input.
 */
public final class Client {
    private Client() {}

    public static void main(String[] words) throws Exception {
        var arguments = new Arguments(words);
        var history = new History(arguments.number("process"));
        RedissonClient redisson = Redisson.create(Deployment.config(arguments));
        warmUp(redisson, history.process());
        String library = "redisson " + Redisson.class.getPackage().getImplementationVersion();
        history.tell(0, "", "started",
                "\"pid\":" + ProcessHandle.current().pid() + ",\"library\":\"" + library + "\"");

        var orders = new Orders(arguments.number("seconds"));
        orders.listen();
        history.sampleEverySecond();
        List<Thread> threads = new ArrayList<>();
        for (String workload : arguments.text("workloads").split(",")) {
            for (int each = 0; each < arguments.number("workers"); each++) {
                int number = threads.size();
                var worker = new Worker(number, workload, redisson, arguments, history, orders);
                threads.add(new Thread(worker, "worker-" + number));
            }
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        // Redisson may still have to delete the key that prevents a repeated release.
        redisson.shutdown();
        history.tell(0, "", "ended", "\"counts\":{}");
        Runtime.getRuntime().halt(0);
    }

    /** Takes a lock once, so that the time in which the JVM loads classes does not count as a wait. */
    private static void warmUp(RedissonClient redisson, int process) throws InterruptedException {
        RLock lock = redisson.getLock("warm-up:" + process);
        if (lock.tryLock(1, TimeUnit.SECONDS)) {
            lock.unlock();
        }
    }

    /** Ends the process immediately, because later events would be invalid. */
    static void fail(Exception error) {
        error.printStackTrace();
        Runtime.getRuntime().halt(1);
    }
}
