//! What a world does, by kind: its users, and the checker that looks at it.

use fastrand::Rng;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::user::Users;
use crate::world::World;

pub(crate) trait Workload: Send + Sync {
    /// The lives of the users of one process.
    fn users(&mut self, world: &World, process: usize, rng: &mut Rng) -> Users;

    /// What must hold at every moment; looked at every few milliseconds of simulated time.
    fn look(&mut self, world: &World);

    /// A server is about to forget what it has of these names: keys are lost, or its clock jumps.
    fn forgets(&mut self, world: &World, _engine: usize, names: &[usize]) {
        world.ledger.void(names);
    }

    /// A server is about to lose all it has.
    fn is_emptied(&mut self) {}

    /// Keys that are evicted with that of a name.
    fn evicted_with(&self, _name: usize, _rng: &mut Rng) -> Vec<String> {
        Vec::new()
    }

    /// The weather has cleared: what users cannot mend themselves.
    fn repair<'a>(&'a mut self, _world: &'a World) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    /// Everybody is gone: what the run as a whole must have kept to.
    fn check_the_whole(&self, _world: &World) {}

    /// What only the next user would take away.
    fn pass_by<'a>(&'a self, _world: &'a World) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    /// Whether a key may stay when everybody is gone.
    fn stays(&self, _key: &str) -> bool {
        false
    }

    /// What else is not as it should be then. To ask may take away what the dead have left.
    fn left<'a>(&'a self, _world: &'a World) -> BoxFuture<'a, Vec<String>> {
        std::future::ready(Vec::new()).boxed()
    }
}
