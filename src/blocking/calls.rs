//! Macros that make methods of a blocking value from those of its async value.
//!
//! The blocking value has the fields `inner`, the async value, and `driver`.

/// Settings. They do not block.
macro_rules! settings {
    ($( $(#[$doc:meta])* $call:ident($($argument:ident: $type:ty),*); )*) => {$(
        $(#[$doc])*
        #[must_use = "it is moved into the returned value"]
        pub fn $call(self $(, $argument: $type)*) -> Self {
            Self { inner: self.inner.$call($($argument),*), driver: self.driver }
        }
    )*};
}

/// Calls that block the thread. The function after `=` makes the blocking value from the async one and the
/// driver.
macro_rules! blocking_calls {
    ($(
        $(#[$doc:meta])*
        $call:ident($($argument:ident: $type:ty),*) -> $done:ty $(= $blocking:expr)?;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// The errors of that method.
        ///
        /// # Panics
        ///
        /// In [async code](crate::blocking#in-async-code).
        #[track_caller]
        pub fn $call(&self $(, $argument: $type)*) -> Result<$done, $crate::Error> {
            let done = self.driver.block_on(self.inner.$call($($argument),*));
            $(let done = done.map(|inner| $blocking(inner, &self.driver));)?
            done
        }
    )*};
}
