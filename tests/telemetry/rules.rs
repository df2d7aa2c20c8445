//! Rules and dashboard.
