package leasehold;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Reads commands from stdin, a line each, and prints exactly one line in reply to each.
 *
 * <pre>
 *   7 lock worker-1 lock:orders:42          ->  7 ok
 *   8 unlock worker-2 lock:orders:42        ->  8 err IllegalMonitorStateException attempt to ...
 *   9 lock worker-1 nonreentrant:orders:42  ->  9 unsupported 'org.redisson.api.RLock ...'
 * </pre>
 *
 * The first word is the request's id: several may be in flight, and replies come in the order in
 * which the work is done. A command that names a thread runs on that thread, one after another, so
 * that Redisson sees one owner; the others run on a thread of their own. The process ends when
 * stdin does, so it cannot outlive the test that started it.
 *
 * It is compiled with one version of Redisson and also runs with others. What this code asks for and
 * the version at hand does not have is unsupported.
 */
public final class Driver {
    private final PrintStream replies = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    private final ExecutorService unnamed = Executors.newCachedThreadPool(Driver::daemon);
    private final Commands commands = new Commands();

    private Driver() {
        var session = new Session();
        session.register(commands);
        new LockCommands(session).register(commands);
        new FairCommands(session).register(commands);
        new SemaphoreCommands(session).register(commands);
        new PermitCommands(session).register(commands);
        new LatchCommands(session).register(commands);
        new ContentionCommands(session).register(commands);
    }

    public static void main(String[] args) throws IOException {
        new Driver().serve();
        Runtime.getRuntime().halt(0);
    }

    private void serve() throws IOException {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isBlank()) {
                accept(line.strip().split(" +"));
            }
        }
    }

    private void accept(String[] words) {
        String id = words[0];
        String name = words.length > 1 ? words[1] : "";
        String[] rest = Arrays.copyOfRange(words, Math.min(2, words.length), words.length);
        if (commands.namesThread(name) && rest.length > 0) {
            var operands = new Operands(Arrays.copyOfRange(rest, 1, rest.length));
            worker(rest[0]).execute(() -> answer(id, () -> commands.run(name, operands)));
        } else {
            var operands = new Operands(rest);
            unnamed.execute(() -> answer(id, () -> commands.run(name, operands)));
        }
    }

    private void answer(String id, Callable<Object> work) {
        String reply;
        try {
            Object value = work.call();
            reply = value == null ? "ok" : "ok " + value;
        } catch (Throwable t) { // an Error too: each command has a reply
            String missing = missing(t);
            reply = missing != null
                    ? "unsupported " + missing
                    : "err " + t.getClass().getSimpleName() + " " + String.valueOf(t.getMessage());
        }
        synchronized (replies) {
            replies.print(id + " " + reply.replaceAll("\\R", " ") + "\n");
            replies.flush();
        }
    }

    /**
     * What this version of Redisson does not have, or null. It must be this code that asks for it: what
     * Redisson lacks inside is its fault.
     */
    private static String missing(Throwable t) {
        StackTraceElement at = t.getStackTrace().length > 0 ? t.getStackTrace()[0] : null;
        String text = String.valueOf(t.getMessage()).replace('/', '.');
        if (at == null) {
            return null;
        }
        if (t instanceof UnsupportedOperationException && at.getClassName().startsWith("org.redisson.")) {
            return at.getClassName() + "." + at.getMethodName();
        }
        boolean asked = at.getClassName().startsWith("leasehold.") && text.contains("org.redisson.");
        return t instanceof LinkageError && asked ? text : null;
    }

    private ExecutorService worker(String name) {
        return threads.computeIfAbsent(name, n -> Executors.newSingleThreadExecutor(task -> {
            Thread thread = daemon(task);
            thread.setName(n);
            return thread;
        }));
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    }
}
