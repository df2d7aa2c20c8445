import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Rust and Java write one ledger: the other half of {@code src/bin/mixed.rs}. */
public class Ledger {
  public static void main(String[] arguments) throws Exception {
    Path ledger = Path.of(arguments[1]);
    int entries = Integer.parseInt(arguments[2]);
    Config config = new Config();
    config.useSingleServer().setAddress(arguments[0]);
    RedissonClient redisson = Redisson.create(config);
    RLock lock = redisson.getFairLock("example:ledger");
    for (int entry = 0; entry < entries; entry++) {
      if (!lock.tryLock(60, TimeUnit.SECONDS)) {
        throw new IllegalStateException("not acquired in time");
      }
      try {
        List<String> lines = Files.readAllLines(ledger);
        int last = lines.isEmpty() ? 0 : Integer.parseInt(lines.get(lines.size() - 1).split(" ")[0]);
        String line = (last + 1) + " java " + ProcessHandle.current().pid() + "\n";
        Files.writeString(ledger, line, StandardOpenOption.APPEND);
      } finally {
        lock.unlock();
      }
    }
    System.out.println(entries + " entries");
    redisson.shutdown();
  }
}
