package leasehold;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RSemaphore;

/**
 * Permits that belong to nobody: the thread only tells who waits.
 *
 * <pre>
 *   sem.set        NAME N                   whether there were none yet
 *   sem.acquire    THREAD NAME N
 *   sem.tryacquire THREAD NAME N WAIT_MS    true or false
 *   sem.release    NAME N
 *   sem.add        NAME N
 *   sem.drain      NAME                     how many there were
 *   sem.available  NAME
 * </pre>
 */
final class SemaphoreCommands {
    private final Session session;

    SemaphoreCommands(Session session) {
        this.session = session;
    }

    void register(Commands commands) {
        commands.anywhere("sem.set",
                operands -> semaphore(operands).trySetPermits(operands.integer(1)));
        commands.onThread("sem.acquire", operands -> {
            semaphore(operands).acquire(operands.integer(1));
            return null;
        });
        commands.onThread("sem.tryacquire", operands -> semaphore(operands)
                .tryAcquire(operands.integer(1), operands.number(2), TimeUnit.MILLISECONDS));
        commands.anywhere("sem.release", operands -> {
            semaphore(operands).release(operands.integer(1));
            return null;
        });
        commands.anywhere("sem.add", operands -> {
            semaphore(operands).addPermits(operands.integer(1));
            return null;
        });
        commands.anywhere("sem.drain", operands -> semaphore(operands).drainPermits());
        commands.anywhere("sem.available", operands -> semaphore(operands).availablePermits());
    }

    private RSemaphore semaphore(Operands operands) {
        return session.client().getSemaphore(operands.text(0));
    }
}
