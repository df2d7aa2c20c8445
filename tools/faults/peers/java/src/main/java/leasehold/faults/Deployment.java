package leasehold.faults;

import java.util.Arrays;
import org.redisson.config.Config;

/** The configuration of Redisson. All settings except the watchdog's timeout are the defaults. */
final class Deployment {
    private Deployment() {}

    static Config config(Arguments arguments) {
        var config = new Config();
        config.setLockWatchdogTimeout(arguments.number("lease-ms"));
        String url = arguments.text("url");
        String[] parts = url.substring(url.indexOf("://") + "://".length()).split("/", 2);
        switch (arguments.text("deployment")) {
            case "single" -> config.useSingleServer().setAddress(url);
            case "sentinel" -> config.useSentinelServers()
                    .setMasterName(parts[1])
                    .addSentinelAddress(addresses(parts[0]));
            case "cluster" -> config.useClusterServers().addNodeAddress(addresses(parts[0]));
            default -> throw new IllegalArgumentException("unknown deployment");
        }
        return config;
    }

    private static String[] addresses(String hosts) {
        return Arrays.stream(hosts.split(",")).map(host -> "redis://" + host).toArray(String[]::new);
    }
}
