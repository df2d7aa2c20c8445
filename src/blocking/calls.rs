//! Macros that make blocking methods from the async methods of the same name.

/// Settings of a type whose fields are `inner`, the async value, and `driver`.
macro_rules! settings {
    ($async:ident: $( $call:ident($($argument:ident: $type:ty),*); )*) => {$(
        #[doc = concat!(
            "As [`", stringify!($async), "::", stringify!($call),
            "`](crate::", stringify!($async), "::", stringify!($call), "). Does not block.",
        )]
        #[must_use = "it is moved into the returned value"]
        pub fn $call(self $(, $argument: $type)*) -> Self {
            Self { inner: self.inner.$call($($argument),*), driver: self.driver }
        }
    )*};
}

/// Methods of a type whose fields are `inner`, the async value, and `driver`.
///
/// The function after `=` makes the blocking value from the async one and the driver.
macro_rules! blocking_calls {
    ($async:ident: $(
        $call:ident($($argument:ident: $type:ty),*) -> $done:ty $(= $blocking:expr)?;
    )*) => {$(
        #[doc = concat!(
            "Blocks the thread; otherwise as [`", stringify!($async), "::", stringify!($call),
            "`](crate::", stringify!($async), "::", stringify!($call), ").",
        )]
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
