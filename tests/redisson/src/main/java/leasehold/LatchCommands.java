package leasehold;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;

/**
 * A count that threads wait for; the thread only tells who waits.
 *
 * <pre>
 *   latch.set       NAME N                   whether there was no count yet
 *   latch.countdown NAME
 *   latch.count     NAME
 *   latch.delete    NAME                     whether there was one
 *   latch.await     THREAD NAME [WAIT_MS]    whether it is 0; without a limit true
 * </pre>
 */
final class LatchCommands {
    private final Session session;

    LatchCommands(Session session) {
        this.session = session;
    }

    void register(Commands commands) {
        commands.anywhere("latch.set", operands -> latch(operands).trySetCount(operands.number(1)));
        commands.anywhere("latch.countdown", operands -> {
            latch(operands).countDown();
            return null;
        });
        commands.anywhere("latch.count", operands -> latch(operands).getCount());
        commands.anywhere("latch.delete", operands -> latch(operands).delete());
        commands.onThread("latch.await", this::await);
    }

    private Object await(Operands operands) throws InterruptedException {
        if (operands.has(1)) {
            return latch(operands).await(operands.number(1), TimeUnit.MILLISECONDS);
        }
        latch(operands).await();
        return true;
    }

    private RCountDownLatch latch(Operands operands) {
        return session.client().getCountDownLatch(operands.text(0));
    }
}
