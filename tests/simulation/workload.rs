//! What happens in a world, by kind: its users, and the checker of their history.

use fastrand::Rng;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::user::Users;
use crate::world::World;

pub(crate) trait Workload: Send + Sync {
    /// The futures of the users of one process.
    fn users(&mut self, world: &World, process: usize, rng: &mut Rng) -> Users;

    /// Checks the invariants. Called every few milliseconds of simulated time.
    fn look(&mut self, world: &World);

    /// A server is about to forget these names: their keys are lost, or its clock jumps.
    fn forgets(&mut self, world: &World, _engine: usize, names: &[usize]) {
        world.ledger.void(names);
    }

    /// A server is about to lose all its data.
    fn is_emptied(&mut self) {}

    /// Keys that are evicted together with that of a name.
    fn evicted_with(&self, _name: usize, _rng: &mut Rng) -> Vec<String> {
        Vec::new()
    }

    /// The weather has cleared: repairs what users cannot repair.
    fn repair<'a>(&'a mut self, _world: &'a World) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    /// Everybody is gone: checks the run as a whole.
    fn check_the_whole(&self, _world: &World) {}

    /// Does what only the next user would do.
    fn pass_by<'a>(&'a self, _world: &'a World) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    /// Whether a key may stay when everybody is gone.
    fn stays(&self, _key: &str) -> bool {
        false
    }

    /// What else is wrong at the end. Asking may remove what dead clients have left.
    fn left<'a>(&'a self, _world: &'a World) -> BoxFuture<'a, Vec<String>> {
        std::future::ready(Vec::new()).boxed()
    }
}
