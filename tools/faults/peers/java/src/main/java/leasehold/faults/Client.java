package leasehold.faults;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * One client process of the published fault run, with the locks of Redisson: tools/faults/src/peers.rs.
 *
 * <p>Events go to standard output as tools/faults/src/history.rs has them; {@link Orders} reads those of standard input.
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
