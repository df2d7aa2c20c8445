import com.github.fppt.jedismock.RedisServer;

/** Serves jedis-mock until its input ends, on the port that it is given. */
final class Serve {
    public static void main(String[] arguments) throws Exception {
        RedisServer.newRedisServer(Integer.parseInt(arguments[0])).start();
        System.in.transferTo(java.io.OutputStream.nullOutputStream());
        System.exit(0);
    }
}
