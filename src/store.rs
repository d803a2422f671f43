//! The only door to diesel.
