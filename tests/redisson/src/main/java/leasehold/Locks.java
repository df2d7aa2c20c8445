package leasehold;

import java.util.Arrays;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Finds the lock that {@code kind:name} means. */
final class Locks {
    private Locks() {}

    /** The name may hold further colons; that of a multi lock is those of its members: a+b+c. */
    static RLock find(RedissonClient client, String kindAndName) {
        int colon = kindAndName.indexOf(':');
        if (colon < 0) {
            throw new IllegalArgumentException("expected kind:name, got " + kindAndName);
        }
        String name = kindAndName.substring(colon + 1);
        return switch (kindAndName.substring(0, colon)) {
            case "lock" -> client.getLock(name);
            case "nonreentrant" -> client.getNonReentrantLock(name);
            case "fair" -> client.getFairLock(name);
            case "nonreentrantfair" -> client.getNonReentrantFairLock(name);
            case "fenced" -> client.getFencedLock(name);
            case "spin" -> client.getSpinLock(name);
            case "read" -> client.getReadWriteLock(name).readLock();
            case "write" -> client.getReadWriteLock(name).writeLock();
            case "multi" -> client.getMultiLock(
                    Arrays.stream(name.split("\\+")).map(client::getLock).toArray(RLock[]::new));
            default -> throw new IllegalArgumentException("no such kind: " + kindAndName);
        };
    }
}
