package leasehold;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RList;
import org.redisson.api.RLock;
import org.redisson.client.codec.StringCodec;

/**
 * Who enters a fair lock, in which order.
 *
 * <pre>
 *   fair.enter THREAD NAME LIST_KEY HOLD_MS [WAIT_MS]
 *       waits, appends the thread's name to a list, holds; false if it gave up
 * </pre>
 */
final class FairCommands {
    private final Session session;

    FairCommands(Session session) {
        this.session = session;
    }

    void register(Commands commands) {
        commands.onThread("fair.enter", this::enter);
    }

    private Object enter(Operands operands) throws InterruptedException {
        RLock lock = session.client().getFairLock(operands.text(0));
        RList<String> entered = session.plain().getList(operands.text(1), StringCodec.INSTANCE);
        long hold = operands.number(2);
        if (operands.has(3)) {
            if (!lock.tryLock(operands.number(3), TimeUnit.MILLISECONDS)) {
                return false;
            }
        } else {
            lock.lock();
        }
        try {
            entered.add(Thread.currentThread().getName());
            Thread.sleep(hold);
        } finally {
            lock.unlock();
        }
        return true;
    }
}
