package leasehold;

/** The words after a command. */
final class Operands {
    private final String[] words;

    Operands(String[] words) {
        this.words = words;
    }

    boolean has(int index) {
        return index < words.length;
    }

    String text(int index) {
        if (!has(index)) {
            throw new IllegalArgumentException("operand " + (index + 1) + " is missing");
        }
        return words[index];
    }

    int integer(int index) {
        return Integer.parseInt(text(index));
    }

    /** Milliseconds, mostly. */
    long number(int index) {
        return Long.parseLong(text(index));
    }

    /** 0 if it is left out. */
    long optional(int index) {
        return has(index) ? number(index) : 0;
    }
}
