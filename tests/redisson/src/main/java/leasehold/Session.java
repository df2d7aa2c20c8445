package leasehold;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A Redisson client for each deployment (mostly one server), whose objects are driven, and one more
 * that watches from outside.
 *
 * <pre>
 *   connect URL[;URL...] [WATCHDOG_MS]          Redisson's version; 0 leaves the time as it is
 *   owner THREAD [SERVER]                       what Redis sees when this thread holds a lock
 *   parked THREAD                               whether it sleeps until it is told of a release
 * </pre>
 */
final class Session {
    private String url;
    private List<RedissonClient> clients = List.of();
    private RedissonClient plain;

    void register(Commands commands) {
        commands.anywhere("connect", operands -> {
            connect(operands.text(0), operands.optional(1));
            return Redisson.class.getPackage().getImplementationVersion();
        });
        commands.onThread("owner",
                operands -> clients().get((int) operands.optional(0)).getId()
                        + ":" + Thread.currentThread().getId());
        commands.anywhere("parked", operands -> sleepsInSemaphore(operands.text(0)));
    }

    /** In the semaphore in which Redisson counts messages, not in a call to Redis. */
    private static boolean sleepsInSemaphore(String thread) {
        return Thread.getAllStackTraces().entrySet().stream()
                .filter(entry -> entry.getKey().getName().equals(thread))
                .flatMap(entry -> Arrays.stream(entry.getValue()))
                .anyMatch(frame -> frame.getClassName().equals(Semaphore.class.getName()));
    }

    /** That of the first server, on which everything is that has one server. */
    RedissonClient client() {
        return clients().get(0);
    }

    synchronized List<RedissonClient> clients() {
        if (clients.isEmpty()) {
            throw new IllegalStateException("connect first");
        }
        return clients;
    }

    /** For counters and lists: nothing that becomes of the locks' client touches it. */
    synchronized RedissonClient plain() {
        if (plain == null) {
            client(); // or there is no URL
            plain = Redisson.create(Deployment.config(url));
        }
        return plain;
    }

    private synchronized void connect(String urls, long watchdogMillis) {
        url = urls.split(";")[0];
        clients = Arrays.stream(urls.split(";"))
                .map(each -> create(each, watchdogMillis))
                .toList();
    }

    private static RedissonClient create(String url, long watchdogMillis) {
        Config config = Deployment.config(url);
        if (watchdogMillis > 0) {
            config.setLockWatchdogTimeout(watchdogMillis);
        }
        return Redisson.create(config);
    }
}
