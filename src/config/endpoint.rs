//! Where Redis is, from a URL.
