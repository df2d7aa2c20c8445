package leasehold.faults;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;

/** The command line: {@code --name value} pairs, all required. */
final class Arguments {
    private final Map<String, String> values = new HashMap<>();

    Arguments(String[] words) {
        for (int i = 0; i + 1 < words.length; i += 2) {
            values.put(words[i].substring("--".length()), words[i + 1]);
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    int number(String name) {
        return Integer.parseInt(text(name));
    }

    long seed() {
        return Long.parseUnsignedLong(text("seed"));
    }

    /** {@code FROM-TO} in milliseconds. */
    Span span(String name) {
        String[] ends = text(name).split("-");
        return new Span(Integer.parseInt(ends[0]), Integer.parseInt(ends[1]));
    }

    record Span(int from, int to) {
        long pick(Random random) {
            return from + random.nextInt(to - from + 1);
        }

        Span notOver(int most) {
            return new Span(Math.min(from, most), Math.min(to, most));
        }
    }
}
