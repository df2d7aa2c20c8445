package leasehold;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;

/**
 * What only a fenced lock can do. For the rest it is {@code fenced:name} of {@link LockCommands}.
 *
 * <pre>
 *   locktoken    THREAD NAME [LEASE_MS]          its token
 *   trylocktoken THREAD NAME WAIT_MS LEASE_MS    its token, or null; lease -1: renewed
 *   token        NAME                            the last token that anybody was given
 * </pre>
 */
final class FencedCommands {
    private final Session session;

    FencedCommands(Session session) {
        this.session = session;
    }

    void register(Commands commands) {
        commands.onThread("locktoken", operands -> operands.has(1)
                ? lock(operands).lockAndGetToken(operands.number(1), TimeUnit.MILLISECONDS)
                : lock(operands).lockAndGetToken());
        commands.onThread("trylocktoken", operands -> {
            long wait = operands.number(1);
            long lease = operands.number(2);
            Long token = lock(operands).tryLockAndGetToken(wait, lease, TimeUnit.MILLISECONDS);
            return String.valueOf(token);
        });
        commands.anywhere("token", operands -> lock(operands).getToken());
    }

    private RFencedLock lock(Operands operands) {
        return session.client().getFencedLock(operands.text(0));
    }
}
