package leasehold;

import java.util.concurrent.TimeUnit;

/**
 * Threads that contend, with each other and with whoever else uses the same counters in Redis.
 * Every one of them has so many rounds, and holds for the time given, or no longer than it takes
 * to count; between two rounds it rests, for at most the time given. All reply
 * {@code rounds=8 violations=0 longest_wait_ms=3}, and more.
 *
 * <pre>
 *   contend    THREADS ROUNDS KIND:NAME COUNTER_KEY [WORK_MS] [REST_MS]
 *              switches=
 *   contendrw  THREADS ROUNDS NAME COUNTER_KEY WRITE_SHARE_PERCENT [WORK_MS] [REST_MS]
 *              reads= writes= most_readers=
 *   contendsem THREADS ROUNDS NAME COUNTER_KEY LIMIT [WORK_MS] [REST_MS]
 *              most=
 *   contendpermit THREADS ROUNDS NAME COUNTER_KEY LIMIT [WORK_MS] [REST_MS]
 *              most=; of a semaphore whose permits expire
 * </pre>
 */
final class ContentionCommands {
    private final Session session;

    ContentionCommands(Session session) {
        this.session = session;
    }

    void register(Commands commands) {
        commands.anywhere("contend", operands -> {
            var lock = Locks.find(session.clients(), operands.text(2));
            boolean isFenced = operands.text(2).startsWith("fenced:");
            return new Contention(lock, isFenced, session.plain(), operands.text(3))
                    .run(crowd(operands, 4));
        });
        commands.anywhere("contendrw", operands -> {
            var lock = session.client().getReadWriteLock(operands.text(2));
            int writePercent = operands.integer(4);
            return new ReadWriteContention(lock, session.plain(), operands.text(3), writePercent)
                    .run(crowd(operands, 5));
        });
        commands.anywhere("contendsem", operands -> {
            var semaphore = session.client().getSemaphore(operands.text(2));
            return permits(operands, () -> {
                semaphore.acquire();
                return semaphore::release;
            });
        });
        commands.anywhere("contendpermit", operands -> {
            var semaphore = session.client().getPermitExpirableSemaphore(operands.text(2));
            return permits(operands, () -> {
                String id = semaphore.acquire(1, TimeUnit.MINUTES);
                return () -> semaphore.release(id);
            });
        });
    }

    private String permits(Operands operands, SemaphoreContention.Permits permits)
            throws Exception {
        long limit = operands.number(4);
        return new SemaphoreContention(permits, session.plain(), operands.text(3), limit)
                .run(crowd(operands, 5));
    }

    private static Crowd crowd(Operands operands, int work) {
        return new Crowd(operands.integer(0), operands.integer(1),
                operands.optional(work), operands.optional(work + 1));
    }
}
