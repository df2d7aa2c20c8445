package leasehold;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/**
 * What every kind of lock can do; the operand that tells which lock is {@code kind:name}.
 *
 * <pre>
 *   lock        THREAD LOCK [LEASE_MS]          without a lease the watchdog renews it
 *   trylock     THREAD LOCK WAIT_MS LEASE_MS    true or false; lease -1: the watchdog renews it
 *   unlock      THREAD LOCK
 *   isheld      THREAD LOCK
 *   holdcount   THREAD LOCK
 *   islocked    LOCK
 *   ttl         LOCK
 *   forceunlock LOCK
 * </pre>
 */
final class LockCommands {
    private final Session session;

    LockCommands(Session session) {
        this.session = session;
    }

    void register(Commands commands) {
        commands.onThread("lock", this::lock);
        commands.onThread("trylock", operands -> lockOf(operands)
                .tryLock(operands.number(1), operands.number(2), TimeUnit.MILLISECONDS));
        commands.onThread("unlock", operands -> {
            lockOf(operands).unlock();
            return null;
        });
        commands.onThread("isheld", operands -> lockOf(operands).isHeldByCurrentThread());
        commands.onThread("holdcount", operands -> lockOf(operands).getHoldCount());
        commands.anywhere("islocked", operands -> lockOf(operands).isLocked());
        commands.anywhere("ttl", operands -> lockOf(operands).remainTimeToLive());
        commands.anywhere("forceunlock", operands -> lockOf(operands).forceUnlock());
    }

    private Object lock(Operands operands) {
        if (operands.has(1)) {
            lockOf(operands).lock(operands.number(1), TimeUnit.MILLISECONDS);
        } else {
            lockOf(operands).lock();
        }
        return null;
    }

    private RLock lockOf(Operands operands) {
        return Locks.find(session.clients(), operands.text(0));
    }
}
