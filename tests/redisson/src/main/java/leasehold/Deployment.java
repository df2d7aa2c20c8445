package leasehold;

import java.util.Arrays;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.ShardedSubscriptionMode;

/**
 * How Redisson is told where everything is.
 *
 * <pre>
 *   redis://HOST:PORT
 *   redis-sentinel://HOST:PORT[,HOST:PORT...]/MASTER
 *   redis-cluster://HOST:PORT[,HOST:PORT...][?sharded=AUTO|ON|OFF]
 * </pre>
 *
 * What goes over the wire is Redisson's default; only the number of threads and connections is
 * small, and it looks often for changes.
 */
final class Deployment {
    private static final int SCAN_MILLIS = 500;
    private static final String SENTINEL = "redis-sentinel://";
    private static final String CLUSTER = "redis-cluster://";
    private static final String SHARDED = "?sharded=";

    private Deployment() {}

    static Config config(String url) {
        Config config = new Config();
        config.setThreads(4);
        config.setNettyThreads(4);
        if (url.startsWith(CLUSTER)) {
            cluster(config, url.substring(CLUSTER.length()));
        } else if (url.startsWith(SENTINEL)) {
            sentinel(config, url.substring(SENTINEL.length()));
        } else {
            config.useSingleServer()
                    .setAddress(url)
                    .setConnectionMinimumIdleSize(2)
                    .setSubscriptionConnectionMinimumIdleSize(1);
        }
        return config;
    }

    private static void cluster(Config config, String hostsAndMode) {
        int query = hostsAndMode.indexOf(SHARDED);
        var cluster = config.useClusterServers().setScanInterval(SCAN_MILLIS);
        if (query >= 0) {
            String mode = hostsAndMode.substring(query + SHARDED.length());
            cluster.setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(mode));
        }
        cluster.addNodeAddress(
                addresses(query < 0 ? hostsAndMode : hostsAndMode.substring(0, query)));
        few(cluster);
    }

    private static void sentinel(Config config, String hostsAndMaster) {
        String[] parts = hostsAndMaster.split("/", 2);
        var sentinel = config.useSentinelServers().setScanInterval(SCAN_MILLIS);
        few(sentinel.setMasterName(parts[1]).addSentinelAddress(addresses(parts[0])));
    }

    private static String[] addresses(String hosts) {
        return Arrays.stream(hosts.split(",")).map(host -> "redis://" + host).toArray(String[]::new);
    }

    /** What a test asks for it asks of the master: a replica may not have it yet. */
    private static void few(BaseMasterSlaveServersConfig<?> servers) {
        servers.setReadMode(ReadMode.MASTER);
        servers.setMasterConnectionMinimumIdleSize(2);
        servers.setSlaveConnectionMinimumIdleSize(1);
        servers.setSubscriptionConnectionMinimumIdleSize(1);
    }
}
