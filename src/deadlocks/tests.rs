//! Random graphs, and an oracle that shares no code with the search: the transitive closure.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::*;

const GRAPHS: usize = 100_000;

/// Which waiters each one reaches in one step or more.
fn closure(edges: &Edges) -> Vec<Vec<bool>> {
    let many = edges.len();
    let mut reaches = vec![vec![false; many]; many];
    for (waiter, others) in edges.iter().enumerate() {
        for other in others {
            reaches[waiter][*other] = true;
        }
    }
    for through in 0..many {
        for from in 0..many {
            for to in 0..many {
                reaches[from][to] |= reaches[from][through] && reaches[through][to];
            }
        }
    }
    reaches
}

fn is_cyclic(edges: &Edges) -> bool {
    let reaches = closure(edges);
    (0..edges.len()).any(|waiter| reaches[waiter][waiter])
}

#[test]
fn cycles_are_those_of_the_transitive_closure() {
    let mut random = Rng::with_seed(24);
    let (mut cyclic, mut several) = (0, 0);
    for graph in 0..GRAPHS {
        let many = random.usize(1..9);
        let most = random.usize(0..=3);
        let others = |random: &mut Rng| {
            (0..random.usize(0..=most))
                .map(|_| random.usize(0..many))
                .collect()
        };
        let edges: Edges = (0..many).map(|_| others(&mut random)).collect();
        let found = cycles(&edges);
        assert_eq!(!found.is_empty(), is_cyclic(&edges), "{graph}: {edges:?}");
        let mut left = edges.clone();
        let mut seen = HashSet::new();
        for cycle in &found {
            for (waiter, next) in pairs(cycle) {
                assert!(
                    edges[waiter].contains(&next),
                    "{graph}: {edges:?} {cycle:?}"
                );
                assert!(seen.insert(waiter), "{graph}: {edges:?} {cycle:?}");
                left[waiter].clear();
            }
        }
        assert!(!is_cyclic(&left), "{graph}: {edges:?} {found:?}");
        cyclic += usize::from(!found.is_empty());
        several += usize::from(found.len() > 1);
    }
    // The graphs are of both kinds.
    assert!((GRAPHS / 4..GRAPHS / 4 * 3).contains(&cyclic), "{cyclic}");
    assert!(several > GRAPHS / 100, "{several}");
}

/// A waiter of one task of one client, with the numbers of keys.
#[derive(Clone, Debug)]
struct Task {
    client: usize,
    id: u64,
    waits_for: usize,
    reads: bool,
    holds: Vec<(usize, Kind, u64)>,
}

fn task(random: &mut Rng, id: u64, keys: usize) -> Task {
    let hold = |random: &mut Rng| {
        let kind = [Kind::Lock, Kind::Read, Kind::Write][random.usize(0..3)];
        (random.usize(0..keys), kind, random.u64(0..1000))
    };
    Task {
        client: random.usize(0..4),
        id,
        waits_for: random.usize(0..keys),
        reads: random.bool(),
        holds: (0..random.usize(1..3)).map(|_| hold(random)).collect(),
    }
}

fn said(task: &Task, number: u64) -> Said {
    let key = |key: usize| -> Arc<str> { Arc::from(format!("k{key}")) };
    let held = |(at, kind, field): &(usize, Kind, u64)| HeldLock {
        kind: *kind,
        key: key(*at),
        field: Arc::from(format!("{}:{field}", task.client)),
        purpose: None,
    };
    Said {
        client: task.client.to_string(),
        name: None,
        number,
        wait: LongWait {
            id: task.id,
            waited: Duration::from_secs(1),
            kind: if task.reads { Kind::Read } else { Kind::Lock },
            key: key(task.waits_for),
            holds: task.holds.iter().map(held).collect(),
        },
    }
}

/// Who waits for whom at both times: only tasks that did not change, of clients that live.
fn oracle(first: &[Task], second: &[Task], lives: &[bool]) -> bool {
    let lasting: Vec<_> = first
        .iter()
        .filter(|task| lives[task.client])
        .filter_map(|task| {
            let then = second.iter().find(|then| then.id == task.id)?;
            let holds = task.holds.iter().filter(|hold| then.holds.contains(hold));
            Some((task, holds.copied().collect::<Vec<_>>()))
        })
        .collect();
    let waits = |task: &Task, holds: &[(usize, Kind, u64)]| {
        holds
            .iter()
            .any(|(key, kind, _)| *key == task.waits_for && !(task.reads && *kind == Kind::Read))
    };
    let edges = lasting.iter().map(|(task, _)| {
        let all = lasting.iter().enumerate();
        all.filter(|(_, (_, holds))| waits(task, holds))
            .map(|(other, _)| other)
            .collect()
    });
    is_cyclic(&edges.collect())
}

#[test]
fn only_what_lasted_between_two_looks_is_a_deadlock() {
    let mut random = Rng::with_seed(24);
    let (mut lasted, mut ended) = (0, 0);
    for graph in 0..GRAPHS {
        let (many, keys) = (random.u64(1..7), random.usize(1..6));
        let first: Vec<_> = (0..many).map(|id| task(&mut random, id, keys)).collect();
        let mut second = first.clone();
        // Some get their lock and wait anew, some release a lock, which others take.
        for (at, now) in second.iter_mut().enumerate() {
            match random.u32(0..12) {
                0 => *now = task(&mut random, many + at as u64, keys),
                1 => drop(now.holds.pop()),
                2 => now.holds.iter_mut().for_each(|hold| hold.2 += 1000),
                _ => {}
            }
        }
        let lives: Vec<_> = (0..4).map(|_| random.u32(0..8) > 0).collect();
        let then = |task: &Task| said(task, if lives[task.client] { 2 } else { 1 });
        let before: Vec<_> = first.iter().map(|task| said(task, 1)).collect();
        let after: Vec<_> = second.iter().map(then).collect();
        let found = cycles(&edges(&lasting(&before, &after)));
        let expected = oracle(&first, &second, &lives);
        assert_eq!(
            !found.is_empty(),
            expected,
            "{graph}: {first:?} {second:?} {lives:?}"
        );
        // No cycle that lasts is given up too early.
        assert!(!expected || !cycles(&edges(&remaining(&before, &after))).is_empty());
        let was = !cycles(&edges(&before)).is_empty();
        lasted += usize::from(expected);
        ended += usize::from(was && !expected);
    }
    assert!(
        lasted > GRAPHS / 20 && ended > GRAPHS / 20,
        "{lasted} {ended}"
    );
}
