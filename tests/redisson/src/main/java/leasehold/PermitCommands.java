package leasehold;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RPermitExpirableSemaphore;

/**
 * Permits that have an id and expire. Whoever knows the id may release it: the thread only tells
 * who waits.
 *
 * <pre>
 *   permit.set        NAME N                          whether there were none yet
 *   permit.acquire    THREAD NAME [LEASE_MS]          its id; without a lease it never expires
 *   permit.tryacquire THREAD NAME WAIT_MS LEASE_MS    its id, or null; lease -1: never expires
 *   permit.release    NAME ID
 *   permit.tryrelease NAME ID                         true or false
 *   permit.available  NAME
 *   permit.acquired   NAME
 *   permit.total      NAME
 * </pre>
 */
final class PermitCommands {
    private final Session session;

    PermitCommands(Session session) {
        this.session = session;
    }

    void register(Commands commands) {
        commands.anywhere("permit.set",
                operands -> semaphore(operands).trySetPermits(operands.integer(1)));
        commands.onThread("permit.acquire", operands -> operands.has(1)
                ? semaphore(operands).acquire(operands.number(1), TimeUnit.MILLISECONDS)
                : semaphore(operands).acquire());
        commands.onThread("permit.tryacquire", operands -> String.valueOf(semaphore(operands)
                .tryAcquire(operands.number(1), operands.number(2), TimeUnit.MILLISECONDS)));
        commands.anywhere("permit.release", operands -> {
            semaphore(operands).release(operands.text(1));
            return null;
        });
        commands.anywhere("permit.tryrelease",
                operands -> semaphore(operands).tryRelease(operands.text(1)));
        commands.anywhere("permit.available", operands -> semaphore(operands).availablePermits());
        commands.anywhere("permit.acquired", operands -> semaphore(operands).acquiredPermits());
        commands.anywhere("permit.total", operands -> semaphore(operands).getPermits());
    }

    private RPermitExpirableSemaphore semaphore(Operands operands) {
        return session.client().getPermitExpirableSemaphore(operands.text(0));
    }
}
