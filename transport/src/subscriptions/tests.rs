//! Access for the model of a connection's threads.

use super::*;

impl SubscriptionRegistry {
    pub(crate) fn channels(&self) -> Vec<String> {
        self.0
            .lock()
            .channels
            .keys()
            .map(ToString::to_string)
            .collect()
    }
}
