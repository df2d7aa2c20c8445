package leasehold.faults;

import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;

/** Writes the history of this process to standard output, each event without delay. */
final class History {
    private static final long NANOS = 1_000_000_000L;

    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final int process;

    History(int process) {
        this.process = process;
    }

    int process() {
        return process;
    }

    /** {@code more} are further fields, as JSON. On Linux, nanoTime is CLOCK_MONOTONIC; a test checks that. */
    void tell(int worker, String name, String event, String more) {
        long at = System.nanoTime();
        Instant now = Instant.now();
        long wall = now.getEpochSecond() * NANOS + now.getNano();
        String line = "{\"at\":" + at + ",\"wall\":" + wall + ",\"process\":" + process + ",\"worker\":" + worker
                + (name.isEmpty() ? "" : ",\"name\":\"" + name + "\"")
                + ",\"event\":\"" + event + "\""
                + (more.isEmpty() ? "" : "," + more) + "}\n";
        synchronized (out) {
            out.print(line);
            out.flush();
        }
    }

    void sampleEverySecond() {
        var thread = new Thread(() -> {
            try {
                while (true) {
                    tell(0, "", "sample", sample());
                    Thread.sleep(1000);
                }
            } catch (IOException | InterruptedException error) {
                Client.fail(error);
            }
        }, "samples");
        thread.setDaemon(true);
        thread.start();
    }

    private static String sample() throws IOException {
        List<String> status = Files.readAllLines(Path.of("/proc/self/status"));
        return "\"rss_kib\":" + number(status, "VmRSS:")
                + ",\"threads\":" + number(status, "Threads:")
                + ",\"descriptors\":" + new File("/proc/self/fd").list().length;
    }

    private static long number(List<String> status, String name) {
        String line = status.stream().filter(each -> each.startsWith(name)).findFirst().orElseThrow();
        return Long.parseLong(line.split("\\s+")[1]);
    }
}
