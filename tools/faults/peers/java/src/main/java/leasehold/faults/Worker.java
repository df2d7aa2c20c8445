package leasehold.faults;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RedissonClient;

/** A worker: takes a lock, writes while it holds the lock, releases it, and rests. Redisson identifies it by its thread. */
final class Worker implements Runnable {
    private final int number;
    private final Place.Choice places;
    private final Arguments arguments;
    private final History history;
    private final Orders orders;
    private final Random random;
    private final OutputStream resource;
    private final BufferedReader answers;

    Worker(int number, String workload, RedissonClient redisson, Arguments arguments, History history, Orders orders)
            throws IOException {
        this.number = number;
        this.arguments = arguments;
        this.history = history;
        this.orders = orders;
        random = new Random(arguments.seed() ^ ((long) history.process() << 32 | number));
        places = Place.of(workload, redisson, random);
        prepare(places.pick(0));
        prepare(places.pick(1));
        String[] address = arguments.text("resource").split(":");
        var socket = new Socket(address[0], Integer.parseInt(address[1]));
        socket.setTcpNoDelay(true);
        resource = socket.getOutputStream();
        answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
    }

    @Override
    public void run() {
        try {
            while (!orders.stopping()) {
                turn(Plan.next(number, places, arguments, random));
                orders.pause(arguments.span("think-ms").pick(random));
            }
        } catch (IOException | InterruptedException error) {
            Client.fail(error);
        }
    }

    private void turn(Plan plan) throws IOException, InterruptedException {
        Place place = plan.place();
        long lease = plan.doing() == Plan.Doing.FIXED ? arguments.number("lease-ms") : 0;
        String fixed = lease == 0 ? "" : ",\"fixed_ms\":" + lease;
        tell(place, "asked", "\"mode\":\"" + place.mode() + "\"" + fixed);
        try {
            if (!place.take(plan.waitMillis(), lease)) {
                tell(place, "refused", "\"error\":\"NotAcquired\",\"timeout\":true");
                prepare(place);
                return;
            }
        } catch (RuntimeException error) {
            tell(place, "refused", error(error) + ",\"timeout\":false");
            return;
        }
        tell(place, "granted", "");
        section(plan);
        tell(place, "releasing", "");
        try {
            place.release();
            tell(place, "released", "");
        } catch (RuntimeException error) {
            tell(place, "released", error(error));
        }
    }

    /** Creates the permits of a semaphore. An error is ignored, because each failed wait tries again. */
    private static void prepare(Place place) {
        try {
            place.prepare();
        } catch (RuntimeException error) {
            System.err.println(error);
        }
    }

    /** Works as planned, or until Redisson no longer reports that the lock is held. */
    private void section(Plan plan) throws IOException, InterruptedException {
        Place place = plan.place();
        long leave = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(plan.stayMillis());
        if (plan.doing() == Plan.Doing.PAUSED) {
            tell(place, "did", "\"what\":\"paused\"");
            orders.pause(plan.stayMillis());
        }
        boolean isToReenter = plan.doing() == Plan.Doing.REENTERED;
        while (true) {
            orders.block();
            if (!isHeld(place)) {
                tell(place, "doubted", "");
                return;
            }
            tell(place, "held", "");
            orders.freeze();
            write(place);
            if (isToReenter) {
                isToReenter = false;
                reenter(place);
            }
            if (System.nanoTime() - leave >= 0 || orders.stopping()) {
                return;
            }
            orders.pause(plan.stepMillis());
        }
    }

    /** Asks the server, because Redisson itself does not know the deadline. An error counts as not held. */
    private static boolean isHeld(Place place) {
        try {
            return place.isHeld();
        } catch (RuntimeException error) {
            return false;
        }
    }

    private void reenter(Place place) {
        String more = "";
        try {
            if (!place.reenter()) {
                more = ",\"error\":\"NotAcquired\"";
            }
        } catch (RuntimeException error) {
            more = "," + error(error);
        }
        tell(place, "did", "\"what\":\"reentered\"" + more);
    }

    private void write(Place place) throws IOException {
        String line = "W " + place.name() + " - " + history.process() + "." + number + "\n";
        resource.write(line.getBytes(StandardCharsets.UTF_8));
        String answer = answers.readLine();
        if (!"ok".equals(answer) && !"refused".equals(answer)) {
            throw new IOException("unexpected answer of the resource: " + answer);
        }
        tell(place, "wrote", "\"accepted\":" + answer.equals("ok"));
    }

    private void tell(Place place, String event, String more) {
        history.tell(number, place.name(), event, more);
    }

    private static String error(RuntimeException error) {
        return "\"error\":\"" + error.getClass().getSimpleName() + "\"";
    }
}
