//! Several locks as one: all or none, whatever their kinds and order. Invariants: no two valid
//! guards share a name; nobody waits forever, or for long when all is free; no hold of a process
//! stays that neither holds nor wants it.

use fastrand::Rng;
use futures::FutureExt;
use futures::future::BoxFuture;
use leasehold::test_util::Dumped;
use leasehold::{Client, Lease, Lock};
use tokio::time::sleep;

use crate::lasting::Lasting;
use crate::ledger::{Entry, Wish};
use crate::plan::{Plan, ms, name_of, us};
use crate::user::{Request, User, Users};
use crate::workload::Workload;
use crate::world::World;

/// The kind of all members of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberKind {
    Plain,
    Fair,
    Fenced,
    Spin,
    String,
    Write,
}

const KINDS: [MemberKind; 6] = [
    MemberKind::Plain,
    MemberKind::Fair,
    MemberKind::Fenced,
    MemberKind::Spin,
    MemberKind::String,
    MemberKind::Write,
];

pub(crate) struct Several {
    kinds: Vec<MemberKind>,
    /// Waits whose names are all free.
    idle: Lasting<u64>,
    /// Names that are held for a process that neither holds nor wants them.
    orphans: Lasting<(usize, usize)>,
}

/// The process that this field belongs to.
fn holder(world: &World, number: usize, held: &Dumped) -> Option<usize> {
    let engine = number % world.engines.len();
    let text = held
        .content
        .iter()
        .map(|part| String::from_utf8_lossy(part).into_owned());
    let text: Vec<_> = text.collect();
    let holds = |id: &String| text.iter().any(|part| part.starts_with(id));
    world
        .processes
        .iter()
        .position(|process| holds(&process.ids[engine]))
}

fn member(clients: &[Client], kind: MemberKind, number: usize) -> Lock {
    let (client, name) = (&clients[number % clients.len()], name_of(number));
    match kind {
        MemberKind::Plain => client.lock(name),
        MemberKind::Fair => client.fair_lock(name),
        MemberKind::Fenced => client.fenced_lock(name).into(),
        MemberKind::Spin => client.spin_lock(name),
        MemberKind::String => client.string_lock(name),
        MemberKind::Write => client.read_write_lock(name).split().1,
    }
}

impl Several {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut rng = plan.kind.rng(plan.seed, 0x4B1D);
        let all_plain = rng.bool();
        let mut drawn = || {
            if all_plain {
                MemberKind::Plain
            } else {
                KINDS[rng.usize(0..KINDS.len())]
            }
        };
        let kinds = (0..plan.names).map(|_| drawn()).collect();
        Several {
            kinds,
            idle: Lasting::default(),
            orphans: Lasting::default(),
        }
    }

    fn held(world: &World) -> Vec<Option<Dumped>> {
        let dumps: Vec<_> = world.engines.iter().map(|engine| engine.dump()).collect();
        let engines = dumps.len();
        let held = |number: usize| dumps[number % engines].get(name_of(number).as_bytes());
        (0..world.plan.names)
            .map(|number| held(number).cloned())
            .collect()
    }
}

impl Workload for Several {
    fn users(&mut self, world: &World, process: usize, rng: &mut Rng) -> Users {
        world.users(process, rng, &self.kinds, |user| user.run().boxed())
    }

    fn look(&mut self, world: &World) {
        let held = Several::held(world);
        let wishes = world.ledger.wishes();
        let free = |wish: &Wish| wish.names.iter().all(|name| held[*name].is_none());
        self.idle.are(
            wishes
                .iter()
                .filter(|(_, wish)| free(wish))
                .map(|(id, _)| *id),
        );
        let entries = world.ledger.entries().into_iter().map(|entry| entry.wish);
        let wanted: Vec<Wish> = wishes.into_values().chain(entries).collect();
        let mut orphans = Vec::new();
        for (name, held) in held.iter().enumerate() {
            let Some(process) = held.as_ref().and_then(|held| holder(world, name, held)) else {
                continue;
            };
            let knows = |wish: &Wish| wish.actor.process == process && wish.names.contains(&name);
            if !wanted.iter().any(knows) {
                orphans.push((name, process));
            }
        }
        self.orphans.are(orphans);
        self.idle
            .check(&world.ledger, "all is free for", world.plan.prompt_within());
        self.orphans.check(
            &world.ledger,
            "nobody holds or wants",
            world.plan.orphans_within(),
        );
    }

    /// The next client that comes by removes the places of dead waiters of fair locks.
    fn pass_by<'a>(&'a self, world: &'a World) -> BoxFuture<'a, ()> {
        async {
            for (number, kind) in self.kinds.iter().enumerate() {
                let lock = member(world.witnesses(), *kind, number);
                if let Ok(guard) = lock.try_lock_now(Lease::Fixed(ms(1000))).await {
                    drop(guard.unlock().await);
                }
            }
        }
        .boxed()
    }

    fn stays(&self, key: &str) -> bool {
        let fenced = self
            .kinds
            .iter()
            .enumerate()
            .filter(|(_, kind)| **kind == MemberKind::Fenced);
        let counter = |(number, _)| format!("redisson_lock_token:{{{}}}", name_of(number));
        fenced.map(counter).any(|counter| counter == key)
    }
}

impl User<Vec<MemberKind>> {
    async fn run(mut self) {
        // Some users take the members one by one, in another order than a multi lock.
        let old_school = self.actor.number == 3;
        while !self.is_over() {
            self.pauses().await;
            let mut names: Vec<_> = (0..self.shared.len()).collect();
            self.rng.shuffle(&mut names);
            names.truncate(self.rng.usize(1..=4));
            if old_school {
                names.truncate(2);
                names.sort_unstable_by(|one, other| other.cmp(one));
                Box::pin(self.one_by_one(&names)).await;
            } else {
                Box::pin(self.together(names)).await;
            }
        }
    }

    fn member(&self, number: usize) -> Lock {
        member(&self.clients, self.shared[number], number)
    }

    async fn together(&mut self, names: Vec<usize>) {
        let lock = Lock::multi(names.iter().map(|number| self.member(*number)));
        let request = self.request();
        let Some(entry) = Box::pin(self.take(&lock, names, request)).await else {
            return;
        };
        self.works(&entry).await;
        self.extends(&entry).await;
        self.lets_go(entry).await;
    }

    async fn take(&mut self, lock: &Lock, names: Vec<usize>, request: Request) -> Option<Entry> {
        let wish = Wish::new(self.actor, names);
        let entry = self.takes(wish, request, request.take(lock)).await?;
        if let Some(rival) = self.ledger.rival(&entry) {
            self.violation(&format!("{:?} beside {rival:?}", entry.wish));
        }
        Some(entry)
    }

    /// Like a program that does not use multi locks.
    async fn one_by_one(&mut self, names: &[usize]) {
        let mut entries = Vec::new();
        for number in names {
            let lock = self.member(*number);
            let request = Request {
                cancel_at: None,
                ..self.request()
            };
            match Box::pin(self.take(&lock, vec![*number], request)).await {
                Some(entry) => entries.push(entry),
                None => break,
            }
        }
        sleep(us(self.rng.u64(0..100_000))).await;
        for entry in entries {
            self.lets_go(entry).await;
        }
    }
}
