package leasehold;

import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** One Redisson client and the commands that use it. */
final class Session {
    /** Commands whose first operand names the thread, and with it the owner, that they run on. */
    static final Set<String> ON_A_THREAD =
            Set.of("lock", "trylock", "unlock", "isheld", "holdcount", "owner");

    private String url;
    private RedissonClient client;

    /** Runs a command on the calling thread, which is the owner that Redisson sees. */
    Object onThread(String command, String[] operands) throws InterruptedException {
        if (command.equals("owner")) {
            return client().getId() + ":" + Thread.currentThread().getId();
        }
        RLock lock = lock(operands[0]);
        switch (command) {
            case "lock" -> {
                if (operands.length > 1) {
                    lock.lock(Long.parseLong(operands[1]), TimeUnit.MILLISECONDS);
                } else {
                    lock.lock();
                }
                return null;
            }
            case "trylock" -> {
                long wait = Long.parseLong(operands[1]);
                long lease = Long.parseLong(operands[2]); // -1: renewed by the watchdog
                return lock.tryLock(wait, lease, TimeUnit.MILLISECONDS);
            }
            case "unlock" -> {
                lock.unlock();
                return null;
            }
            case "isheld" -> {
                return lock.isHeldByCurrentThread();
            }
            case "holdcount" -> {
                return lock.getHoldCount();
            }
            default -> throw new IllegalArgumentException("no such command: " + command);
        }
    }

    /** Runs a command for which it does not matter who asks. */
    Object anywhere(String command, String[] operands) throws Exception {
        switch (command) {
            case "connect" -> {
                connect(operands[0], operands.length > 1 ? Long.parseLong(operands[1]) : 0);
                return Redisson.class.getPackage().getImplementationVersion();
            }
            case "islocked" -> {
                return lock(operands[0]).isLocked();
            }
            case "ttl" -> {
                return lock(operands[0]).remainTimeToLive();
            }
            case "forceunlock" -> {
                return lock(operands[0]).forceUnlock();
            }
            case "contend" -> {
                int threads = Integer.parseInt(operands[0]);
                int rounds = Integer.parseInt(operands[1]);
                RLock lock = lock(operands[2]);
                RedissonClient plain = Redisson.create(config(url));
                try {
                    return new Contention(lock, plain, operands[3]).run(threads, rounds);
                } finally {
                    plain.shutdown();
                }
            }
            case "shutdown" -> {
                client().shutdown();
                return null;
            }
            default -> throw new IllegalArgumentException("no such command: " + command);
        }
    }

    private void connect(String url, long watchdogMillis) {
        Config config = config(url);
        if (watchdogMillis > 0) {
            config.setLockWatchdogTimeout(watchdogMillis);
        }
        this.url = url;
        client = Redisson.create(config);
    }

    private RedissonClient client() {
        if (client == null) {
            throw new IllegalStateException("connect first");
        }
        return client;
    }

    /** What goes over the wire is Redisson's default; only the number of threads is small. */
    private static Config config(String url) {
        Config config = new Config();
        config.setThreads(4);
        config.setNettyThreads(4);
        config.useSingleServer()
                .setAddress(url)
                .setConnectionMinimumIdleSize(2)
                .setSubscriptionConnectionMinimumIdleSize(1);
        return config;
    }

    /** The lock that {@code kind:name} means. The name may hold further colons. */
    private RLock lock(String kindAndName) {
        int colon = kindAndName.indexOf(':');
        if (colon < 0) {
            throw new IllegalArgumentException("expected kind:name, got " + kindAndName);
        }
        String name = kindAndName.substring(colon + 1);
        return switch (kindAndName.substring(0, colon)) {
            case "lock" -> client().getLock(name);
            case "fair" -> client().getFairLock(name);
            case "fenced" -> client().getFencedLock(name);
            case "spin" -> client().getSpinLock(name);
            case "read" -> client().getReadWriteLock(name).readLock();
            case "write" -> client().getReadWriteLock(name).writeLock();
            default -> throw new IllegalArgumentException("no such kind: " + kindAndName);
        };
    }
}
