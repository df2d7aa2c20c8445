//! The clock of holds counts what the system says was a suspension, on a system that says so.
//!
//! No test suspends its machine. In a time namespace `CLOCK_BOOTTIME` is ahead by as much as one
//! likes, and a process with a single thread may enter it: for that process the clock jumps, and
//! `CLOCK_MONOTONIC` goes on, as after a suspension. So this is a program without test threads. It
//! needs Linux, `unshare` and the right to use it; elsewhere it says that it was left out.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}

#[cfg(target_os = "linux")]
#[expect(clippy::print_stderr, reason = "it is a program")]
#[expect(clippy::disallowed_methods, reason = "real time is what it is about")]
mod linux {
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;
    use std::process::{Child, Stdio};

    use leasehold_testbed::command;
    use std::time::{Duration, Instant};

    use leasehold::test_util::suspended;
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

    const HOUR: Duration = Duration::from_secs(3600);
    /// What the machine may really be suspended for, and what reading two clocks takes.
    const NOISE: Duration = Duration::from_secs(60);

    pub(super) fn main() {
        let (before, start) = (suspended(), Instant::now());
        assert!(before < NOISE, "{before:?}");
        let ahead = match enter() {
            Ok(ahead) => ahead,
            Err(why) => return eprintln!("skipped: no time namespace: {why}"),
        };
        let after = suspended();
        assert!(
            start.elapsed() < NOISE,
            "the clock of the timers does not jump"
        );
        assert!(
            after.abs_diff(before + ahead) < NOISE,
            "{before:?}, {after:?}"
        );
        assert!(suspended() < after + NOISE, "it is counted once");
        eprintln!(
            "ok: CLOCK_BOOTTIME jumped by {ahead:?}, counted were {:?}",
            after.abs_diff(before)
        );
    }

    /// Enters a namespace whose clock is ahead by the duration that it returns.
    fn enter() -> Result<Duration, String> {
        let hour = HOUR.as_secs().to_string();
        let mut inside = command("unshare")
            .args(["--time", "--boottime", &hour, "sleep", "60"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let entered = namespace_of(&mut inside).and_then(|namespace| {
            let kind = Some(LinkNameSpaceType::Time);
            move_into_link_name_space(namespace.as_fd(), kind).map_err(|error| error.to_string())
        });
        drop(inside.kill());
        drop(inside.wait());
        entered.map(|()| HOUR)
    }

    /// The namespace that a process has made, as soon as it is one.
    fn namespace_of(process: &mut Child) -> Result<File, String> {
        let name = |path: &str| fs::read_link(path).map_err(|error| error.to_string());
        let path = format!("/proc/{}/ns/time_for_children", process.id());
        let own = name("/proc/self/ns/time")?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while name(&path)? == own || !is_set(process.id()) {
            let ended = process.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || Instant::now() > deadline {
                return Err("unshare makes none here".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        File::open(path).map_err(|error| error.to_string())
    }

    /// Whether the offset of the clock was written.
    fn is_set(process: u32) -> bool {
        let offsets = fs::read_to_string(format!("/proc/{process}/timens_offsets"));
        let hour = HOUR.as_secs().to_string();
        offsets.is_ok_and(|text| {
            text.lines()
                .any(|line| line.starts_with("boottime") && line.contains(&hour))
        })
    }
}
