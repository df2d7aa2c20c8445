//! What this machine counts of its processes; `None` where there is no `/proc`.

use std::fs;

use crate::report::count;

/// Clock ticks in a second, as `/proc` counts them on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE_BYTES: f64 = 4096.0;

/// User and system time of these processes.
pub(crate) fn cpu_seconds(processes: &[u32]) -> Option<f64> {
    let of = |process: &u32| scheduled_seconds(*process).or_else(|| ticked_seconds(*process));
    processes.iter().map(of).sum()
}

/// To the nanosecond, for all threads that are still there. Without it, a client that needs a
/// millisecond of CPU in a second would need none.
fn scheduled_seconds(process: u32) -> Option<f64> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))
        .ok()?
        .flatten()
    {
        // A thread may have ended meanwhile.
        let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else {
            continue;
        };
        sum += text.split(' ').next()?.parse::<f64>().ok()?;
    }
    (sum > 0.0).then_some(sum / 1e9)
}

fn ticked_seconds(process: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name in brackets, which may hold blanks.
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(ticks(fields.split(' ').skip(11).take(2)))
}

/// Resident memory of these processes.
pub(crate) fn resident_bytes(processes: &[u32]) -> Option<f64> {
    let of = |process: &u32| {
        let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
        Some(text.split(' ').nth(1)?.parse::<f64>().ok()? * PAGE_BYTES)
    };
    processes.iter().map(of).sum()
}

/// In which cores did nothing, of all cores together.
pub(crate) fn idle_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    // `cpu  USER NICE SYSTEM IDLE IOWAIT …`
    Some(ticks(
        stat.lines().next()?.split_whitespace().skip(4).take(2),
    ))
}

fn ticks<'a>(fields: impl Iterator<Item = &'a str>) -> f64 {
    fields
        .filter_map(|field| field.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS_PER_SECOND
}

pub(crate) fn cores() -> std::io::Result<f64> {
    Ok(count(std::thread::available_parallelism()?.get()))
}

#[cfg(test)]
mod tests {
    use super::{cpu_seconds, resident_bytes};

    #[test]
    fn this_process_has_used_cpu_and_memory() {
        let own = [std::process::id()];
        assert!(cpu_seconds(&own) > Some(0.0));
        assert!(resident_bytes(&own) > Some(100_000.0));
        assert_eq!(resident_bytes(&[u32::MAX]), None);
    }
}
