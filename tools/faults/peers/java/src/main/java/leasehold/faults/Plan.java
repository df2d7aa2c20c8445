package leasehold.faults;

import java.util.Random;

/** What a worker is about to do: the same plan in the drivers of all libraries, and in ours. */
record Plan(Place place, long waitMillis, long stayMillis, long stepMillis, Doing doing) {
    /** How often a long hold looks and writes. */
    private static final long LONG_STEP = 20;

    /** What is done with a hold beside looking and writing. */
    enum Doing {
        NOTHING,
        /** It stays without looking, and looks and writes at the end only. */
        PAUSED,
        /** It takes the lock again, and releases it again once. */
        REENTERED,
        /** It has a lease that nobody renews, and leaves before that is over. */
        FIXED
    }

    /** A quick one for workers with an even number, a long one for the others. */
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
            // It has left before four fifths of the lease are over.
            stays = stays.notOver(arguments.number("lease-ms") * 3 / 4);
        }
        return new Plan(place, longest, stays.pick(random), LONG_STEP, doing);
    }

    private static boolean oneOf(int number, Random random) {
        return random.nextInt(number) == 0;
    }
}
