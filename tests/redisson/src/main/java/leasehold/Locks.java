package leasehold;

import java.util.Arrays;
import java.util.List;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Finds the lock that {@code kind:name} means. */
final class Locks {
    private Locks() {}

    /**
     * The name may hold further colons; that of a multi lock is those of its members: a+b+c. A red
     * lock has a plain one on each server, all others are on the first: at:2:lock:a means the
     * third.
     */
    static RLock find(List<RedissonClient> servers, String kindAndName) {
        int colon = kindAndName.indexOf(':');
        if (colon < 0) {
            throw new IllegalArgumentException("expected kind:name, got " + kindAndName);
        }
        RedissonClient client = servers.get(0);
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
            case "red" -> red(servers, name);
            case "at" -> {
                String[] serverAndLock = name.split(":", 2);
                yield find(List.of(servers.get(Integer.parseInt(serverAndLock[0]))),
                        serverAndLock[1]);
            }
            default -> throw new IllegalArgumentException("no such kind: " + kindAndName);
        };
    }

    /**
     * Deprecated by Redisson, and still there. The members decide which servers it is on; the
     * client that it is asked of has no part in it.
     */
    @SuppressWarnings("deprecation")
    private static RLock red(List<RedissonClient> servers, String name) {
        RLock[] members =
                servers.stream().map(client -> client.getLock(name)).toArray(RLock[]::new);
        return servers.get(0).getRedLock(members);
    }
}
