package leasehold;

import java.util.HashMap;
import java.util.Map;

/** The commands by name, and whether it matters on which thread each of them runs. */
final class Commands {
    /** What it returns is the value of the reply; null for a command that has none. */
    interface Command {
        Object run(Operands operands) throws Exception;
    }

    private final Map<String, Command> onThread = new HashMap<>();
    private final Map<String, Command> anywhere = new HashMap<>();

    /** The first word after the command names the thread; it is not among the operands. */
    void onThread(String name, Command command) {
        onThread.put(name, command);
    }

    void anywhere(String name, Command command) {
        anywhere.put(name, command);
    }

    boolean namesThread(String name) {
        return onThread.containsKey(name);
    }

    Object run(String name, Operands operands) throws Exception {
        Command command = onThread.getOrDefault(name, anywhere.get(name));
        if (command == null) {
            throw new IllegalArgumentException("no such command: " + name);
        }
        return command.run(operands);
    }
}
