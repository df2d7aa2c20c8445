package leasehold.faults;

import java.util.Random;

/** What a worker does next. The drivers of all libraries use the same plan. */
record Plan(Place place, long waitMillis, long stayMillis, long stepMillis, Doing doing) {
    /** Milliseconds between two checks of a long hold. */
    private static final long LONG_STEP = 20;

    /** What the worker does with a hold besides checking it and writing. */
    enum Doing {
        NOTHING,
        /** The worker checks the lock and writes only at the end of the hold. */
        PAUSED,
        /** The worker takes the lock again and releases it once. */
        REENTERED,
        /** The lease is fixed, and the worker releases the lock before the lease is over. */
        FIXED
    }

    /** Plans a quick hold for workers with an even number, and a long hold for the others. */
    static Plan next(int worker, Place.Choice places, Arguments arguments, Random random) {
        int longest = arguments.number("wait-ms");
        if (worker % 2 == 0) {
            long wait = new Arguments.Span(longest / 10, longest).pick(random);
            long stay = oneOf(4, random) ? 0 : arguments.span("hold-ms").pick(random);
            return new Plan(places.pick(oneOf(8, random) ? 1 : 0), wait, stay, arguments.number("step-ms"), Doing.NOTHING);
        }
        Place place = places.pick(1);
        Doing doing = switch (random.nextInt(8)) {
            case 0 -> Doing.PAUSED;
            case 1 -> place.isLock() ? Doing.REENTERED : Doing.NOTHING;
            case 2 -> place.isLock() ? Doing.FIXED : Doing.NOTHING;
            default -> Doing.NOTHING;
        };
        Arguments.Span stays = arguments.span("long-ms");
        if (doing == Doing.FIXED) {
            // Release well before four fifths of the lease have passed.
            stays = stays.notOver(arguments.number("lease-ms") * 3 / 4);
        }
        return new Plan(place, longest, stays.pick(random), LONG_STEP, doing);
    }

    private static boolean oneOf(int number, Random random) {
        return random.nextInt(number) == 0;
    }
}
