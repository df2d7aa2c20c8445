//! How long a hold lasts, and in which state it is.
